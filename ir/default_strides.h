// SPDX-License-Identifier: Apache-2.0
// Whether a tensor of a shape may be declared without strides.
#pragma once

#include "ir/types.h"

namespace catenary {

// The symbolic dimension that contiguous strides depend on: one inside a dimension whose size is
// not 1, as in [3, M] and not in [1, M]. -1: none.
inline int inner_symbolic_dim(llvm::ArrayRef<Dim> shape) {
  bool inner = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].symbolic && inner) return static_cast<int>(i);
    inner |= shape[i] != Dim{1, false};
  }
  return -1;
}

}  // namespace catenary
