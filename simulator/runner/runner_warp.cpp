// SPDX-License-Identifier: Apache-2.0
// Instructions that the lanes of a warp execute together: bar.warp.sync (PTX ISA 9.7.13.2),
// ldmatrix, stmatrix and mma.sync (9.7.14.5), shfl.sync (9.7.9.6), vote.sync (9.7.13.9) and
// elect.sync (9.7.13.14). Only bar.warp.sync orders memory.
#include <bit>

#include "simulator/model/matrix.h"
#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

constexpr u32 kAllLanes = 0xffffffffu;

// Converges the lanes of a warp. Faults if one of them waits in a warpgroup instruction, which this
// lane would have to execute too.
void converge_warp(Runner& runner, u32 mask, Site site, void* payload,
                   llvm::function_ref<void(Rendezvous&)> act) {
  Thread& thread = runner.self();
  if (thread.index / 128 < thread.cta->warpgroups.size()) {
    const Rendezvous& group = runner.warpgroup_of(thread);
    const u32 first = thread.index % 128 / 32 * 32;
    for (u32 lane = 0; group.open && lane < 32; ++lane) {
      if ((mask >> lane & 1) == 0 || !group.arrived.test(first + lane)) continue;
      runner.fault(FaultKind::kDivergence, site,
                   "executes {} while lane {} of its warp waits for it in {} at {}:{}", site.op,
                   lane, group.site.op, group.site.file, group.site.line);
    }
  }
  runner.converge(runner.warp_of(thread), mask, site, payload, act);
}

Thread& lane_thread(Rendezvous& warp, Cta& cta, u32 lane) { return cta.threads[warp.first + lane]; }

void check_matrix(Runner& runner, u32 address, u32 count, Site site) {
  if (count != 1 && count != 2 && count != 4) {
    runner.fault(FaultKind::kOperand, site, "moves {} matrices: 1, 2 or 4 are allowed", count);
  }
  if (address >> 24 != 0) {
    runner.fault(
        FaultKind::kOperand, site,
        "addresses a row in CTA {} of the cluster: {} accesses only shared memory of its own CTA",
        (address >> 24) - 1, site.op);
  }
}

// The arguments of one lane of ldmatrix or stmatrix.
struct MatrixLane {
  u8* row = nullptr;  // of matrix lane / 8
  u32* registers = nullptr;
};

MatrixLane& matrix_lane(Rendezvous& warp, u32 lane) {
  return *static_cast<MatrixLane*>(warp.payload[lane]);
}

}  // namespace

void Runner::warp_barrier(u32 mask, Site site) {
  preempt();
  Cta& cta = *self().cta;
  converge_warp(*this, mask, site, nullptr, [&](Rendezvous& warp) {
    BarrierPhase open_phase;
    for (u32 lane = 0; lane < 32; ++lane) {
      if (warp.mask.test(lane)) open_phase.add(lane_thread(warp, cta, lane).clock);
    }
    const StampPtr stamp = open_phase.result();
    for (u32 lane = 0; lane < 32; ++lane) {
      if (warp.mask.test(lane)) lane_thread(warp, cta, lane).clock.acquire(stamp);
    }
  });
}

// Lane l passes the address of row l % 8 of matrix l / 8; the read is recorded as that lane's.
void Runner::ldmatrix(u32* to, u32 from, u32 count, bool trans, Site site) {
  preempt();
  Thread& thread = self();
  Cta& cta = *thread.cta;
  check_matrix(*this, from, count, site);
  MatrixLane mine{nullptr, to};
  if (thread.index % 32 < 8 * count) {
    const SharedLocation location = shared_location(from, 16, 16, site);
    shared_read(thread, location, 16, thread.number, thread.clock.epoch(), false, site);
    mine.row = location.bytes;
  }
  converge_warp(*this, kAllLanes, site, &mine, [&](Rendezvous& warp) {
    for (u32 matrix = 0; matrix < count; ++matrix) {
      std::array<const u8*, 8> rows;
      for (u32 row = 0; row < 8; ++row) rows[row] = matrix_lane(warp, 8 * matrix + row).row;
      std::array<u32*, 32> registers;
      for (u32 lane = 0; lane < 32; ++lane) {
        registers[lane] = matrix_lane(warp, lane).registers + matrix;
      }
      load_matrix(rows, trans, registers);
    }
    // A of a wgmma in registers: wgmma.fence does not order what is loaded after it.
    WarpgroupState* state = cta.threads[warp.first / 128 * 128].warpgroup.get();
    if (state == nullptr || count != 4) return;
    for (u32 lane = 0; lane < 32; ++lane) {
      const u32* r = matrix_lane(warp, lane).registers;
      state->loaded[warp.first % 128 + lane].push_back({r[0], r[1], r[2], r[3]});
    }
  });
}

