// SPDX-License-Identifier: Apache-2.0
// Machine code of sm_90, as far as tests read it: opcodes, backward branches and the barriers of
// each instruction. The vendor does not document the encoding; it is that of nvdisasm's listings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/source.h"

namespace catenary::testing {

struct Sm90Instruction {
  u64 low = 0, high = 0;

  u32 opcode() const { return low & 0x1ff; }
  bool is_mma() const { return opcode() == 0x1f3; }          // QGMMA
  bool is_global_load() const { return opcode() == 0x181; }  // LDG
  bool is_branch() const { return opcode() == 0x147; }       // BRA
  // Control bits. waits(): a bit for each scoreboard barrier that must be free before the start.
  // takes(): the barrier that it holds until its result has arrived; 7: none.
  u32 waits() const { return high >> 52 & 63; }
  u32 takes() const { return high >> 46 & 7; }
  // Instructions from the one after a branch to its target.
  i64 distance() const {
    return ((static_cast<i64>(low) >> 34) * 256 + static_cast<i64>(low >> 16 & 255)) / 4;
  }
};

// The instructions of a kernel; none if its code is not found.
std::vector<Sm90Instruction> sm90_code(const Cubin& cubin);

// The smallest loop with an MMA; none if there is no such loop.
std::vector<Sm90Instruction> mma_loop(const std::vector<Sm90Instruction>& code);

// Loads in the rounds of a loop, and the instructions up to the last MMA of a round that wait for a
// load that this round started.
struct LoadWaits {
  int loads = 0, waits = 0;
};
LoadWaits waits_for_own_loads(const std::vector<Sm90Instruction>& loop);

}  // namespace catenary::testing
