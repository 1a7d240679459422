// SPDX-License-Identifier: Apache-2.0
// What a chain is, apart from its names: the text by which packs find it, and its key. Needs no
// plan and no compiler.
#pragma once

#include <string>

#include "compiler/emit/source.h"
#include "ir/verify/verify.h"
#include "runtime/record/compiled_chain.h"

namespace catenary {

// The chain as print() gives it, with its names replaced by positions, its labels renamed in the
// order of their first use, and every stride written out. Two chains have one canonical text
// exactly if they differ in names only. parse() accepts it.
std::string canonical_text(const VerifiedChain& chain);

// The canonical text without sizes, strides, alignments, dtypes, roles, the symbol's range and the
// places of outputs: equal for chains that differ in these only. For finding what is near; it is no
// chain.
std::string structure_text(const VerifiedChain& chain);
u64 structure_id(const VerifiedChain& chain);  // the first 8 bytes of its SHA-256

// "fuse=1 split_k=0 force_tile= allow_spills=0".
std::string options_text(const ChainOptions& options);

// The identity of a compiled chain: SHA-256 over length-prefixed canonical text, architecture
// ("sm_90a", "host:sm_90a") and options. Covers no library version, no device and no compiler.
KernelKey chain_key(const std::string& canonical, const std::string& arch,
                    const ChainOptions& options);

}  // namespace catenary
