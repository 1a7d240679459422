// SPDX-License-Identifier: Apache-2.0
// Outputs in place of an input in the simulator: over every family and schedule, for elementwise
// chains, sums and split-K; ragged rows and ragged K. A plan that would overwrite the input before
// it has been read copies instead, and a program that does not is found.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
  std::string family = "";
  std::string tile = "";
  int split_k = 0;
  i64 symbol = 0;
  std::vector<i32> ends = {};
  int kernels = 1;
};

SimulatedChainOptions options_of(const Case& from, const HostCompiler* compiler) {
  SimulatedChainOptions options;
  options.plan.force_tile = from.tile;
  options.plan.split_k = from.split_k;
  options.family = from.family;
  options.symbol = from.symbol;
  options.ends = from.ends;
  options.sm_count = 2;
  options.compiler = compiler;
  return options;
}

std::string run(const Case& from, const HostCompiler& compiler) {
  const std::string name = fmt::format("{}, {} {}", from.name, from.family, from.tile);
  auto chain = SimulatedChain::make(from.chain, options_of(from, &compiler));
  if (!chain) return name + ": " + take_report(chain.takeError()).message;
  const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
  if (!from.family.empty() && family_name(kernels.front()) != from.family)
    return name + ": another family";
  if (static_cast<int>(kernels.size()) != from.kernels)
    return fmt::format("{}: {} kernels", name, kernels.size());
  return first_failure(*chain, name, 4);
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}

std::string residual(const char* dtype, int m, int n, int k, const char* layout = "",
                     const char* expression = "add(relu(c), y)") {
  return fmt::format(
      "chain a(input x: bf16[{1}, {3}], weight w: bf16[{2}, {3}], input y: {0}[{1}, {2}]{4}) {{\n"
      "  c = contract \"mk,nk->mn\"(x, w)\n  z = {5}\n  return z: {0} inplace y }}",
      dtype, m, n, k, layout, expression);
}

const char* const kWgrad =
    "chain a(input d: bf16[100, 72], input x: bf16[100, 136], input e: i32[4],\n"
    "        input main: f32[4, 72, 136]) {\n"
    "  c = contract \"mn,mk->enk\"(d, x) ragged m by e over e\n  dw = add(main, c)\n"
    "  return dw: f32 inplace main }";

const char* const kExperts =
    "chain a(input x: bf16[60, 256], weight w: bf16[4, 72, 256], input e: i32[4],\n"
    "        weight b: bf16[4, 72], input y: bf16[60, 72]) {\n"
    "  c = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
    "  z = add(add(c, b @ \"en\"), y)\n  return z: bf16 inplace y }";

}  // namespace

TEST_CASE("in place: every family and schedule") {
  std::vector<Case> cases;
  for (const char* tile : {"64x64x64g1s8", "128x128x64p2s6c2", "128x256x64g2s4c2",
                           "128x128x64p2s6n2", "64x64x64g1s4k4"}) {
    cases.push_back({"residual", residual("bf16", 136, 264, 264), "gemm_sm90", tile});
  }
  cases.push_back({"one row", residual("f32", 1, 264, 72), "gemm_sm90"});
  cases.push_back({"one column", residual("f32", 140, 1, 72, " align 4"), "gemm_sm90"});
  for (const char* family : {"gemm_sm90", "gemm_sm80"}) {
    cases.push_back({"f32", residual("f32", 140, 72, 264), family});
    cases.push_back({"odd sizes", residual("bf16", 133, 75, 264, " align 2"), family});
    cases.push_back({"padded rows", residual("bf16", 133, 72, 264, " strides[80, 1]"), family});
    cases.push_back({"ragged rows", kExperts, family, "", 0, 0, {7, 7, 8, 41}});
    cases.push_back({"ragged K", kWgrad, family, "", 0, 0, {30, 30, 31, 90}});
    cases.push_back({"ragged K without rows", kWgrad, family, "", 0, 0, {0, 0, 0, 0}});
  }
  cases.push_back({"transposed", residual("f32", 140, 72, 264, " strides[1, 140]"), "gemm_sm80"});
  cases.push_back(
      {"split-K", residual("f32", 40, 72, 512), "gemm_sm80", "16x64x128w1x4s5", 2, 0, {}, 2});
  cases.push_back(
      {"split-K", residual("f32", 70, 72, 512), "gemm_sm90", "64x64x64g1s8", 2, 0, {}, 2});
  cases.push_back(
      {"ragged K, split-K", kWgrad, "gemm_sm90", "128x128x64g2s6", 3, 0, {30, 30, 31, 90}, 2});
  for (const char* tile : {"", "skinny2x1s2r1g2p3x8t2c4"}) {
    cases.push_back({"small M", residual("bf16", 11, 39, 1216, " align 2"), "skinny", tile});
  }
  cases.push_back({"small M, ragged", kExperts, "skinny", "", 0, 0, {7, 7, 8, 41}});
  run_all(cases);
}

