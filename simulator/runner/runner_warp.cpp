// SPDX-License-Identifier: Apache-2.0
// Instructions that the lanes of a warp execute together: bar.warp.sync (PTX ISA 9.7.13.2),
// ldmatrix, stmatrix and mma.sync (9.7.14.5), shfl.sync (9.7.9.6), vote.sync (9.7.13.9) and
// elect.sync (9.7.13.14). Of these bar.warp.sync alone orders memory.
#include <bit>

#include "simulator/model/matrix.h"
#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

constexpr u32 kAllLanes = 0xffffffffu;

// Lanes of a warp meet, unless one of them waits in an instruction of the warpgroup that this lane
// would have to execute too.
void meet(Runner& runner, u32 mask, Site site, void* payload,
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
  runner.together(runner.warp_of(thread), mask, site, payload, act);
}

Thread& lane_of(Rendezvous& warp, Cta& cta, u32 lane) { return cta.threads[warp.first + lane]; }

void check_matrix(Runner& runner, u32 address, u32 count, Site site) {
  if (count != 1 && count != 2 && count != 4) {
    runner.fault(FaultKind::kOperand, site, "moves {} matrices: 1, 2 or 4 are allowed", count);
  }
  if (address >> 24 != 0) {
    runner.fault(FaultKind::kOperand, site,
                 "takes a row in CTA {} of the cluster: {} takes the own CTA's shared memory alone",
                 (address >> 24) - 1, site.op);
  }
}

// What a lane brings to ldmatrix or stmatrix.
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
  meet(*this, mask, site, nullptr, [&](Rendezvous& warp) {
    Meeting meeting;
    for (u32 lane = 0; lane < 32; ++lane) {
      if (warp.mask.test(lane)) meeting.add(lane_of(warp, cta, lane).clock);
    }
    const StampPtr stamp = meeting.result();
    for (u32 lane = 0; lane < 32; ++lane) {
      if (warp.mask.test(lane)) lane_of(warp, cta, lane).clock.acquire(stamp);
    }
  });
}

// Lane l gives the address of row l % 8 of matrix l / 8; the read counts as that lane's.
void Runner::ldmatrix(u32* to, u32 from, u32 count, bool trans, Site site) {
  preempt();
  Thread& thread = self();
  Cta& cta = *thread.cta;
  check_matrix(*this, from, count, site);
  MatrixLane mine{nullptr, to};
  if (thread.index % 32 < 8 * count) {
    const Place place = shared_place(from, 16, 16, site);
    shared_read(thread, place, 16, thread.number, thread.clock.epoch(), false, site);
    mine.row = place.bytes;
  }
  meet(*this, kAllLanes, site, &mine, [&](Rendezvous& warp) {
    for (u32 matrix = 0; matrix < count; ++matrix) {
      std::array<const u8*, 8> rows;
      for (u32 row = 0; row < 8; ++row) rows[row] = matrix_lane(warp, 8 * matrix + row).row;
      std::array<u32*, 32> registers;
      for (u32 lane = 0; lane < 32; ++lane) {
        registers[lane] = matrix_lane(warp, lane).registers + matrix;
      }
      load_matrix(rows, trans, registers);
    }
    // A of a wgmma in registers: what is loaded behind the fence is not ordered by it.
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
    const Place place = shared_place(to, 16, 16, site);
    shared_write(thread, place, 16, thread.number, thread.clock.epoch(), false, site);
    mine.row = place.bytes;
  }
  meet(*this, kAllLanes, site, &mine, [&](Rendezvous& warp) {
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
  meet(*this, kAllLanes, site, &mine, [&](Rendezvous& warp) {
    std::array<MmaLane, 32> lanes;
    for (u32 lane = 0; lane < 32; ++lane) {
      lanes[lane] = *static_cast<const MmaLane*>(warp.payload[lane]);
    }
    warp_product(number, lanes);
  });
}

u32 Runner::shuffle(u32 value, u32 lane, Shuffle kind, u32 mask, Site site) {
  use_register(value, site);
  const u32 own = self().index % 32;
  u32 from = lane % 32;
  if (kind == Shuffle::kXor) from = own ^ from;
  // Beyond the warp's ends a lane gets its own value.
  if (kind == Shuffle::kUp) from = from > own ? own : own - from;
  if (kind == Shuffle::kDown) from = own + from > 31 ? own : own + from;
  if ((mask >> from & 1) == 0) {
    fault(FaultKind::kOperand, site, "takes the value of lane {}, which the mask {:#x} leaves out",
          from, mask);
  }
  struct Lane {
    u32 value;
    u32 from;
    u32 result;
  } mine{value, from, 0};
  meet(*this, mask, site, &mine, [](Rendezvous& warp) {
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
  meet(*this, mask, site, &mine, [](Rendezvous& warp) {
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

// The ISA leaves the choice open but the same each time for one mask; the hardware takes the lowest
// lane.
bool Runner::elect(u32 mask, Site site) {
  meet(*this, mask, site, nullptr, [](Rendezvous&) {});
  return self().index % 32 == static_cast<u32>(std::countr_zero(mask));
}

// The sign is not looked at: kernels negate floats without a wrapper.
void Runner::use_register(u32 bits, Site site) {
  if ((bits & 0x7fffffffu) != kAccumulatorInFlight) return;
  fault(FaultKind::kAccumulator, site,
        "takes the value of a wgmma accumulator that is read before wgmma_wait");
}

}  // namespace catenary::sim
