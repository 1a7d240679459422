// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/emit.h"

#include "compiler/kernel_family.h"
#include "ir/default_numerics.h"
#include "ir/text/text.h"

namespace catenary {
namespace {

std::string comment_lines(const std::string& text) {
  std::string out;
  llvm::SmallVector<llvm::StringRef, 16> lines;
  llvm::StringRef(text).split(lines, '\n');
  for (llvm::StringRef line : lines) {
    if (!line.empty()) out += "//   " + line.str() + "\n";
  }
  return out;
}

std::string banner(const VerifiedChain& chain, const Plan& plan, const KernelPlan& kernel) {
  std::string out = fmt::format("// catenary | target {} ({}) | kernel {}\n// chain:\n",
                                plan.target.arch, plan.target.name, kernel.symbol);
  out += comment_lines(print(chain.chain()));
  out += fmt::format("// plan: {}: {}\n//   {}\n", kernel.family->name(), kernel.config_text,
                     kernel.why);
  for (size_t i = 0; i < kernel.slots.size(); ++i) {
    const SlotBinding& slot = kernel.slots[i];
    constexpr const char* kKinds[] = {"parameter", "output", "workspace"};
    out +=
        fmt::format("//   slot {}: {} '{}'\n", i, kKinds[static_cast<int>(slot.kind)], slot.name);
  }
  for (size_t i = 0; i < kernel.maps.size(); ++i) {
    out += fmt::format("//   map {}: {}\n", i, map_text(kernel, kernel.maps[i]));
  }
  out += fmt::format(
      "// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr "
      "-gencode=arch={},code={} -I<catenary>/templates -cubin {}.cu\n",
      "compute_" + plan.target.arch.substr(3), plan.target.arch, kernel.symbol);
  return out;
}

// The arguments of Params.
std::string params_text(const KernelPlan& kernel) {
  std::string text =
      fmt::format("{}, {}", std::max<size_t>(kernel.slots.size(), 1), kernel.scalars.size());
  if (!kernel.maps.empty()) text += fmt::format(", {}", kernel.maps.size());
  return text;
}

}  // namespace

KernelSource emit(const VerifiedChain& chain, const Plan& plan, const KernelPlan& kernel) {
  const DefaultNumerics numerics;
  const KernelText parts = kernel.family->text(kernel);
  KernelSource source;
  source.symbol = kernel.symbol;
  source.banner = banner(chain, plan, kernel);
  source.body = fmt::format(
      "#include \"{}\"\n"
      "namespace {{\n"
      "using namespace catenary;\n"
      "__device__ constexpr {} kConfig{{\n{}\n}};\n"
      "using P = Params<{}>;\n"
      "{}"
      "}}  // namespace\n"
      "extern \"C\" __global__ void __launch_bounds__({}, {})\n"
      "{}(const __grid_constant__ P p) {{ {}(p); }}\n",
      parts.header, parts.config_type, parts.config, params_text(kernel), parts.programs,
      kernel.threads, kernel.min_ctas, kernel.symbol, parts.call);
  return source;
}

}  // namespace catenary
