// SPDX-License-Identifier: Apache-2.0
// Ragged terms: a group's last step of K reaches into the terms of the next group, or of nobody.
// Tensor copies do not stop there, so what they brought is overwritten with zeros.
#pragma once

#include "ptx/atomic.cuh"
#include "ptx/shared.cuh"
#include "ptx/warp.cuh"

namespace catenary {

// The lines [live, 64) of each block of 64 k of an MN-major stage (tile/ring.cuh) become zeros, in
// every operand: infinity times zero is NaN. A line is one k, so a swizzle moves nothing out of it.
// All kThreads threads that multiply the stage, converged, each behind its wait for the full phase;
// `thread` counts them from 0.
//
// Generic writes reach wgmma, which reads by the asynchronous proxy, by each writer's proxy fence
// and a barrier behind it (PTX ISA 9.7.15.4, async proxy). The same pair orders them before the
// next copy into the stage, whose producer waits for these threads' release.
//   named barrier kBarrier: kThreads threads, all of which wait; once per call.
template <u32 kStageBytes, u32 kThreads, int kBarrier>
CATENARY_DEVICE void clear_terms(u32 stage, u32 live, u32 thread) {
  constexpr u32 kBlockBytes = 64 * 128;
  static_assert(kStageBytes % kBlockBytes == 0, "a stage is whole blocks of 64 lines");
#pragma unroll 1
  for (u32 block = 0; block < kStageBytes; block += kBlockBytes) {
    for (u32 at = live * 128 + thread * 16; at < kBlockBytes; at += kThreads * 16) {
      st_shared_v4(stage + block + at, U32x4{0, 0, 0, 0});
    }
  }
  fence_proxy_async_shared();
  named_barrier_sync<kBarrier>(kThreads);
}

}  // namespace catenary
