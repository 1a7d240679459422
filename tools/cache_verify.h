// SPDX-License-Identifier: Apache-2.0
// `catenary cache verify`: the entries against their digests, and against what the compiler makes
// now.
#pragma once

#include <string>
#include <vector>

#include "ir/json.h"
#include "ir/verify/verify.h"
#include "runtime/cache/cache.h"

namespace catenary::tools {

llvm::json::Value entry_json(const CacheEntryInfo& entry);

// Prints path and problem of every damaged entry; with `remove`, removes those. kMismatch: some are
// damaged and stay.
Error verify_entries(CubinCache& cache, bool remove);

// Compiles the kernels of the chain for `archs` (empty: choose_target()) without the cache and
// compares the bytes with those of its entries. kMismatch: some differ. kCacheIo: there is no disk
// cache, or no kernel has an entry.
Error recompile_entries(CubinCache& cache, const VerifiedChain& chain,
                        const std::vector<std::string>& archs);

}  // namespace catenary::tools
