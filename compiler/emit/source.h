// SPDX-License-Identifier: Apache-2.0
// The hand-overs after the plan: KernelSource (emitted text), KernelKey (its identity), Cubin
// (machine code with its facts).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "shared/int.h"

namespace catenary {

// One emitted kernel. `body` is what NVRTC compiles and what the key covers; `banner` is a
// comment for people (chain, plan, rebuild command), which only the dump contains.
struct KernelSource {
  std::string symbol;  // extern "C" name of the kernel
  std::string banner;
  std::string body;
  std::string text() const { return banner + body; }
};

// SHA-256.
struct KernelKey {
  std::array<u8, 32> bytes{};
  bool operator==(const KernelKey&) const = default;
  auto operator<=>(const KernelKey&) const = default;
  std::string hex() const;
};

// What ptxas reports of a kernel.
struct KernelResources {
  int registers = 0;
  int spill_bytes = 0;  // stores + loads
  int stack_bytes = 0;  // local memory frame
  int static_smem_bytes = 0;
  bool operator==(const KernelResources&) const = default;
};

struct Cubin {
  std::string symbol;
  std::string arch;         // "sm_90a"
  std::string compiler_id;  // "nvrtc 13.0.88 CL-36424714"
  KernelResources resources;
  std::vector<u8> image;
  bool operator==(const Cubin&) const = default;
};

}  // namespace catenary
