// SPDX-License-Identifier: Apache-2.0
// Epilogues of `gemm_sm90` with operands that vary along both M and N, in the simulator: one to
// five of them, both 16-bit dtypes, rows and columns past the last tile, every schedule, dual
// GEMMs, K segments, ragged rows, split-K, a symbol, results in place of an operand.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "shared/gemm_sm90_config.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

constexpr int kStaged = -1;

struct Case {
  std::string name;
  std::string chain;
  std::string tile;
  int matrices = 1;  // in registers; kStaged: the staged epilogue
  int split_k = 0;
  i64 symbol = 0;
  std::vector<i32> ends = {};
};

std::string run(const Case& from, const HostCompiler& compiler) {
  const std::string name = fmt::format("{}, {}", from.name, from.tile);
  for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal}) {
    SimulatedChainOptions options;
    options.plan.force_tile = from.tile;
    options.plan.split_k = from.split_k;
    options.symbol = from.symbol;
    options.ends = from.ends;
    options.fill = fill;
    options.sm_count = 2;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return name + ": " + take_report(chain.takeError()).message;
    const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
    if (family_name(kernels[0]) != "gemm_sm90") return name + ": another family";
    const GemmSm90Epilogue& epilogue = kernels[0].config.get<GemmSm90Config>().epilogue;
    const int matrices = epilogue.in_registers ? epilogue.matrices : kStaged;
    if (matrices != from.matrices) return fmt::format("{}: {} matrices", name, matrices);
    std::string failure = first_failure(*chain, name, 2);
    if (!failure.empty()) return failure;
  }
  return "";
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}

// y = x w + r0 + r1 ..., with `count` tensors r, and a second output for each of two or more.
std::string sums(i64 m, i64 n, i64 k, int count, const char* dtype = "bf16") {
  std::string head = fmt::format("input x: {0}[{1}, {3}], weight w: {0}[{3}, {2}]", dtype, m, n, k);
  std::string lines = "  p0 = contract \"mk,kn->mn\"(x, w)\n";
  for (int i = 0; i < count; ++i) {
    head += fmt::format(", input r{}: {}[{}, {}]", i, dtype, m, n);
    lines += fmt::format("  p{} = {}(p{}, r{})\n", i + 1, i % 2 == 0 ? "add" : "mul", i, i);
  }
  const std::string second = count > 1 ? fmt::format(", p1: {}", dtype) : "";
  return fmt::format("chain a({}) {{\n{}  return p{}: {}{} }}", head, lines, count, dtype, second);
}

}  // namespace

TEST_CASE("tensors of the size of the result in the epilogue of every schedule") {
  run_all({
      {"residual", sums(264, 136, 72, 1), "64x64x64g1s8"},
      {"two", sums(200, 200, 136, 2), "128x128x64p2s5", 2},
      {"two, f16", sums(200, 72, 136, 2, "f16"), "64x128x64p2s7", 2},
      {"three", sums(136, 264, 72, 3), "128x256x64g2s3", 3},
      {"four", sums(136, 136, 72, 4), "64x64x64g1s8", 4},
      {"five", sums(136, 136, 72, 5), "64x64x64g1s8", kStaged},
      {"M cluster", sums(300, 264, 136, 1), "128x128x64p2s6c2"},
      {"N cluster", sums(136, 520, 136, 2), "128x256x64g2s3n2", 2},
      {"clusters of 2 x 4", sums(136, 520, 136, 1), "64x128x64p2s7c2n4"},
      {"256 rows", sums(264, 136, 136, 1), "256x128x64g2s4"},
      {"rows that are no vectors", sums(136, 132, 72, 1), "64x64x64g1s8", kStaged},
  });
}

TEST_CASE("operands of two dimensions beside sums of rows, ragged rows, two products, split-K") {
  run_all({
      {"column sums",
       "chain a(input x: bf16[264, 72], weight w: bf16[136, 72], input g: bf16[264, 136]) {\n"
       "  d = contract \"mk,nk->mn\"(x, w)\n  p = mul(d, g)\n  s = sum \"mn->n\"(p)\n"
       "  return p: bf16, s: bf16 }",
       "128x128x64p2s6"},
      {"M-grouped",
       "chain a(input x: bf16[200, 72], weight w: bf16[3, 72, 136], input g: bf16[200, 136],\n"
       "        input e: i32[3], weight b: bf16[3, 136]) {\n"
       "  d = contract \"mk,ekn->mn\"(x, w) ragged m by e over e\n"
       "  p = mul(add(d, b @ \"en\"), g)\n  return p: bf16 }",
       "64x128x64p2s8",
       1,
       0,
       0,
       {70, 70, 170}},
      {"groups between the rows",
       "chain a(input x: bf16[136, 3, 72], weight w: bf16[3, 72, 72],\n"
       "        input g: bf16[136, 3, 72], weight b: bf16[3, 72]) {\n"
       "  d = contract \"bgk,gkn->bgn\"(x, w)\n  p = mul(add(d, b @ \"gn\"), g)\n"
       "  return p: bf16 }",
       "128x64x64p2s7"},
      {"dual",
       "chain a(input x: bf16[136, 72], weight w: bf16[72, 72], weight v: bf16[72, 72],\n"
       "        input g: bf16[136, 72]) {\n"
       "  c = contract \"mk,nk->mn\"(x, w)\n  d = contract \"mk,nk->mn\"(x, v)\n"
       "  p = mul(add(relu(c), d), g)\n  return p: bf16 }",
       "128x64x64p2s6"},
      {"K segments",
       "chain a(input x: bf16[136, 72], weight w: bf16[136, 72], input z: bf16[136, 40],\n"
       "        weight v: bf16[136, 40], input g: bf16[136, 136]) {\n"
       "  c = contract \"mk,nk->mn\"(x, w)\n  d = contract \"mk,nk->mn\"(z, v)\n"
       "  p = mul(add(c, d), g)\n  return p: bf16 }",
       "64x128x64p2s8"},
      {"split-K", sums(64, 72, 1000, 1), "64x64x64g1s8", 0, 3},
      {"a symbol",
       "chain a[M in 1..300](input x: bf16[M, 72], weight w: bf16[136, 72], input g: bf16[M, 136]) "
       "{\n  p = add(contract \"mk,nk->mn\"(x, w), g)\n  return p: bf16 }",
       "64x128x64p2s8", 1, 0, 77},
      {"a row of the operand",
       "chain a(input x: bf16[136, 72], weight w: bf16[136, 72], input g: bf16[136, 136],\n"
       "        input t: f32[136], weight b: bf16[136]) {\n"
       "  d = contract \"mk,nk->mn\"(x, w)\n  p = add(mul(add(d, b), t @ \"m\"), g)\n"
       "  return p: bf16, d: f32 }",
       "128x128x64p2s6"},
  });
}

TEST_CASE("a result in place of an operand of its size") {
  run_all({{"in place",
            "chain a(input x: bf16[136, 72], weight w: bf16[136, 72], input r: bf16[136, 136]) {\n"
            "  p = add(contract \"mk,nk->mn\"(x, w), r)\n  return p: bf16 inplace r }",
            "64x128x64p2s8", kStaged}});
}