TEST_CASE("in place: without a contraction, sums, a symbol, several outputs") {
  run_all({
      {"pointwise",
       "chain a(input x: bf16[17, 37] strides[40, 1], weight b: bf16[37]) {\n"
       "  y = relu(add(x, b))\n  return y: bf16 inplace x }"},
      {"pointwise, two, swapped",
       "chain a(input x: f32[300, 7], input y: f32[300, 7]) {\n"
       "  p = add(x, y)\n  q = sub(x, y)\n  return p: f32 inplace y, q: f32 inplace x }"},
      {"a symbol",
       "chain a[M in 0..90](input x: bf16[M, 72], weight w: bf16[72, 72], input y: f32[M, 72]) {\n"
       "  z = add(contract \"mk,nk->mn\"(x, w), y)\n  return z: f32 inplace y }",
       "", "", 0, 67},
      {"a sum",
       "chain a(input d: f32[70, 44], input db: f32[44]) {\n"
       "  b = add(sum \"mn->n\"(d), db)\n  return b: f32 inplace db }"},
      {"the input of an earlier kernel",
       "chain a(input x: bf16[40, 72], weight w: bf16[136, 72], weight v: bf16[72, 136]) {\n"
       "  h = cast(relu(contract \"mk,nk->mn\"(x, w)), bf16)\n"
       "  y = add(contract \"mk,nk->mn\"(h, v), x)\n  return y: bf16 inplace x }",
       "",
       "",
       0,
       0,
       {},
       2},
      {"the input of an earlier sum",
       "chain a(input x: f32[5, 44]) {\n"
       "  s = sum \"mn->n\"(x)\n  y = add(x, s)\n  return y: f32 inplace x }",
       "",
       "",
       0,
       0,
       {},
       2},
  });
}

TEST_CASE("in place: copies where the input is read elsewhere or later") {
  run_all({
      {"as a matrix",
       "chain a(input x: bf16[140, 72], weight w: bf16[72, 72]) {\n"
       "  y = add(contract \"mk,nk->mn\"(x, w), x)\n  return y: bf16 inplace x }",
       "",
       "",
       0,
       0,
       {},
       2},
      {"transposed",
       "chain a(input x: f32[72, 72]) {\n"
       "  y = add(x @ \"mn\", x @ \"nm\")\n  return y: f32 inplace x }",
       "",
       "",
       0,
       0,
       {},
       2},
      {"in a later kernel",
       "chain a(input x: bf16[140, 72], weight w: bf16[72, 72], weight v: bf16[72, 72],\n"
       "        input r: f32[140, 72]) {\n"
       "  h = add(contract \"mk,nk->mn\"(x, w), r)\n  hb = cast(relu(h), bf16)\n"
       "  y = add(contract \"mk,nk->mn\"(hb, v), r)\n  return h: f32 inplace r, y: f32 }",
       "",
       "",
       0,
       0,
       {},
       3},
  });
}

namespace {

// What the simulator says of a chain that does not declare its first output in place of the
// parameter at `position`, and is launched so.
std::string undeclared(const std::string& text, int position, const char* family = "",
                       const char* tile = "") {
  auto compiler = HostCompiler::get();
  if (!compiler) return "no compiler: " + take_report(compiler.takeError()).message;
  SimulatedChainOptions options = options_of({"", text, family}, *compiler);
  options.plan.force_tile = tile;
  options.aliases = {{0, position}};
  auto chain = SimulatedChain::make(text, options);
  if (!chain) return take_report(chain.takeError()).message;
  for (u64 seed = 1; seed <= 8; ++seed) {
    const SimulatedOutcome outcome = chain->run(seed);
    if (!outcome.name.empty()) return outcome.name;
  }
  return "";
}

}  // namespace

// What the planner prevents where an output is declared in place is found where it is not.
TEST_CASE("in place: a wrong order is found") {
  const std::string matrix =
      "chain a(input x: bf16[140, 72], weight w: bf16[72, 72]) {\n"
      "  y = add(contract \"mk,nk->mn\"(x, w), x)\n  return y: bf16 }";
  CHECK(undeclared(matrix, 0, "gemm_sm80") == "race");
  const std::string transposed =
      "chain a(input x: f32[72, 72]) {\n"
      "  y = add(x @ \"mn\", x @ \"nm\")\n  return y: f32 }";
  CHECK(undeclared(transposed, 0) == "race");
  const std::string later =
      "chain a(input x: bf16[40, 72], weight w: bf16[72, 72], weight v: bf16[72, 72],\n"
      "        input r: f32[40, 72]) {\n"
      "  h = add(contract \"mk,nk->mn\"(x, w), r)\n  hb = cast(relu(h), bf16)\n"
      "  y = add(contract \"mk,nk->mn\"(hb, v), r)\n  return h: f32, y: f32 }";
  CHECK(undeclared(later, 3) == "mismatch");
  // One row in registers: each warp loads the row's operand, and one stores it.
  const std::string row =
      "chain a(input x: bf16[1, 72], weight w: bf16[264, 72], input y: f32[1, 264]) {\n"
      "  z = add(contract \"mk,nk->mn\"(x, w), y)\n  return z: f32 }";
  CHECK(undeclared(row, 2, "gemm_sm90", "64x64x64g1s8") == "race");
}
