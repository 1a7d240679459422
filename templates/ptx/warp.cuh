// SPDX-License-Identifier: Apache-2.0
// Shuffles, votes, elect.sync, named barriers, register reallocation. PTX ISA 9.7.9 (shfl.sync),
// 9.7.13 (barrier, vote.sync, elect.sync), 9.7.19 (setmaxnreg). All 32 lanes execute every function
// convergently.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// `value` of lane `lane` (mod 32).
CATENARY_DEVICE u32 shuffle_index(u32 value, u32 lane) {
  u32 v;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(v) : "r"(value), "r"(lane));
  return v;
}

// `value` of lane (own lane ^ mask).
CATENARY_DEVICE u32 shuffle_xor(u32 value, u32 mask) {
  u32 v;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=r"(v)
               : "r"(value), "r"(mask));
  return v;
}

// `value` of the lane `distance` below; this lane's own where there is none.
CATENARY_DEVICE u32 shuffle_up(u32 value, u32 distance) {
  u32 v;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, 0x0, 0xffffffff;"
               : "=r"(v)
               : "r"(value), "r"(distance));
  return v;
}

// `value` of the lane `distance` above; this lane's own where there is none.
CATENARY_DEVICE u32 shuffle_down(u32 value, u32 distance) {
  u32 v;
  asm volatile("shfl.sync.down.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=r"(v)
               : "r"(value), "r"(distance));
  return v;
}

CATENARY_DEVICE bool vote_any(bool predicate) {
  u32 v;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.b32 p, %1, 0;\nvote.sync.any.pred q, p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, q;\n}"
      : "=r"(v)
      : "r"(static_cast<u32>(predicate)));
  return v != 0;
}

CATENARY_DEVICE bool vote_all(bool predicate) {
  u32 v;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.b32 p, %1, 0;\nvote.sync.all.pred q, p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, q;\n}"
      : "=r"(v)
      : "r"(static_cast<u32>(predicate)));
  return v != 0;
}

// Bit l: lane l's predicate.
CATENARY_DEVICE u32 vote_ballot(bool predicate) {
  u32 v;
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\nvote.sync.ballot.b32 %0, p, 0xffffffff;\n}"
               : "=r"(v)
               : "r"(static_cast<u32>(predicate)));
  return v;
}

// True in exactly one lane, the same one each time. sm_90.
CATENARY_DEVICE bool elect_one() {
  u32 v;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(v));
  return v != 0;
}

// This warp's index in the CTA, uniform over lanes for the compiler: branches on it are uniform, as
// wgmma and setmaxnreg require.
CATENARY_DEVICE u32 warp_index() { return shuffle_index(threadIdx.x / 32, 0); }

// Named barrier kId (1 to 15; 0 is cta_barrier's) of `threads` threads, a multiple of 32. Threads
// that sync wait for all, threads that arrive do not wait. Shared memory written before is visible
// after the sync. The id is an immediate: with a register, ptxas reserves all sixteen barriers.
template <int kId>
CATENARY_DEVICE void named_barrier_sync(u32 threads) {
  static_assert(kId > 0 && kId < 16, "barrier 0 belongs to cta_barrier");
  asm volatile("barrier.sync.aligned %0, %1;" ::"n"(kId), "r"(threads) : "memory");
}

template <int kId>
CATENARY_DEVICE void named_barrier_arrive(u32 threads) {
  static_assert(kId > 0 && kId < 16, "barrier 0 belongs to cta_barrier");
  asm volatile("barrier.arrive.aligned %0, %1;" ::"n"(kId), "r"(threads) : "memory");
}

// Registers per thread from here on, a multiple of 8 in 24 .. 256. All warps of a warpgroup execute
// the same instruction. An increase waits until enough registers have been released. sm_90a; needs
// launch bounds.
template <int kRegisters>
CATENARY_DEVICE void set_max_registers_increase() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "setmaxnreg");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
CATENARY_DEVICE void set_max_registers_decrease() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "setmaxnreg");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace catenary
