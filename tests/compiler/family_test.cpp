// SPDX-License-Identifier: Apache-2.0
// The family interface: a family that lives in this file alone is planned, explained and emitted;
// every family refuses what it does not know; candidates and problems have one identity each.
#include "compiler/families/family.h"

#include <doctest/doctest.h>

#include <set>

#include "compiler/emit/emit.h"
#include "compiler/explain.h"
#include "shared/gemm_dequant_config.h"
#include "shared/skinny_dequant_config.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct ToyConfig {
  i64 rows = 0;
  i32 slot = 0;
  bool operator==(const ToyConfig&) const = default;
};

// Claims to compute any contraction with one product, in no time.
class ToyFamily final : public ContractionFamily {
 public:
  i64 smem_bytes = 1024;
  double us = 1e-3;

  std::string_view name() const override { return "toy"; }
  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<ToyConfig>();
    return {"kernels/toy.cuh", "ToyConfig", fmt::format("    .rows = {},", c.rows), "",
            "toy<kConfig>"};
  }
  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    ToyConfig c = config.get<ToyConfig>();
    c.slot = renumber(c.slot);
    return c;
  }
  Support supports(const ContractionProblem& problem, const Target&) const override {
    if (problem.products.size() == 1) return {};
    return {"it computes one product; write two contractions"};
  }
  std::vector<Candidate> candidates(const ContractionProblem& problem, const Target&,
                                    const TileRequest& request) const override {
    std::vector<Candidate> all;
    for (const int split : {1, 2}) {
      if (!request.tile.empty() && request.tile != "toy") continue;
      if (request.split_k != 0 && request.split_k != split) continue;
      Candidate candidate;
      candidate.id = {"toy", "toy", split};
      candidate.config = ToyConfig{problem.size.m, problem.a[0].memory.slot};
      candidate.predicted.us = us * split;
      candidate.text = "a toy";
      all.push_back(candidate);
    }
    return all;
  }
  KernelPlan kernel(const ContractionProblem& problem, const Target&,
                    const Candidate& candidate) const override {
    KernelPlan kernel;
    kernel.config = candidate.config;
    kernel.program = problem.program;
    kernel.slots = problem.slots;
    kernel.grid.size = problem.size.m;
    kernel.threads = 128;
    kernel.smem_bytes = smem_bytes;
    kernel.symbol = "toy";
    return kernel;
  }
};

const char* kLinear =
    "chain a(input x: bf16[512, 1024], weight w: bf16[2048, 1024], weight b: bf16[2048]) {\n"
    "  y = silu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }";
const char* kDual =
    "chain a(input x: bf16[512, 1024], weight w: bf16[2048, 1024], weight v: bf16[2048, 1024]) {\n"
    "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
    "  y = mul(silu(g), u)\n  return y: bf16 }";

// The problem of a chain's only contraction.
ContractionProblem problem_of(const std::string& text) {
  const VerifiedChain chain = verified(text);
  const FusionPlan fusion = fuse_chain(chain, true);
  const MemoryMap memory = map_memory(chain, fusion);
  const GroupTensors tensors = build_group(chain, fusion, memory, 0);
  const Target target = llvm::cantFail(find_target("h200"));
  const PlanOptions options;
  return llvm::cantFail(
      make_contraction_problem({chain, target, options, fusion.groups[0], tensors, 0, "ctn_a_k0"}));
}

}  // namespace

TEST_CASE("a family that is added competes, is explained and is emitted") {
  const ToyFamily toy;
  const VerifiedChain chain = verified(kLinear);
  {
    const ScopedFamily added(toy);
    const Plan plan = planned(kLinear);
    const KernelPlan& kernel = first_kernel(plan);
    CHECK(family_name(kernel) == "toy");
    CHECK(kernel.candidate == CandidateId{"toy", "toy", 1});
    CHECK(kernel.config.get<ToyConfig>().rows == 512);
    CHECK(kernel.symbol == "ctn_a_k0_toy");
    CHECK(explain_text(chain, plan).find("family      toy") != std::string::npos);
    const std::string body = emit(chain, plan, kernel).body;
    CHECK(body.find("#include \"kernels/toy.cuh\"") != std::string::npos);
    CHECK(body.find("ToyConfig kConfig{\n    .rows = 512,\n}") != std::string::npos);
  }
  CHECK(family_name(first_kernel(planned(kLinear))) != "toy");
}

