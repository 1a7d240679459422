// SPDX-License-Identifier: Apache-2.0
// Shapes of scales and zeros, which follow from those of the weights that they are for.
#pragma once

#include "ir/chain.h"

namespace catenary {

// The shape of the scales of a weight with `shape`, of two dimensions or more.
llvm::SmallVector<Dim, 4> scale_shape(llvm::ArrayRef<Dim> shape, const ScaleBlock& block);

// Gives scales and zeros of every dequant the shape that its weight needs. Strides stay.
void match_scale_shapes(Chain& chain);

}  // namespace catenary
