// SPDX-License-Identifier: Apache-2.0
// Sums over rows that begin in the epilogue of a contraction, in the simulator: `gemm_sm90` and
// `gemm_sm80`, rows and columns past the last tile, batches, dual GEMMs, K segments, a symbol. Sums
// that store what else their terms are for, and sums in parts.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
  std::string tile;  // empty: the best of the family
  std::string family = "gemm_sm90";
  i64 symbol = 0;
  std::vector<std::vector<i32>> ends = {};  // of ragged rows
};

std::string run(const Case& from, const HostCompiler& compiler) {
  const std::string name = fmt::format("{}, {} {}", from.name, from.family, from.tile);
  std::string failure;
  for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal}) {
    SimulatedChainOptions options;
    options.plan.force_tile = from.tile;
    if (from.tile.empty()) options.family = from.family;
    options.symbol = from.symbol;
    options.fill = fill;
    if (!from.ends.empty()) options.ends = from.ends[0];
    options.sm_count = 2;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return name + ": " + take_report(chain.takeError()).message;
    const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
    if (family_name(kernels[0]) != from.family) return name + ": another family";
    if (kernels.back().config_text.find("sums of 16 rows") == std::string::npos)
      return name + ": the sum reads whole rows: " + kernels.back().config_text;
    failure = first_failure(*chain, name, 2);
    for (size_t i = 1; i < from.ends.size() && failure.empty(); ++i) {
      if (Error error = chain->set_ends(from.ends[i])) return take_report(std::move(error)).message;
      failure =
          first_failure(*chain, fmt::format("{}, ends {}", name, fmt::join(from.ends[i], " ")), 2);
    }
    if (!failure.empty()) return failure;
  }
  return failure;
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}

// A bias gradient: da = dh * g, its sum over the rows.
std::string bias(i64 m, i64 n, i64 k, const char* output = "da: bf16, db: f32") {
  return fmt::format(
      "chain a(input dy: bf16[{0}, {2}], weight w: bf16[{2}, {1}], input g: bf16[{0}, {1}]) {{\n"
      "  dh = contract \"mk,kn->mn\"(dy, w)\n  da = mul(dh, g)\n  db = sum \"mn->n\"(da)\n"
      "  return {3} }}",
      m, n, k, output);
}

// No operand has whole rows, and nothing but the sum is stored.
constexpr const char* kProduct =
    "chain a(input dy: bf16[200, 72], weight w: bf16[136, 72], weight b: bf16[136]) {\n"
    "  dh = contract \"mk,nk->mn\"(dy, w)\n  da = relu(add(dh, b))\n  db = sum \"mn->n\"(da)\n"
    "  c = cast(db, bf16)\n  return c: bf16 }";

constexpr const char* kGrouped =
    "chain a(input dy: bf16[296, 3, 40], weight w: bf16[3, 136, 40], input g: bf16[296, 3, 136]) "
    "{\n"
    "  dh = contract \"bgk,gnk->bgn\"(dy, w)\n  da = mul(dh, g)\n"
    "  db = sum \"bgn->gn\"(da)\n  return da: bf16, db: bf16 }";

// Rows of two dimensions.
constexpr const char* kTwoLabels =
    "chain a(input dy: bf16[20, 17, 40], weight w: bf16[136, 40], input g: bf16[20, 17, 136]) {\n"
    "  dh = contract \"bsk,nk->bsn\"(dy, w)\n  da = mul(dh, g)\n"
    "  db = sum \"bsn->n\"(da)\n  return da: bf16, db: bf16 }";

// A dual GEMM; two values are summed, and one of them twice.
constexpr const char* kDual =
    "chain a(input x: bf16[296, 72], weight w: bf16[200, 72], weight v: bf16[200, 72]) {\n"
    "  p = contract \"mk,nk->mn\"(x, w)\n  q = contract \"mk,nk->mn\"(x, v)\n"
    "  s = relu(p)\n  h = mul(s, q)\n  a = sum \"mn->n\"(h)\n  b = sum \"mn->n\"(q)\n"
    "  c = sum \"mn->n\"(q)\n  return h: bf16, a: f32, b: f32, c: bf16 }";

constexpr const char* kSegments =
    "chain a(input x: bf16[360, 72], weight w: bf16[72, 136], input z: bf16[360, 200],\n"
    "        weight v: bf16[200, 136]) {\n"
    "  p = contract \"mk,kn->mn\"(x, w)\n  q = contract \"mk,kn->mn\"(z, v)\n"
    "  y = add(p, q)\n  s = sum \"mn->n\"(y)\n  return y: bf16, s: f32 }";

