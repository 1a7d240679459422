// SPDX-License-Identifier: Apache-2.0
// Is what stands in a tensor right? Sampled elements against the float64 reference: ours inside its
// error intervals, a peer's, whose roundings are its own, within a coarse distance that still tells
// a wrong layout from a right one.
#pragma once

#include "bench/measure/tensors.h"
#include "ir/reference/compare.h"

namespace catenary::bench {

struct Samples {
  TensorType type;           // of the output
  std::vector<i64> indices;  // row-major, ascending
  std::vector<Interval> expected;
};

// `count` distinct elements or fewer: one drawn from each of as many equal stretches of [0,
// elements), and the corners of the last two dimensions of the first and last matrix.
std::vector<i64> sample_indices(const TensorType& type, int count, u64 seed);

// The reference at sampled elements of output 0, from the host copies in `tensors`.
Expected<Samples> sample_reference(const VerifiedChain& chain, const Tensors& tensors, int count,
                                   u64 seed);

// Copy 0 of `output` at the samples; the device must be done with it.
Expected<CompareResult> compare_samples(const Samples& samples, const TensorArena& output);

// The largest distance from the reference in units of the samples' root mean square; infinite where
// an element is not finite.
Expected<double> coarse_distance(const Samples& samples, const TensorArena& output);

// Distances above this are not rounding.
inline constexpr double kCoarseLimit = 0.05;

}  // namespace catenary::bench
