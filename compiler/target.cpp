// SPDX-License-Identifier: Apache-2.0
#include "compiler/target.h"

#include <cstdlib>
#include <vector>

namespace catenary {
namespace {

const std::vector<Target>& table() {
  static const std::vector<Target> rows = {
#define CATENARY_TARGET(name, arch, sms, ghz, smem_sm, smem_cta, l2, dram, tensor, tf32, f32)     \
  Target{                                                                                         \
      #name, #arch,  sms,  ghz, i64{smem_sm} * 1024, i64{smem_cta} * 1024, i64{l2} * 1024 * 1024, \
      dram,  tensor, tf32, f32},
#include "compiler/targets.def"
#undef CATENARY_TARGET
  };
  return rows;
}

// "sm_90a" -> 90; 0 when it is not an arch.
int parse_arch(std::string_view arch) {
  if (arch.substr(0, 3) != "sm_") return 0;
  return std::atoi(std::string(arch.substr(3)).c_str());
}

}  // namespace

int Target::compute_capability() const { return parse_arch(arch); }

llvm::ArrayRef<Target> all_targets() { return table(); }

Expected<Target> find_target(std::string_view text) {
  for (const Target& row : table()) {
    if (row.name == text || row.arch == text) return row;
  }
  // "sm_90" means its architecture-specific form, sm_90a.
  for (const Target& row : table()) {
    if (row.arch == fmt::format("{}a", text)) return row;
  }
  std::string names;
  for (const Target& row : table()) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", row.name, row.arch);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "unknown target '{}': give a GPU's name or an arch; known are {}", text, names);
}

bool arch_runs_on(std::string_view arch, int cc) {
  const int built = parse_arch(arch);
  if (built == 0) return false;
  const char suffix = arch.back();
  if (suffix == 'a') return built == cc;
  return built / 10 == cc / 10 && built % 10 <= cc % 10;
}

}  // namespace catenary
