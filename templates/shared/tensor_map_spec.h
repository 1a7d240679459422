// SPDX-License-Identifier: Apache-2.0
// The description of a tensor map, before it is encoded: the arguments of cuTensorMapEncodeTiled.
// The runtime fills it in; the driver or the simulator encodes it. Host code only.
#pragma once

#ifndef __CUDACC__

#include "shared/config.h"
#include "shared/dtype.h"

namespace catenary {

inline constexpr u32 kMaxTensorMapRank = 5;

// The innermost dimension comes first in every array.
struct TensorMapSpec {
  DType dtype = DType::kBF16;
  bool as_tf32 = false;  // f32 elements that TMA loads round to tf32
  u32 rank = 2;
  u64 sizes[kMaxTensorMapRank] = {};        // elements
  u64 strides[kMaxTensorMapRank - 1] = {};  // bytes; the innermost dimension has none
  u32 box[kMaxTensorMapRank] = {};          // elements
  // A stride of s takes every s-th element: the box then holds ceil(box / s) of the dimension. The
  // innermost stride is 1.
  u32 element_strides[kMaxTensorMapRank] = {1, 1, 1, 1, 1};
  Swizzle swizzle = Swizzle::kNone;
  u64 base = 0;  // global address
};

}  // namespace catenary

#endif  // __CUDACC__
