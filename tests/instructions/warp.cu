// SPDX-License-Identifier: Apache-2.0
// ptx/warp.cuh: shuffles and votes, and warpgroups with different register budgets that synchronise
// by named barriers.
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
constexpr u32 kRounds = 5;
}  // namespace

// The output: 10 sections of one word per thread.
extern "C" __global__ void __launch_bounds__(64) warp_exchange(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  const u32 v = ld_global_u32(in + 4 * t);
  const u32 lane = t % 32;
  const u32 leader = vote_ballot(elect_one());
  const u32 again = vote_ballot(elect_one());
  const u32 words[] = {shuffle_index(v, 7 * lane + 3),
                       shuffle_xor(v, 5),
                       shuffle_up(v, 3),
                       shuffle_down(v, 9),
                       vote_any(v == 17),
                       vote_all(v != 17),
                       vote_ballot(v % 2 == 1),
                       leader != 0 && (leader & (leader - 1)) == 0,
                       leader == again,
                       warp_index()};
#pragma unroll
  for (int i = 0; i < 10; ++i) st_global_u32(out + 4 * (64 * i + t), words[i]);
}

// One warpgroup writes a line per round, two read it. Barrier 1, 384 threads: the line is written;
// the writers arrive, the readers sync. Barrier 2, 384 threads: it has been read; the readers
// arrive, the writers sync. Barriers 3 and 4 belong to one reader warpgroup each.
extern "C" __global__ void __launch_bounds__(384, 1)
    warp_named_barriers(const __grid_constant__ P p) {
  const u32 t = threadIdx.x % 128;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  const u32 smem = dynamic_smem();
  griddepcontrol_wait();
  if (warp_index() < 4) {
    set_max_registers_decrease<40>();
    for (u32 round = 0; round < kRounds; ++round) {
      if (round > 0) named_barrier_sync<2>(384);
      st_shared_u32(smem + 4 * t, ld_global_u32(in + 4 * (128 * round + t)));
      named_barrier_arrive<1>(384);
    }
  } else {
    set_max_registers_increase<232>();
    const u32 reader = warp_index() / 4 - 1;
    for (u32 round = 0; round < kRounds; ++round) {
      named_barrier_sync<1>(384);
      const u32 v = ld_shared_u32(smem + 4 * (127 - t));
      if (round + 1 < kRounds) named_barrier_arrive<2>(384);
      const u32 own = smem + 512 + 512 * reader;
      st_shared_u32(own + 4 * t, v);
      if (reader == 0) {
        named_barrier_sync<3>(128);
      } else {
        named_barrier_sync<4>(128);
      }
      const u32 other = ld_shared_u32(own + 4 * ((t + 33) % 128));
      if (reader == 0) {
        named_barrier_sync<3>(128);
      } else {
        named_barrier_sync<4>(128);
      }
      st_global_u32(out + 4 * ((2 * round + reader) * 128 + t), other);
    }
  }
}