TEST_CASE("split-K of an added family gets its reduction and its slots renumbered") {
  const ToyFamily toy;
  const ScopedFamily added(toy);
  PlanOptions options;
  options.force_tile = "toy";
  options.split_k = 2;
  const Plan plan = planned(kLinear, options);
  const auto& kernels = plan.buckets[0].kernels;
  REQUIRE(kernels.size() == 2);
  CHECK(family_name(kernels[1]) == "reduce");
  CHECK(plan.workspace_bytes >= 2 * 512 * 2048 * 4);
  // The bias is the reduction's: the first kernel keeps x and the partial sums.
  CHECK(kernels[0].slots.size() == 2);
  CHECK(kernels[0].slots[kernels[0].config.get<ToyConfig>().slot].name == "x");
}

TEST_CASE("a family that refuses says why; one that oversteps the target is an internal error") {
  ToyFamily toy;
  const ScopedFamily added(toy);
  const Plan plan = planned(kDual);
  REQUIRE(first_kernel(plan).refusals.size() == 1);
  CHECK(first_kernel(plan).refusals[0].family == "toy");
  toy.smem_bytes = i64{1} << 33;
  auto refused = make_plan(verified(kLinear), llvm::cantFail(find_target("h200")));
  REQUIRE(!refused);
  CHECK(take_report(refused.takeError()).code == ErrorCode::kInternal);
}

TEST_CASE("what was rejected is remembered for its contraction only") {
  ToyFamily toy;
  const ScopedFamily added(toy);
  PlanOptions options;
  options.rejected = {{"another contraction", {"toy", "toy", 1}}};
  CHECK(first_kernel(planned(kLinear, options)).candidate.split_k == 1);
  options.rejected.push_back({problem_signature(problem_of(kLinear)), {"toy", "toy", 1}});
  CHECK(first_kernel(planned(kLinear, options)).candidate.split_k == 2);
}

TEST_CASE("every family names what it computes, for all dtypes and math modes") {
  const ContractionProblem linear = problem_of(kLinear);
  for (const ContractionFamily* family : contraction_families()) {
    for (const Target& target : all_targets()) {
      for (int math = 0; math < 256; ++math) {
        ContractionProblem problem = linear;
        problem.space.math = static_cast<MathMode>(math);
        const bool known =
            math_info(problem.space.math).operand_bytes > 1 ||
            (family->name() == "gemm_sm90" && math_info(problem.space.math).operand_bytes == 1);
        CAPTURE(std::string(family->name()));
        CAPTURE(target.name);
        CAPTURE(math);
        const auto support = family->supports(problem, target);
        if (!known) CHECK_FALSE(static_cast<bool>(support));
        if (!support) CHECK_FALSE(support.refusal.empty());
      }
    }
  }
}

TEST_CASE("operands of a dtype that nothing multiplies are refused by name") {
  for (int i = 0; dtype_info(static_cast<DType>(i)).bits > 0; ++i) {
    const DType dtype = static_cast<DType>(i);
    const std::string text = fmt::format(
        "chain a(input x: {0}[64, 64], weight w: {0}[64, 64]) {{\n"
        "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }}",
        dtype_text(dtype));
    auto chain = verify(llvm::cantFail(parse(text)));
    if (!chain) {
      CHECK(dtype_info(dtype).kind != DTypeKind::kFloat);
      llvm::consumeError(chain.takeError());
      continue;
    }
    for (const Target& target : all_targets()) {
      auto plan = make_plan(*chain, target);
      const bool known = !is_fp8(dtype) || target.arch == "sm_90a";
      CHECK(static_cast<bool>(plan) == known);
      if (!plan) CHECK(take_report(plan.takeError()).code == ErrorCode::kUnsupported);
    }
  }
}

std::string without(std::string text, const std::string& words) {
  REQUIRE(text.find(words) != std::string::npos);
  return text.erase(text.find(words), words.size());
}

// A linear layer with a dequantised weight; the words `from` in its text become `to`.
std::string dequantised(llvm::StringRef from = "", llvm::StringRef to = "") {
  std::string text =
      "chain a(input x: bf16[4, 512], weight q: i4[64, 512] packed, weight s: bf16[64, 4],\n"
      "        weight z: i8[64, 4]) {\n"
      "  w = dequant(q, s, z) block (1, 128)\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }";
  if (from.empty()) return text;
  REQUIRE(text.find(from.str()) != std::string::npos);
  return text.replace(text.find(from.str()), from.size(), to.str());
}

bool reads_packed(const KernelPlan& kernel) {
  return family_name(kernel) == "skinny_dequant" || family_name(kernel) == "gemm_dequant";
}

