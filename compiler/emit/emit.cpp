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

// `kConfig` and the programs of a kernel, or of one part of it.
std::string definitions(const KernelText& text) {
  return fmt::format("__device__ constexpr {} kConfig{{\n{}\n}};\n{}", text.config_type,
                     text.config, text.programs);
}

// A part in a namespace of its own, as scheduler/beside.cuh takes it.
std::string part_text(const KernelText& text, size_t index, i64 ctas) {
  return fmt::format(
      "namespace part{} {{\n{}"
      "struct Part {{\n"
      "  static constexpr u32 kCtas = {};\n"
      "  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) {{ {}(p, ctas); }}\n"
      "}};\n}}  // namespace part{}\n",
      index, definitions(text), ctas, text.call, index);
}

// The definitions before the kernel, and the function that it calls.
struct KernelBody {
  std::string text;
  std::string call;
};

KernelBody body_of(const KernelPlan& kernel, const KernelText& parts) {
  const std::string params = fmt::format("using P = Params<{}>;\n", params_text(kernel));
  KernelBody body;
  if (kernel.beside.empty()) {
    body.text = fmt::format("__device__ constexpr {} kConfig{{\n{}\n}};\n{}{}", parts.config_type,
                            parts.config, params, parts.programs);
    body.call = parts.call;
    return body;
  }
  i64 first = kernel.grid.fixed;
  for (const KernelPart& part : kernel.beside) first -= part.ctas;
  body.text = params + part_text(parts, 0, first);
  body.call = "run_beside<part0::Part";
  KernelPlan other = kernel;
  for (size_t i = 0; i < kernel.beside.size(); ++i) {
    other.config = kernel.beside[i].config;
    other.program = kernel.beside[i].program;
    body.text += part_text(kernel.family->text(other), i + 1, kernel.beside[i].ctas);
    body.call += fmt::format(", part{}::Part", i + 1);
  }
  body.call += ">";
  return body;
}

}  // namespace

KernelSource emit(const VerifiedChain& chain, const Plan& plan, const KernelPlan& kernel) {
  const DefaultNumerics numerics;
  const KernelText parts = kernel.family->text(kernel);
  const KernelBody body = body_of(kernel, parts);
  KernelSource source;
  source.symbol = kernel.symbol;
  source.banner = banner(chain, plan, kernel);
  source.body = fmt::format(
      "#include \"{}\"\n"
      "namespace {{\n"
      "using namespace catenary;\n"
      "{}"
      "}}  // namespace\n"
      "extern \"C\" __global__ void __launch_bounds__({}, {})\n"
      "{}(const __grid_constant__ P p) {{ {}(p); }}\n",
      parts.header, body.text, kernel.threads, kernel.min_ctas, kernel.symbol, body.call);
  return source;
}

}  // namespace catenary
