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
      {"one vector", rows(70, 8), "256 lanes x 1 slice, 8 terms"},
      {"threads of a warp", rows(130, 264), "32 lanes x 8 slices, 8 terms"},
      {"two warps", rows(17, 2056), "4 lanes x 64 slices, 8 terms"},
      {"most threads", rows(3, 20000), "1 lane x 512 slices, 8 terms"},
      {"vectors of four", rows(17, 1028), "4 lanes x 64 slices, 4 terms"},
      {"vectors of two", rows(70, 10), "2 terms"},
      {"f32", rows(70, 264, "sum", "f32"), "16 lanes x 16 slices, 4 terms"},
      {"f16 maximum", rows(17, 2056, "reduce_max", "f16"), "4 lanes x 64 slices, 8 terms"},
      {"a vector for each thread", rows(7, 2056), "1 lane x 256 slices, 8 terms"},
      {"no rows", rows(0, 264), "8 lanes x 32 slices, 8 terms"},
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
       "element", 13, true},
  });
}

TEST_CASE("reduce along terms: parts of the terms") {
  for (const i64 outputs : {1, 3}) {
    for (const i64 terms : {1 << 18, (1 << 18) + 3})
      run_all({{"few outputs", rows(outputs, terms), "parts of the terms", 0, false, 0}});
  }
}

TEST_CASE("reduce: parts of many rows of few columns") {
  for (const i64 columns : {2, 3, 12}) {
    run_all({{"few columns",
              fmt::format("chain a(input x: bf16[65537, {}]) {{\n"
                          "  y = sum \"mn->n\"(x)\n  return y: f32 }}",
                          columns),
              "parts of the terms", 0, false, 0}});
  }
}

TEST_CASE("reduce: vectors of results where terms are not adjacent, or are by group or symbolic") {
  run_all({
      {"columns", "chain a(input x: bf16[70, 40]) {\n  y = sum \"mn->n\"(x)\n  return y: f32 }",
       "element"},
      {"no terms", rows(9, 0), "element"},
      {"one operand not adjacent",
       "chain a(input x: bf16[9, 263], input u: bf16[263, 9]) {\n"
       "  y = sum \"mk->m\"(mul(x @ \"mk\", u @ \"km\"))\n  return y: f32 }",
       "element"},
  });
}

TEST_CASE("reduce along terms: rows that start and end inside a vector") {
  run_all({
      {"one row", rows(1, 263), "8 terms"},
      {"odd", rows(9, 263), "8 terms"},
      {"f32", rows(9, 263, "sum", "f32"), "4 terms"},
      {"maximum", rows(9, 263, "reduce_max", "f16"), "8 terms"},
      {"three terms", rows(70, 3), "2 terms"},
      {"all", "chain a(input x: bf16[9, 263]) {\n  y = sum \"mk->\"(x)\n  return y: f32 }",
       "8 terms"},
      {"terms that are not 0 outside",
       "chain a(input x: bf16[9, 263]) {\n"
       "  y = sum \"mk->m\"(exp(mul(x, 0.001)))\n  return y: f32 }",
       "8 terms"},
      {"outer terms and outputs",
       "chain a(input x: bf16[5, 3, 7, 41] strides[1003, 329, 41, 1]) {\n"
       "  y = sum \"abcd->b\"(x)\n  return y: bf16 }",
       "8 terms"},
      {"operands with other rows",
       "chain a(input x: bf16[9, 263], input g: bf16[263],\n"
       "        input s: f32[9], input v: f32[9, 263] strides[265, 1]) {\n"
       "  t = mul(add(x, v) @ \"mk\", g @ \"k\")\n"
       "  y = sum \"mk->m\"(mul(t @ \"mk\", s @ \"m\"))\n  return y: f32 }",
       "4 terms"},
      {"stored terms",
       "chain a(input x: bf16[9, 263], input u: bf16[9, 263]) {\n"
       "  t = mul(x, u)\n  y = sum \"mk->m\"(t)\n  return t: f32, y: f32 }",
       "8 terms"},
  });
}

TEST_CASE("reduce along terms: sizes of a symbol, with none") {
  for (const i64 symbol : {0, 1, 33, 90}) {
    run_all({
        {"inner terms",
         "chain a[M in 0..90](input x: bf16[8, M] strides[96, 1]) {\n"
         "  y = sum \"km->k\"(x)\n  return y: f32 }",
         "terms per lane", symbol},
        {"inner terms of unaligned rows",
         "chain a[M in 0..90](input x: bf16[8, M] strides[93, 1]) {\n"
         "  y = reduce_max \"km->k\"(x)\n  return y: f32 }",
         "terms per lane", symbol},
        {"inner terms and others",
         "chain a[M in 0..90](input x: bf16[4, 3, M] strides[281, 93, 1]) {\n"
         "  y = sum \"kjm->k\"(x)\n  return y: f32 }",
         "terms per lane", symbol},
        {"a vector",
         "chain a[M in 0..90](input x: f32[M]) {\n  y = sum \"m->\"(x)\n  return y: f32 }",
         "terms per lane", symbol},
        {"rows of whole vectors",
         "chain a[M in 0..90](input x: bf16[M, 40]) {\n  y = sum \"mk->\"(x)\n  return y: f32 }",
         "terms per lane", symbol},
        {"odd rows",
         "chain a[M in 0..90](input x: bf16[M, 41]) {\n  y = sum \"mk->\"(x)\n  return y: f32 }",
         "terms per lane", symbol},
    });
  }
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
