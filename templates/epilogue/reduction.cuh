// SPDX-License-Identifier: Apache-2.0
// How the terms of a reduction combine.
#pragma once

#include "epilogue/ops.cuh"
#include "ptx/math.cuh"

namespace catenary {

// An op, and its result without terms.
template <ReduceOp kOp>
struct Reduction : op_add {
  static CATENARY_DEVICE float identity() { return 0.0f; }
};
template <>
struct Reduction<ReduceOp::kMax> : op_max {
  static CATENARY_DEVICE float identity() { return bits_to_f32(kInfinityBits | kSignBit); }
};

}  // namespace catenary