void Runner::stmatrix(u32 to, const u32* from, u32 count, bool trans, Site site) {
  preempt();
  Thread& thread = self();
  check_matrix(*this, to, count, site);
  for (u32 i = 0; i < count; ++i) use_register(from[i], site);
  MatrixLane mine{nullptr, const_cast<u32*>(from)};
  if (thread.index % 32 < 8 * count) {
    const SharedLocation location = shared_location(to, 16, 16, site);
    shared_write(thread, location, 16, thread.number, thread.clock.epoch(), false, site);
    mine.row = location.bytes;
  }
  converge_warp(*this, kAllLanes, site, &mine, [&](Rendezvous& warp) {
    for (u32 matrix = 0; matrix < count; ++matrix) {
      std::array<u8*, 8> rows;
      for (u32 row = 0; row < 8; ++row) rows[row] = matrix_lane(warp, 8 * matrix + row).row;
      std::array<const u32*, 32> registers;
      for (u32 lane = 0; lane < 32; ++lane) {
        registers[lane] = matrix_lane(warp, lane).registers + matrix;
      }
      store_matrix(rows, trans, registers);
    }
  });
}

void Runner::mma(float* d, const u32* a, const u32* b, Number number, Site site) {
  if (!is_operand(number)) {
    fault(FaultKind::kOperand, site, "multiplies numbers that are not bf16, f16 or tf32");
  }
  for (u32 i = 0; i < 4; ++i) {
    use_register(a[i], site);
    use_register(b[i % 2], site);
    use_register(std::bit_cast<u32>(d[i]), site);
  }
  MmaLane mine{a, b, d};
  converge_warp(*this, kAllLanes, site, &mine, [&](Rendezvous& warp) {
    std::array<MmaLane, 32> lanes;
    for (u32 lane = 0; lane < 32; ++lane) {
      lanes[lane] = *static_cast<const MmaLane*>(warp.payload[lane]);
    }
    warp_mma(number, lanes);
  });
}

u32 Runner::shuffle(u32 value, u32 lane, Shuffle kind, u32 mask, Site site) {
  use_register(value, site);
  const u32 own = self().index % 32;
  u32 from = lane % 32;
  if (kind == Shuffle::kXor) from = own ^ from;
  // Out of range, a lane gets its own value.
  if (kind == Shuffle::kUp) from = from > own ? own : own - from;
  if (kind == Shuffle::kDown) from = own + from > 31 ? own : own + from;
  if ((mask >> from & 1) == 0) {
    fault(FaultKind::kOperand, site, "reads the value of lane {}, which is not in the mask {:#x}",
          from, mask);
  }
  struct Lane {
    u32 value;
    u32 from;
    u32 result;
  } mine{value, from, 0};
  converge_warp(*this, mask, site, &mine, [](Rendezvous& warp) {
    for (u32 l = 0; l < 32; ++l) {
      if (!warp.mask.test(l)) continue;
      Lane& to = *static_cast<Lane*>(warp.payload[l]);
      to.result = static_cast<const Lane*>(warp.payload[to.from])->value;
    }
  });
  return mine.result;
}

u32 Runner::vote(u32 predicate, Vote kind, u32 mask, Site site) {
  struct Lane {
    bool predicate;
    u32 ballot;
  } mine{predicate != 0, 0};
  converge_warp(*this, mask, site, &mine, [](Rendezvous& warp) {
    u32 ballot = 0;
    for (u32 l = 0; l < 32; ++l) {
      if (warp.mask.test(l) && static_cast<const Lane*>(warp.payload[l])->predicate) {
        ballot |= 1u << l;
      }
    }
    for (u32 l = 0; l < 32; ++l) {
      if (warp.mask.test(l)) static_cast<Lane*>(warp.payload[l])->ballot = ballot;
    }
  });
  switch (kind) {
    case Vote::kAny:
      return mine.ballot != 0;
    case Vote::kAll:
      return mine.ballot == mask;
    case Vote::kBallot:
      return mine.ballot;
  }
  return 0;
}

// The PTX ISA only says that the choice is the same for the same mask; the hardware takes the
// lowest lane.
bool Runner::elect(u32 mask, Site site) {
  converge_warp(*this, mask, site, nullptr, [](Rendezvous&) {});
  return self().index % 32 == static_cast<u32>(std::countr_zero(mask));
}

// The sign bit is ignored: kernels negate floats without a wrapper.
void Runner::use_register(u32 bits, Site site) {
  if ((bits & 0x7fffffffu) != kAccumulatorInFlight) return;
  fault(FaultKind::kAccumulator, site, "reads a wgmma accumulator before wgmma_wait");
}

}  // namespace catenary::sim
