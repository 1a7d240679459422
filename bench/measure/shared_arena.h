// SPDX-License-Identifier: Apache-2.0
// One block of random numbers on the device that holds the tensors of many shapes in turn, so that
// the set-up of a shape costs little.
#pragma once

#include "bench/tuner.h"

namespace catenary::bench {

class SharedArena {
 public:
  // `bytes` of `dtype` in all; no view's copy ends later than `largest`. `scale`: of the numbers.
  // `phase`: an arena's own, in bytes. The device is done after synchronize_context().
  static Expected<SharedArena> make(const Session& session, RandomPool& pool, DType dtype,
                                    i64 largest, i64 bytes, double scale, i64 phase);

  // A tensor in this arena, which must outlive it: its copies are end to end from the start, or
  // `distance` bytes apart from `offset` on.
  TensorArena view(TensorType type) const;
  TensorArena view(TensorType type, i64 offset, i64 distance) const;

 private:
  TensorArena whole_;
};

}  // namespace catenary::bench
