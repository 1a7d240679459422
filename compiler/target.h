// SPDX-License-Identifier: Apache-2.0
// The GPU that a plan is for, as data. Planning reads nothing else about a device, so every plan
// can be made on a machine without one.
#pragma once

#include <string>
#include <string_view>

#include "ir/error.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

struct Target {
  std::string name;  // "h200"
  std::string arch;  // "sm_90a": what NVRTC compiles for
  int sm_count = 0;
  double clock_ghz = 0;
  i64 smem_per_sm = 0;   // bytes
  i64 smem_per_cta = 0;  // bytes, opt-in limit of dynamic shared memory
  i64 l2_bytes = 0;
  double dram_gbs = 0;       // 1e9 bytes/s
  double tensor_tflops = 0;  // bf16 and f16, dense, f32 accumulation
  double tf32_tflops = 0;
  double f32_tflops = 0;
  bool operator==(const Target&) const = default;

  int compute_capability() const;  // 90 for sm_90a, 100 for sm_100a

  // CTAs in clusters of `cluster` that run at once, `per_sm` on an SM. A cluster stays in one GPC
  // (CUDA C++ Programming Guide, thread block clusters). Assumed: GPCs of 18 SMs, but the last two
  // have 16 and the rest (RESULTS hw-107). At least one cluster.
  i64 ctas_at_once(int cluster, int per_sm) const;
};

// Rows of targets.def.
llvm::ArrayRef<Target> all_targets();

// What is planned for where nothing names a GPU and there is none.
const Target& default_target();

// By name ("h200") or by arch ("sm_90a", "sm_90": the default target if it has that arch, else the
// first row with it). kInvalidArgument names the known ones, and the one that is probably meant.
Expected<Target> find_target(std::string_view name_or_arch);

// Can machine code for `arch` run on a device of compute capability cc (90 for 9.0)? "sm_90a" only
// on 9.0; "sm_80" on 8.0 and later minor versions of 8.
bool arch_runs_on(std::string_view arch, int cc);

}  // namespace catenary
