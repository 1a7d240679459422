// SPDX-License-Identifier: Apache-2.0
// Why no pack has a chain, in words: what differs from the entry that is nearest to it.
#pragma once

#include <memory>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/lookup/chain_request.h"
#include "runtime/pack/pack.h"

namespace catenary {

// "the nearest entry, 'layer' of llm.ctnpack, has M in 1..64 (asked: 65..128)". With no entry of
// the same operations it says so. Reads at most some hundred entries; what cannot be read is passed
// over.
std::string nearest_text(const ChainRequest& request,
                         llvm::ArrayRef<std::shared_ptr<const Pack>> packs);

}  // namespace catenary