constexpr const char* kSymbol =
    "chain a[M in 1..400](input dy: bf16[M, 72], weight w: bf16[72, 136], input g: bf16[M, 136]) "
    "{\n"
    "  dh = contract \"mk,kn->mn\"(dy, w)\n  da = mul(dh, g)\n  db = sum \"mn->n\"(da)\n"
    "  return da: bf16, db: f32 }";

// The biases of gate and up in a gated layer of experts: two values that are summed by group, of a
// contraction that is not stored.
constexpr const char* kExperts =
    "chain a(input dy: bf16[130, 72], weight w: bf16[4, 72, 136], input g: bf16[130, 136],\n"
    "        input u: bf16[130, 136], input b: f32[4, 136], input e: i32[4]) {\n"
    "  dh = contract \"mk,ekn->mn\"(dy, w) ragged m by e over e\n"
    "  dg = mul(dh, u)\n  du = mul(dh, g)\n"
    "  bg = sum \"mn->en\"(dg) ragged m by e over e\n"
    "  bu = sum \"mn->en\"(du) ragged m by e over e\n  c = add(b, bu)\n"
    "  return dg: bf16, du: bf16, bg: bf16, c: f32 inplace b }";

constexpr const char* kExpertsBatch =
    "chain a(input dy: bf16[2, 200, 40], weight w: bf16[2, 3, 136, 40], input e: i32[3]) {\n"
    "  d = contract \"bmk,benk->bmn\"(dy, w) ragged m by e over e\n"
    "  s = sum \"bmn->ben\"(d) ragged m by e over e\n  return d: bf16, s: f32 }";

constexpr const char* kExpertsSymbol =
    "chain a[M in 0..200](input dy: bf16[M, 72], weight w: bf16[4, 72, 136], input e: i32[4]) {\n"
    "  d = contract \"mk,ekn->mn\"(dy, w) ragged m by e over e\n"
    "  s = sum \"mn->en\"(relu(d)) ragged m by e over e\n  return d: bf16, s: bf16 }";

const std::vector<std::vector<i32>> kEnds = {
    {30, 30, 31, 98}, {0, 64, 65, 130}, {0, 0, 0, 0}, {16, 32, 33, 49}, {-5, 33, 33, 900}};

}  // namespace

TEST_CASE("sums by group of ragged rows") {
  std::vector<Case> cases;
  for (const char* tile : {"64x64x64g1s8", "128x128x64p2s4", "128x128x64p2s4c2", "128x256x64g2s3",
                           "128x128x64p2s4n2"}) {
    cases.push_back({"experts", kExperts, tile, "gemm_sm90", 0, kEnds});
  }
  for (const char* tile : {"64x64x64w2x2s4", "16x64x128w1x4s5", "128x16x64w4x1s6"})
    cases.push_back({"experts", kExperts, tile, "gemm_sm80", 0, kEnds});
  cases.push_back(
      {"batch", kExpertsBatch, "64x64x64g1s8", "gemm_sm90", 0, {{5, 6, 140}, {0, 200, 200}}});
  cases.push_back({"symbol", kExpertsSymbol, "64x64x64g1s8", "gemm_sm90", 130, kEnds});
  run_all(cases);
}

TEST_CASE("gemm_sm90: every kind of tile") {
  std::vector<Case> cases;
  for (const char* tile : {"64x64x64g1s8", "128x128x64p2s6", "128x128x64p2s6c2", "128x256x64g2s4",
                           "128x128x64p2s6n2", "256x128x64g2s4", "128x128x64p2s6c2n2"}) {
    cases.push_back({"bias", bias(200, 264, 72), tile});
  }
  run_all(cases);
}

TEST_CASE("gemm_sm90: layouts, batches, several sums") {
  run_all({
      {"rows past the last tile", bias(305, 136, 72), "64x64x64g1s8"},
      {"columns that are no vectors", bias(264, 90, 72), "64x64x64g1s8"},
      {"stored in f32 too", bias(264, 136, 72, "da: f32, db: f32"), "64x64x64g1s8"},
      {"only the sum", kProduct, "128x128x64p2s6"},
      {"grouped", kGrouped, "128x128x64p2s6"},
      {"two labels", kTwoLabels, "64x64x64g1s8"},
      {"dual", kDual, "64x64x64g1s8"},
      {"K segments", kSegments, "128x128x64p2s6"},
      {"symbol", kSymbol, "64x64x64g1s8", "gemm_sm90", 129},
      {"symbol", kSymbol, "64x64x64g1s8", "gemm_sm90", 177},
      {"symbol", kSymbol, "128x128x64p2s6", "gemm_sm90", 400},
  });
}

