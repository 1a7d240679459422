// SPDX-License-Identifier: Apache-2.0
// The canonical form of a chain, which planners read in place of the one that was written. No
// number differs: it is the same chain
//
//  - without casts that change nothing: to the dtype that a value has, or of 16 bits to f32 before
//    an elementwise op, a cast or a reduction, which read f32 anyway;
//  - with equal contractions and reductions computed once, of operands that are equal;
//  - with dimensions as one that follow each other in every tensor and in memory: of
//    y = contract "mk,hdk->mhd"(x, w) the heads h and their elements d are one dimension N. A
//    symbolic dimension is one only with dimensions of size 1.
//
// Parameters and outputs have the same order and the same memory, and maybe fewer dimensions.
#pragma once

#include "ir/rewrite.h"

namespace catenary {

// Pure. Without a chain where the one that was written is canonical.
RewrittenChain canonical_form(const VerifiedChain& chain);

// `type`, of a tensor without a symbol, with `shape`: several of its dimensions as one. Nothing:
// the sizes are others, or the dimensions do not follow each other in memory.
std::optional<TensorType> with_merged_dimensions(const TensorType& type, llvm::ArrayRef<Dim> shape);

}  // namespace catenary
