// SPDX-License-Identifier: Apache-2.0
// Host tensors of all chains of a gradient, for the reference, the simulator and `check`: what one
// chain writes is what later ones read.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "ir/gradient/gradient.h"
#include "ir/random/fill.h"

namespace catenary {

class GradientTensors {
 public:
  // `data`: the forward's parameters. Output gradients and accumulators are normal random numbers
  // of `seed`. Keeps a pointer to both.
  GradientTensors(const Gradient& gradient, const ChainData& data, u64 seed);

  // The parameters of chain `i`. The chains before it have run.
  ReferenceInputs inputs(size_t i) const;

  // Keeps output `output` of chain `i`, in its layout.
  void keep(size_t i, size_t output, std::vector<std::byte> bytes);

  // The same from the reference's values, rounded to the output's dtype.
  void keep(size_t i, size_t output, llvm::ArrayRef<Interval> values);

  // Gives a tensor in the layout of its operand, such as an output gradient.
  void set(GradientKind kind, int index, std::vector<std::byte> bytes) {
    tensors_[{kind, index}] = std::move(bytes);
  }

  // A tensor that is not of the forward's parameters.
  llvm::ArrayRef<std::byte> bytes(GradientKind kind, int index) const {
    return tensors_.at({kind, index});
  }

 private:
  using Key = std::pair<GradientKind, int>;

  const Gradient& gradient_;
  const ChainData& data_;
  std::map<Key, std::vector<std::byte>> tensors_;
};

}  // namespace catenary
