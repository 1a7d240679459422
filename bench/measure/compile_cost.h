// SPDX-License-Identifier: Apache-2.0
// What each step short of a device costs: front end, emission, NVRTC, a hit in the disk cache.
// Needs no GPU.
#pragma once

#include "bench/record/record.h"
#include "compiler/target.h"

namespace catenary::bench {

// One row per family (pointwise, gemm_sm80 plain and with an epilogue and gated, split-K with its
// reduction). Without NVRTC the rows' last two columns are absent and `nvrtc_problem` says why.
// `quick`: fewer repetitions.
struct CompileCost {
  std::vector<CompileRow> rows;
  std::string compiler;  // Nvrtc::compiler_id()
  std::string nvrtc_problem;
};
Expected<CompileCost> measure_compile_cost(const Target& target, bool quick);

}  // namespace catenary::bench