// A kernel of one of the two families of packed weights.
bool is_dual(const KernelPlan& kernel) {
  return family_name(kernel) == "gemm_dequant" ? kernel.config.get<GemmDequantConfig>().dual
                                               : kernel.config.get<SkinnyDequantConfig>().dual;
}

TEST_CASE(
    "a dequantised weight is computed by the families that read it, and refused by the rest") {
  const ContractionProblem problem = problem_of(dequantised());
  for (const ContractionFamily* family : contraction_families()) {
    for (const Target& target : all_targets()) {
      CAPTURE(target.name);
      const bool reads =
          (family->name() == "skinny_dequant" && target.compute_capability() == 90) ||
          (family->name() == "gemm_dequant" && target.arch == "sm_90a");
      CHECK(static_cast<bool>(family->supports(problem, target)) == reads);
    }
  }
  CHECK(reads_packed(first_kernel(planned(dequantised()))));
}

TEST_CASE("what of a dequantised weight no kernel reads is refused by one sentence") {
  struct Refused {
    const char *from, *to, *message;
  };
  for (const auto& [from, to, message] : std::vector<Refused>{
           {" packed", "", "'q' is not in the packed layout: declare it packed"},
           {"] packed", "] packed align 8", "'q' is aligned to 8 bytes: align it to 16"},
           {"x: bf16[4, 512]", "x: bf16[4, 512] align 2", "16-byte vectors along K"},
           {"z: i8", "z: u4", "the zeros of 'q' are u4: pass them as i8"}}) {
    auto plan = make_plan(verified(dequantised(from, to)), llvm::cantFail(find_target("h200")));
    REQUIRE(!plan);
    const ErrorReport report = take_report(plan.takeError());
    CHECK(report.code == ErrorCode::kUnsupported);
    CHECK_MESSAGE(report.message.find(message) != std::string::npos, report.message);
  }
  auto plan = make_plan(verified(dequantised()), llvm::cantFail(find_target("a100")));
  REQUIRE(!plan);
  CHECK(take_report(plan.takeError()).message.find("needs sm_90, and a100 is sm_80") !=
        std::string::npos);
}

TEST_CASE("what of dequantised weights of groups no kernel reads is refused by one sentence") {
  struct Refused {
    const char *x, *q, *s, *contract, *message;
  };
  for (const auto& [x, q, s, contract, message] : std::vector<Refused>{
           {"x: bf16[4, 3, 64]", "q: i4[40, 3, 64]", "s: bf16[40, 3, 1]", "\"mbk,nbk->bmn\"(x, w)",
            "the last two labels of 'q' are not one of the result's columns and the summed one"},
           {"x: bf16[4, 64]", "q: i4[64, 40]", "s: bf16[64, 1]", "\"mk,kn->mn\"(x, w)",
            "the last two labels of 'q' are not one of the result's columns and the summed one"},
           {"x: bf16[4, 64]", "q: i4[3, 64]", "s: bf16[3, 1]", "\"mk,bk->mb\"(x, w)", ""},
           {"x: bf16[99, 64]", "q: i4[3, 40, 64]", "s: bf16[3, 40, 1]",
            "\"mk,enk->mn\"(x, w) ragged m by e over e", "K is 64: it takes 129 columns or more"},
           {"x: bf16[3, 40, 64]", "q: i4[50, 64]", "s: bf16[50, 1]",
            "\"mk,enk->mn\"(w, x) ragged m by e over e",
            "the operand with ragged rows is dequantised"}}) {
    const std::string text = fmt::format(
        "chain a(input {}, weight {} packed, weight {}, input e: i32[3]) {{\n"
        "  w = dequant(q, s) block (1, 64)\n  y = contract {}\n  return y: f32 align 4 }}",
        x, q, s, contract);
    // A chain without groups has no ends.
    const bool ragged = text.find("ragged") != std::string::npos;
    auto plan = make_plan(verified(ragged ? text : without(text, ", input e: i32[3]")),
                          llvm::cantFail(find_target("h200")));
    CAPTURE(text);
    if (std::string(message).empty()) {
      CHECK(static_cast<bool>(plan));
      continue;
    }
    REQUIRE(!plan);
    const ErrorReport report = take_report(plan.takeError());
    CHECK(report.code == ErrorCode::kUnsupported);
    CHECK_MESSAGE(report.message.find(message) != std::string::npos, report.message);
  }
}

