// SPDX-License-Identifier: Apache-2.0
// One arena of random numbers that holds the tensors of many cases in turn, so that the set-up of a
// case costs little.
#pragma once

#include "bench/tuner.h"

namespace catenary::bench {

class SharedArena {
 public:
  // `bytes` of `dtype` in all; no first copy of a view ends after byte `largest`. `scale`: standard
  // deviation. `phase`: where the arena starts in the random block. The device has finished after
  // synchronize_context().
  static Expected<SharedArena> make(const Session& session, RandomPool& pool, DType dtype,
                                    i64 largest, i64 bytes, double scale, i64 phase);

  // A tensor in this arena, which must outlive it: its first copy is at `offset`, the next
  // `distance` bytes further.
  TensorArena view(TensorType type, i64 offset, i64 distance) const;

 private:
  TensorArena whole_;
};

}  // namespace catenary::bench
