// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over adjacent terms, in the simulator: vectors of terms, few and many threads of
// an output, further term dimensions, parts, stored terms, a symbol.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
  std::string shape;  // part of the first kernel's config: its lanes, slices and vectors
  i64 symbol = 0;
  bool batch_invariant = false;
  int sm_count = 2;  // 0: the target's
};

std::string run(const Case& from, const HostCompiler& compiler) {
  for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal}) {
    SimulatedChainOptions options;
    options.plan.batch_invariant = from.batch_invariant;
    options.symbol = from.symbol;
    options.fill = fill;
    options.sm_count = from.sm_count;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return from.name + ": " + take_report(chain.takeError()).message;
    const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
    if (kernels[0].config_text.find(from.shape) == std::string::npos)
      return fmt::format("{}: the kernel is '{}'", from.name, kernels[0].config_text);
    const std::string failure = first_failure(*chain, from.name, 2);
    if (!failure.empty()) return failure;
  }
  return "";
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}

std::string rows(i64 m, i64 k, const char* op = "sum", const char* dtype = "bf16") {
  return fmt::format(
      "chain a(input x: {3}[{0}, {1}]) {{\n  y = {2} \"mk->m\"(x)\n  return y: f32 }}", m, k, op,
      dtype);
}

}  // namespace

TEST_CASE("reduce along terms: vectors, threads of an output, lanes without one") {
  run_all({
      {"one vector", rows(70, 8), "256 lanes x 1 slices, 8 terms"},
      {"threads of a warp", rows(37, 264), "32 lanes x 8 slices, 8 terms"},
      {"two warps", rows(7, 2056), "4 lanes x 64 slices, 8 terms"},
      {"most threads", rows(3, 20000), "1 lanes x 512 slices, 8 terms"},
      {"vectors of four", rows(9, 1028), "4 lanes x 64 slices, 4 terms"},
      {"vectors of two", rows(9, 70), "32 lanes x 8 slices, 2 terms"},
      {"f32", rows(9, 264, "sum", "f32"), "16 lanes x 16 slices, 4 terms"},
      {"f16 maximum", rows(7, 2056, "reduce_max", "f16"), "4 lanes x 64 slices, 8 terms"},
      {"no rows", rows(0, 264), "32 lanes x 8 slices, 8 terms"},
  });
}

TEST_CASE("reduce along terms: further dimensions, strides, elementwise terms and results") {
  run_all({
      {"all",
       "chain a(input x: bf16[9, 200] strides[208, 1]) {\n"
       "  y = sum \"mk->\"(x)\n  return y: f32 }",
       "8 terms"},
      {"outer terms and outputs",
       "chain a(input x: bf16[5, 3, 7, 40] strides[1000, 328, 40, 1]) {\n"
       "  y = sum \"abcd->b\"(x)\n  return y: bf16 }",
       "8 terms"},
      {"outputs in another order",
       "chain a(input x: bf16[5, 3, 40]) {\n"
       "  y = sum \"abk->ba\"(x)\n  return y: f32 }",
       "8 terms"},
      {"unaligned rows",
       "chain a(input x: bf16[9, 200] strides[204, 1]) {\n"
       "  y = sum \"mk->m\"(x)\n  return y: f32 }",
       "4 terms"},
      {"RMSNorm",
       "chain a(input x: bf16[9, 264], weight g: bf16[264], input s: f32[9]) {\n"
       "  q = sum \"mk->m\"(square(mul(mul(x @ \"mk\", g @ \"k\"), s @ \"m\")))\n"
       "  y = rsqrt(add(mul(q, 0.00390625), 0.001))\n  return y: f32 }",
       "8 terms"},
      {"a symbol",
       "chain a[M in 0..90](input x: bf16[M, 264]) {\n"
       "  y = sum \"mk->m\"(x)\n  return y: f32 }",
       "8 terms", 77},
      {"a symbol that is summed",
       "chain a[M in 0..90](input x: bf16[3, M, 264] strides[24480, 272, 1]) {\n"
       "  y = sum \"bmk->b\"(x)\n  return y: f32 }",
       "8 terms", 77},
      {"the same bits for every M",
       "chain a[M in 0..90](input x: bf16[M, 264]) {\n"
       "  y = sum \"mk->m\"(x)\n  return y: f32 }",
       "elements", 13, true},
  });
}

TEST_CASE("reduce along terms: parts of the terms") {
  for (const i64 outputs : {1, 3}) {
    run_all({{"few outputs", rows(outputs, 1 << 18), "parts of the terms", 0, false, 0}});
  }
}

TEST_CASE("reduce: vectors of results where terms are not adjacent, or are by group or symbolic") {
  run_all({
      {"columns", "chain a(input x: bf16[70, 40]) {\n  y = sum \"mn->n\"(x)\n  return y: f32 }",
       "elements"},
      {"odd", rows(9, 263), "elements"},
      {"no terms", rows(9, 0), "elements"},
      {"symbolic terms",
       "chain a[M in 0..90](input x: bf16[8, M] strides[96, 1]) {\n"
       "  y = sum \"km->k\"(x)\n  return y: f32 }",
       "elements", 33},
  });
}

TEST_CASE("values that are computed again: LayerNorm and softmax of rows") {
  run_all({
      {"LayerNorm",
       "chain a(input x: bf16[37, 264], weight g: bf16[264], weight b: bf16[264]) {\n"
       "  mean = mul(sum \"mk->m\"(x), 0.003787878787878788)\n"
       "  c = sub(x @ \"mk\", mean @ \"m\")\n"
       "  v = mul(sum \"mk->m\"(square(c)), 0.003787878787878788)\n"
       "  r = rsqrt(add(v, 0.00001))\n"
       "  y = add(mul(mul(c @ \"mk\", r @ \"m\"), g @ \"k\"), b @ \"k\")\n  return y: bf16 }",
       "8 terms"},
      {"softmax",
       "chain a(input x: bf16[37, 264]) {\n"
       "  top = reduce_max \"mk->m\"(x)\n  e = exp(sub(x @ \"mk\", top @ \"m\"))\n"
       "  s = recip(sum \"mk->m\"(e))\n  y = mul(e @ \"mk\", s @ \"m\")\n  return y: bf16 }",
       "8 terms"},
  });
}