TEST_CASE("two dequantised weights of one form are a pair; others have launches of their own") {
  struct Pair {
    const char *second, *scale, *dequant;
    bool dual;
  };
  for (const auto& [second, scale, dequant, dual] : std::vector<Pair>{
           {"p: i4[64, 512] packed", "t: bf16[64, 4]", "dequant(p, t) block (1, 128)", true},
           {"p: u4[64, 512] packed", "t: bf16[64, 4]", "dequant(p, t) block (1, 128)", false},
           {"p: i4[64, 512] packed", "t: f32[64, 4]", "dequant(p, t) block (1, 128)", false},
           {"p: i4[64, 512] packed", "t: bf16[64, 8]", "dequant(p, t) block (1, 64)", false},
           {"p: bf16[64, 512]", "t: bf16[64, 4]", "p", false}}) {
    const std::string text = fmt::format(
        "chain a(input x: bf16[4, 512], weight q: i4[64, 512] packed, weight s: bf16[64, 4],\n"
        "        weight {}{}) {{\n"
        "  g = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n"
        "  u = contract \"mk,nk->mn\"(x, {})\n"
        "  h = mul(silu(g), u)\n  return h: bf16 }}",
        second, dequant == std::string("p") ? "" : fmt::format(", weight {}", scale), dequant);
    CAPTURE(text);
    const Plan plan = planned(text);
    const KernelPlan& kernel = first_kernel(plan);
    REQUIRE(reads_packed(kernel));
    CHECK(is_dual(kernel) == dual);
    CHECK((plan.buckets[0].kernels.size() == 1) == dual);
  }
}

TEST_CASE("one dequantised weight of two activations is no pair") {
  const Plan plan = planned(
      "chain a(input x: bf16[4, 512], input z: bf16[4, 512], weight q: i4[64, 512] packed,\n"
      "        weight s: bf16[64, 4]) {\n"
      "  w = dequant(q, s) block (1, 128)\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(z, w)\n"
      "  h = mul(silu(g), u)\n  return h: bf16 }");
  CHECK(plan.buckets[0].kernels.size() == 2);
  REQUIRE(reads_packed(first_kernel(plan)));
  CHECK_FALSE(is_dual(first_kernel(plan)));
}

TEST_CASE("columns of a dequantised weight are counted in 32 bits, and more are refused") {
  const auto linear = [](i64 k) {
    return fmt::format(
        "chain a(input x: bf16[1, {0}], weight q: i4[16, {0}] packed, weight s: bf16[16, 1]) {{\n"
        "  w = dequant(q, s) block (1, {0})\n"
        "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }}",
        k);
  };
  const i64 most = i64{1} << 30;
  CHECK(family_name(first_kernel(planned(linear(most)))) == "skinny_dequant");
  auto plan = make_plan(verified(linear(most + 64)), llvm::cantFail(find_target("h200")));
  REQUIRE(!plan);
  CHECK(take_report(plan.takeError()).message.find("it takes at most 1073741824 columns") !=
        std::string::npos);
}

TEST_CASE("problems that no family computes are refused by all with a reason") {
  ContractionProblem problem = problem_of(kDual);
  problem.products[1].accumulator = 0;  // two products into one accumulator
  problem.accumulator_n.pop_back();
  for (const ContractionFamily* family : contraction_families()) {
    for (const Target& target : all_targets()) {
      CHECK_FALSE(static_cast<bool>(family->supports(problem, target)));
    }
  }
}

TEST_CASE("signatures differ where problems do") {
  std::set<std::string> seen;
  const ContractionProblem linear = problem_of(kLinear);
  CHECK(problem_signature(linear) == problem_signature(problem_of(kLinear)));
  const auto add = [&](auto change) {
    ContractionProblem changed = linear;
    change(changed);
    CHECK(seen.insert(problem_signature(changed)).second);
  };
  add([](auto&) {});
  add([](auto& p) { p.space.math = MathMode::kF16; });
  add([](auto& p) { p.space.m = 513; });
  add([](auto& p) { p.space.n = Extent(2048, 2); });
  add([](auto& p) { p.space.k_outer = 2; });
  add([](auto& p) { p.a[0].memory.copy_bytes = 8; });
  add([](auto& p) { p.b[0].weight = false; });
  add([](auto& p) { p.b.push_back(p.b[0]); });
  add([](auto& p) { p.products[0].accumulator = 1; });
  add([](auto& p) { p.b[0].dequant = DequantisedOperand{}; });
  add([](auto& p) { p.size.symbol = 7; });
  add([](auto& p) { p.program.pop_back(); });
  add([](auto& p) {
    p.ragged.kind = Ragged::kMGrouped;
    p.ragged.num_groups = 3;
  });
}
