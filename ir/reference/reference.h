// SPDX-License-Identifier: Apache-2.0
// The oracle: evaluates a chain in float64 on operands already rounded to their dtype, and bounds
// how far a correct f32 kernel may be from it. Knows nothing of plans or kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ir/verify/verify.h"

namespace catenary {

// A value and the distance from it that a correct kernel may keep (absolute, >= 0). An error of 0:
// every correct kernel gives exactly this value before the rounding to the output's dtype. An
// infinite error: nothing can be said (a kernel may or may not have met an overflow on the way).
struct Interval {
  double value = 0;
  double error = 0;
};

// Host tensors in their own dtype and strides. `data` points at the first element.
struct HostTensor {
  TensorType type;  // no symbolic dimension
  const void* data = nullptr;
};

// One binding per parameter, in order; a scalar's `data` points at one float.
struct ReferenceInputs {
  llvm::SmallVector<HostTensor, 8> parameters;
  i64 symbol = 0;  // the chain's symbolic size, if it has one
};

// Ragged contractions: group g holds the positions [ends[g - 1], ends[g]) of the ragged label, with
// ends[-1] = 0. Result rows beyond the last end are 0; terms beyond it are not summed.
class ReferenceState;
class Reference {
 public:
  // Checks that the bindings fit the chain and that ragged ends ascend within their label's size
  // (kInvalidArgument otherwise). Keeps a pointer to the chain and to the tensors' data.
  static Expected<Reference> create(const VerifiedChain& chain, const ReferenceInputs& inputs);

  // Evaluates every element of every output on `threads` threads (0: all cores).
  // result[i][j]: output i, element j in row-major order of its shape. Values are before the
  // rounding to the output's dtype.
  std::vector<std::vector<Interval>> evaluate(int threads = 0) const;

  // Element `index` (row-major) of output `i` alone; contractions are formed on demand, once each.
  // For sampling large outputs.
  Interval output_element(int i, i64 index);

  Reference(Reference&&) noexcept;
  Reference& operator=(Reference&&) noexcept;
  ~Reference();

 private:
  explicit Reference(std::unique_ptr<ReferenceState> state);
  std::unique_ptr<ReferenceState> state_;
};

// Do integer inputs, small enough for f32, make every output an exact integer before its last
// rounding? Conservative: no cast, and no rounding to tf32, may feed another op.
bool chain_is_exact(const VerifiedChain& chain);

// f32 value of one stored element, and rounding to storage (nearest even). To tf32 kernels round to
// nearest too, ties away from zero or (`ties_to_even`) by tensor copies.
double load_element(DType dtype, const void* data, i64 index);
void store_element(DType dtype, void* data, i64 index, double value);
double round_to(DType dtype, double value);
double round_to_tf32(double value, bool ties_to_even = false);

// Is `got` (an element of `dtype`, as read by load_element) what a correct kernel may produce?
// Accepts iff round(value - error) <= got <= round(value + error); NaN matches NaN, and an infinity
// or a NaN of the reference must be met exactly.
bool accepts(const Interval& expected, DType dtype, double got);

}  // namespace catenary
