// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/emit.h"

#include "compiler/emit/emit_program.h"
#include "compiler/emit/writer.h"
#include "ir/text/text.h"

namespace catenary {
namespace {

struct FamilyText {
  std::string header;  // template to include
  std::string type;    // of kConfig
  std::string config;  // its fields
  std::string programs;
  std::string call;
};

bool partial_rows(const Extent& inner, int vec) {
  return inner.scale != 0 || inner.size % vec != 0;
}

FamilyText family_parts(const KernelPlan& kernel, const PointwiseConfig& c) {
  ProgramText text{"Program", c.vec, partial_rows(c.size.at[kMaxDims - 1], c.vec), 0};
  return {"pointwise", "PointwiseConfig", cpp_text(c), emit_store_program(kernel.program, text),
          "pointwise<kConfig, Program>"};
}

FamilyText family_parts(const KernelPlan& kernel, const ReduceConfig& c) {
  const bool guarded = partial_rows(c.size.at[kMaxDims - 1], c.vec);
  const ProgramText terms{"Prologue", c.vec, guarded, 0};
  const ProgramText text{"Epilogue", c.vec, guarded, c.sums};
  return {"reduce", "ReduceConfig", cpp_text(c),
          emit_value_program(kernel.prologue, kernel.prologue_results, terms) +
              emit_store_program(kernel.program, text),
          "reduce<kConfig, Prologue, Epilogue>"};
}

FamilyText family_parts(const KernelPlan& kernel, const GemmSm80Config& c) {
  const ProgramText text{"Epilogue", c.vec, partial_rows(c.n, c.vec), c.num_accumulators()};
  return {"gemm_sm80", "GemmSm80Config", cpp_text(c), emit_store_program(kernel.program, text),
          "gemm_sm80<kConfig, Epilogue>"};
}

FamilyText family_parts(const KernelPlan& kernel, const SkinnyConfig& c) {
  const ProgramText text{"Epilogue", c.vec, partial_rows(c.n, c.vec), c.num_accumulators()};
  const std::string name = c.ragged == Ragged::kNone ? "skinny" : "skinny_m_grouped";
  return {name, "SkinnyConfig", cpp_text(c), emit_store_program(kernel.program, text),
          name + "<kConfig, Epilogue>"};
}

FamilyText family_parts(const KernelPlan& kernel, const GemmSm90Config& c) {
  // A thread's accumulators are pairs of columns.
  const int vec = c.register_epilogue ? 2 : c.vec;
  ProgramText text{"Epilogue", vec, partial_rows(c.n, vec), c.num_accumulators()};
  text.register_epilogue = c.register_epilogue;
  return {"gemm_sm90", "GemmSm90Config", cpp_text(c),
          c.register_epilogue ? emit_register_program(kernel.program, text)
                              : emit_store_program(kernel.program, text),
          "gemm_sm90<kConfig, Epilogue>"};
}

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
  out += fmt::format("// plan: {}: {}\n//   {}\n", family_text(kernel.family), kernel.config_text,
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
  const FamilyText parts =
      std::visit([&](const auto& config) { return family_parts(kernel, config); }, kernel.config);
  KernelSource source;
  source.symbol = kernel.symbol;
  source.banner = banner(chain, plan, kernel);
  source.body = fmt::format(
      "#include \"kernels/{}.cuh\"\n"
      "namespace {{\n"
      "using namespace catenary;\n"
      "__device__ constexpr {} kConfig{{\n{}\n}};\n"
      "using P = Params<{}>;\n"
      "{}"
      "}}  // namespace\n"
      "extern \"C\" __global__ void __launch_bounds__({}, {})\n"
      "{}(const __grid_constant__ P p) {{ {}(p); }}\n",
      parts.header, parts.type, parts.config, params_text(kernel), parts.programs, kernel.threads,
      kernel.min_ctas, kernel.symbol, parts.call);
  return source;
}

}  // namespace catenary
