// SPDX-License-Identifier: Apache-2.0
// tests/instructions/hopper_gemm.cu in the simulator: its text, or one with an injected fault, is
// compiled for the host, run over tensor maps, and compared with exact results.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/sim_chain.h"

namespace catenary::testing {

// The text of tests/instructions/hopper_gemm.cu.
const std::string& hopper_gemm_text();

struct HopperGemmOptions {
  bool cluster = false;  // hopper_gemm_cluster: CTAs in pairs
  // No multiples of the tile, 128 x 128 x 64; more k-tiles than the four pipeline stages.
  i32 m = 200, n = 136, k = 328;
  u32 ctas = 1;  // twice as many with clusters
};

class HopperGemm {
 public:
  // kCompileFailed. kInternal: the text has no such kernel.
  static Expected<HopperGemm> make(const std::string& text, const HopperGemmOptions& options,
                                   const HostCompiler& compiler);

  // One launch on fresh memory. Thread-safe.
  SimulatedOutcome run(u64 seed) const;

 private:
  HopperGemm() = default;
  i32 a(i32 row, i32 k) const { return (row * 5 + k * 3 + k * k % 11) % 7 - 3; }
  i32 b(i32 row, i32 k) const { return (row * 2 + k * 3 + k * k % 13) % 5 - 2; }
  SimulatedOutcome check(const u16* d, const sim::Allocation& allocation) const;
  HopperGemmOptions options_;
  std::shared_ptr<const sim::Object> object_;
  std::vector<u16> expected_;  // bf16
};

}  // namespace catenary::testing
