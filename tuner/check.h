// SPDX-License-Identifier: Apache-2.0
// Are the outputs right? Sampled elements against the float64 reference: ours must be inside their
// error intervals. A peer rounds elsewhere: it must be within a coarse distance, which still
// detects a wrong layout.
#pragma once

#include "ir/reference/compare.h"
#include "tuner/tensors.h"

namespace catenary::tuner {

struct Samples {
  std::string output;        // its name
  TensorType type;           // and type
  std::vector<i64> indices;  // row-major, ascending
  std::vector<Interval> expected;
};

// At most `count` distinct elements, one from each of `count` equal stretches of [0, elements), and
// the corners of the last two dimensions of the first and last matrix.
std::vector<i64> sample_indices(const TensorType& type, int count, u64 seed);

// The reference at sampled elements of every output, from the host copies in `tensors`.
Expected<std::vector<Samples>> sample_reference(const VerifiedChain& chain, const Tensors& tensors,
                                                int count, u64 seed);

// Compares copy 0 of every output at its samples. The device must have finished with them. The
// result of the first output that is wrong; else all their elements, and the worst ratio.
Expected<CompareResult> compare_samples(llvm::ArrayRef<Samples> samples, const Tensors& tensors);

// The largest distance from the reference in units of the root mean square of an output's samples;
// infinite if an element is not finite.
Expected<double> coarse_distance(llvm::ArrayRef<Samples> samples, const Tensors& tensors);

// Distances above this are not rounding.
inline constexpr double kCoarseLimit = 0.05;

}  // namespace catenary::tuner
