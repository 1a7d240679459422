// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/reduce/registers.h"

#include <algorithm>

namespace catenary {
namespace {

// Registers of a thread for the live values of vectors of `vec` elements, each with an address.
i64 live_registers(const Program& terms, const Program& results, int vec) {
  return i64{std::max(live_values(terms), live_values(results))} * (vec + 2);
}

// Registers of each of `threads` for them, apart from coordinates and sums.
i64 free_registers(i64 threads) {
  constexpr i64 kOfCta = 64 << 10, kMost = 255, kOther = 28;
  return std::min(kOfCta / threads, kMost) - kOther;
}

}  // namespace

int widest_in_registers(const Program& terms, const Program& results, int widest) {
  while (widest > 1 && live_registers(terms, results, widest) > free_registers(512)) widest /= 2;
  return widest;
}

void keep_in_registers(const Program& terms, const Program& results, ReduceConfig& config) {
  constexpr i64 kOfOneTerm = 48;
  const i64 live = live_registers(terms, results, config.vec);
  while (config.slices > 1 && config.lanes * config.slices > 32 &&
         live > free_registers(i64{config.lanes} * config.slices)) {
    config.slices /= 2;
  }
  if (live > kOfOneTerm) config.unroll = 1;
}

}  // namespace catenary
