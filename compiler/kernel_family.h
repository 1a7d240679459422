// SPDX-License-Identifier: Apache-2.0
// What emission and planning ask of any kernel family, whatever it computes: its name, the text of
// a planned kernel, the slots that its config addresses.
#pragma once

#include <string>
#include <string_view>

#include "compiler/kernel_plan.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace catenary {

// The parts of an emitted source that a family decides.
struct KernelText {
  std::string header;       // below templates/: "kernels/gemm_sm80.cuh"
  std::string config_type;  // "GemmSm80Config"
  std::string config;       // the fields of `kConfig`
  std::string programs;     // structs of the prologue and the epilogue
  std::string call;         // "gemm_sm80<kConfig, Epilogue>"
};

class KernelFamily {
 public:
  virtual ~KernelFamily() = default;
  virtual std::string_view name() const = 0;
  virtual KernelText text(const KernelPlan& kernel) const = 0;
  // The config with each slot that it addresses replaced by `renumber` of it.
  virtual KernelConfig with_slots(const KernelConfig& config,
                                  llvm::function_ref<i32(i32)> renumber) const = 0;
  // The same for tensor maps. A family without maps keeps its config.
  virtual KernelConfig with_maps(const KernelConfig& config,
                                 llvm::function_ref<i32(i32)> /*renumber*/) const {
    return config;
  }
};

inline std::string_view family_name(const KernelPlan& kernel) { return kernel.family->name(); }

}  // namespace catenary
