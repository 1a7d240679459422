// SPDX-License-Identifier: Apache-2.0
// The oracle: evaluates a chain in float64 on operands that are rounded to their dtype, and bounds
// the error of a correct f32 kernel. Independent of plans and kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ir/verify/verify.h"

namespace catenary {

// A value and the largest absolute error of a correct kernel. Error 0: every correct kernel gives
// exactly this value before the rounding to the output's dtype. Infinite error: any result is
// correct (whether an overflow occurs depends on the kernel's order of operations).
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
// ends[-1] = 0. Result rows after the last end are 0; K positions after it are not summed.
//
// A chain with the word `algebraic_norms` or `rounded_weights` has several forms that are right,
// the written one and other_forms() of it: the interval is then that of the written form, extended
// to what a correct kernel of another one may give. All bounds are those of ordinary chains.
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

  // Only element `index` (row-major) of output `i`; computes contraction elements on demand, each
  // once. For samples of large outputs.
  Interval output_element(int i, i64 index);

  // The elements `indices` of output `i`, on `threads` threads (0: all cores). Each thread computes
  // what its share of them needs.
  std::vector<Interval> output_elements(int i, llvm::ArrayRef<i64> indices, int threads = 0) const;

  Reference(Reference&&) noexcept;
  Reference& operator=(Reference&&) noexcept;
  ~Reference();

 private:
  Reference();
  Reference with_no_elements() const;

  std::unique_ptr<ReferenceState> state_;
  struct Form {
    std::shared_ptr<const VerifiedChain> chain;
    std::unique_ptr<ReferenceState> state;
  };
  std::vector<Form> forms_;  // other ones that are right, too
};

// True if integer inputs that are small enough for f32 make every output an exact integer before
// its last rounding. Conservative: false if a cast or a rounding to tf32 feeds another op.
bool chain_is_exact(const VerifiedChain& chain);

// f32 value of one stored element, and rounding to storage (nearest even). Rounding to tf32 is to
// nearest: ties away from zero by conversion instructions, to even by TMA loads.
double load_element(DType dtype, const void* data, i64 index);
void store_element(DType dtype, void* data, i64 index, double value);
double round_to(DType dtype, double value);
double round_to_tf32(double value, bool ties_to_even = false);

// True if a correct kernel may produce `got` (an element of `dtype`, as read by load_element):
// round(value - error) <= got <= round(value + error). An infinity of the reference must be matched
// by what the dtype rounds it to, a NaN by any NaN.
bool accepts(const Interval& expected, DType dtype, double got);

}  // namespace catenary