TEST_CASE("gemm_sm80: tiles, layouts, batches, several sums") {
  run_all({
      {"bias", bias(200, 264, 72), "128x128x64w2x2s3", "gemm_sm80"},
      {"bias", bias(200, 264, 72), "64x64x64w2x2s4", "gemm_sm80"},
      {"bias", bias(200, 264, 72), "16x64x128w1x4s5", "gemm_sm80"},
      {"bias", bias(200, 264, 72), "128x16x64w4x1s6", "gemm_sm80"},
      {"odd sizes", bias(305, 91, 33), "", "gemm_sm80"},
      {"only the sum", kProduct, "64x64x64w2x2s4", "gemm_sm80"},
      {"grouped", kGrouped, "32x64x128w1x4s3", "gemm_sm80"},
      {"two labels", kTwoLabels, "16x64x128w1x4s5", "gemm_sm80"},
      {"dual", kDual, "64x64x64w2x2s3", "gemm_sm80"},
      {"K segments", kSegments, "64x64x64w2x2s4", "gemm_sm80"},
      {"symbol", kSymbol, "16x64x128w1x4s5", "gemm_sm80", 177},
  });
}

namespace {

// A sum whose first kernel is the reduction, with `text` in its config.
struct SumCase {
  std::string name;
  std::string chain;
  std::string text;
  int kernels = 1;
  i64 symbol = 0;
};

std::string run_sum(const SumCase& from, const HostCompiler& compiler) {
  std::string failure;
  for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal}) {
    SimulatedChainOptions options;
    options.symbol = from.symbol;
    options.fill = fill;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return from.name + ": " + take_report(chain.takeError()).message;
    const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
    const bool found = family_name(kernels[0]) == "reduce" &&
                       kernels[0].config_text.find(from.text) != std::string::npos;
    if (!found || static_cast<int>(kernels.size()) != from.kernels)
      return fmt::format("{}: {} kernels, {}", from.name, kernels.size(), kernels[0].config_text);
    failure = first_failure(*chain, from.name, 2);
    if (!failure.empty()) return failure;
  }
  return failure;
}

// The gradient before an activation, and its sum.
std::string activation(const std::string& shape, const std::string& labels, const std::string& kept,
                       const std::string& symbol = "") {
  return fmt::format(
      "chain a{3}(input dy: bf16[{0}], input g: bf16[{0}]) {{\n"
      "  p = mul(dy, silu(g))\n  s = sum \"{1}->{2}\"(p)\n  q = mul(p, relu(g))\n"
      "  return s: f32, q: bf16 }}",
      shape, labels, kept, symbol);
}

std::string rows(const std::string& m, const std::string& n, const std::string& symbol = "") {
  return fmt::format(
      "chain a{2}(input x: bf16[{0}, {1}]) {{\n  s = sum \"mn->n\"(x)\n  y = relu(s)\n"
      "  return y: f32 }}",
      m, n, symbol);
}

}  // namespace

TEST_CASE("a sum stores what else its terms are for") {
  const std::vector<SumCase> cases = {
      {"rows", activation("72, 200", "mn", "n"), "lanes", 1},
      {"columns that are no vectors", activation("40, 91", "mn", "n"), "lanes", 1},
      {"grouped", activation("33, 3, 72", "bgn", "gn"), "lanes", 1},
      {"two labels", activation("5, 7, 64", "bsn", "n"), "lanes", 1},
      {"symbol", activation("M, 64", "mn", "n", "[M in 0..300]"), "lanes", 1, 111},
      {"in parts", activation("3000, 64", "mn", "n"), "parts of the terms", 2},
  };
  run_cases(cases, [](const SumCase& from, i64, const HostCompiler& compiler) {
    return run_sum(from, compiler);
  });
}

TEST_CASE("a sum of many terms is formed in parts") {
  const std::vector<SumCase> cases = {
      {"even", rows("4096", "64"), "parts of the terms", 2},
      {"odd", rows("3001", "77"), "parts of the terms", 2},
      {"symbol", rows("M", "40", "[M in 1..4000]"), "parts of the terms", 2, 4000},
      {"fewer rows than parts", rows("M", "40", "[M in 1..4000]"), "parts of the terms", 2, 600},
      {"maximum",
       "chain a(input x: bf16[4099, 24]) {\n  s = reduce_max \"mn->n\"(x)\n  return s: f32 }",
       "parts of the terms", 2},
      {"to a scalar", "chain a(input x: f32[50, 800]) {\n  s = sum \"mn->\"(x)\n  return s: f32 }",
       "parts of the terms", 2},
  };
  run_cases(cases, [](const SumCase& from, i64, const HostCompiler& compiler) {
    return run_sum(from, compiler);
  });
}
