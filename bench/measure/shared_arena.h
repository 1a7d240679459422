// SPDX-License-Identifier: Apache-2.0
// One block of random bf16 numbers on the device that stands for the tensors of many shapes in
// turn, so that setting a shape up costs next to nothing.
#pragma once

#include "bench/measure/tensors.h"

namespace catenary::bench {

class SharedArena {
 public:
  // `bytes` in all; no view's copy is larger than `largest`. `scale`: of the numbers. `phase`: an
  // arena's own, in bytes. The device is done after synchronize_context().
  static Expected<SharedArena> make(const Session& session, RandomPool& pool, i64 largest,
                                    i64 bytes, double scale, i64 phase);

  // An arena whose copies lie end to end in this one, which must outlive it.
  TensorArena view(TensorType type) const;

 private:
  TensorArena whole_;
};

}  // namespace catenary::bench
