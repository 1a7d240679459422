// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/warp.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE u32 shuffle_index(u32 value, u32 lane, sim::Site at = sim::here()) {
  return sim::machine->shuffle(value, lane, sim::Shuffle::kIndex, 0xffffffffu,
                               sim::in(at, __func__));
}

CATENARY_DEVICE u32 shuffle_xor(u32 value, u32 mask, sim::Site at = sim::here()) {
  return sim::machine->shuffle(value, mask, sim::Shuffle::kXor, 0xffffffffu, sim::in(at, __func__));
}

CATENARY_DEVICE u32 shuffle_up(u32 value, u32 distance, sim::Site at = sim::here()) {
  return sim::machine->shuffle(value, distance, sim::Shuffle::kUp, 0xffffffffu,
                               sim::in(at, __func__));
}

CATENARY_DEVICE u32 shuffle_down(u32 value, u32 distance, sim::Site at = sim::here()) {
  return sim::machine->shuffle(value, distance, sim::Shuffle::kDown, 0xffffffffu,
                               sim::in(at, __func__));
}

CATENARY_DEVICE bool vote_any(bool predicate, sim::Site at = sim::here()) {
  return sim::machine->vote(predicate, sim::Vote::kAny, 0xffffffffu, sim::in(at, __func__)) != 0;
}

CATENARY_DEVICE bool vote_all(bool predicate, sim::Site at = sim::here()) {
  return sim::machine->vote(predicate, sim::Vote::kAll, 0xffffffffu, sim::in(at, __func__)) != 0;
}

CATENARY_DEVICE u32 vote_ballot(bool predicate, sim::Site at = sim::here()) {
  return sim::machine->vote(predicate, sim::Vote::kBallot, 0xffffffffu, sim::in(at, __func__));
}

CATENARY_DEVICE bool elect_one(sim::Site at = sim::here()) {
  return sim::machine->elect(0xffffffffu, sim::in(at, __func__));
}

CATENARY_DEVICE u32 warp_index(sim::Site at = sim::here()) {
  return sim::machine->shuffle(threadIdx.x / 32, 0, sim::Shuffle::kIndex, 0xffffffffu,
                               sim::in(at, __func__));
}

template <int kId>
CATENARY_DEVICE void named_barrier_sync(u32 threads, sim::Site at = sim::here()) {
  static_assert(kId > 0 && kId < 16, "barrier 0 belongs to cta_barrier");
  sim::machine->barrier(kId, threads, true, sim::in(at, __func__));
}

template <int kId>
CATENARY_DEVICE void named_barrier_arrive(u32 threads, sim::Site at = sim::here()) {
  static_assert(kId > 0 && kId < 16, "barrier 0 belongs to cta_barrier");
  sim::machine->barrier(kId, threads, false, sim::in(at, __func__));
}

template <int kRegisters>
CATENARY_DEVICE void set_max_registers_increase(sim::Site at = sim::here()) {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "setmaxnreg");
  sim::machine->set_max_registers(kRegisters, true, sim::in(at, __func__));
}

template <int kRegisters>
CATENARY_DEVICE void set_max_registers_decrease(sim::Site at = sim::here()) {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "setmaxnreg");
  sim::machine->set_max_registers(kRegisters, false, sim::in(at, __func__));
}

}  // namespace catenary
