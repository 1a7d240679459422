// SPDX-License-Identifier: Apache-2.0
// Time of each step of compilation: front end, emission, NVRTC, a hit in the disk cache. Needs no
// GPU.
#pragma once

#include <functional>

#include "bench/record/record.h"
#include "compiler/target.h"

namespace catenary::bench {

// One row per sample chain: pointwise, GEMM without and with epilogue, dual GEMM, small M, a sum.
// Without NVRTC the last two columns are absent and `nvrtc_problem` says why. `quick`: fewer
// repetitions.
struct CompileCost {
  std::vector<CompileRow> rows;
  std::string compiler;  // Nvrtc::compiler_id()
  std::string nvrtc_problem;
};
// `progress` is told before each chain how many are done of all.
Expected<CompileCost> measure_compile_cost(const Target& target, bool quick,
                                           const std::function<void(i64 done, i64 all)>& progress);

}  // namespace catenary::bench
