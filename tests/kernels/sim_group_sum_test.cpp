// SPDX-License-Identifier: Apache-2.0
// Sums by group (`reduce`) and operands by group outside a ragged contraction (`pointwise`) in the
// simulator: groups of 0, 1 and odd sizes, rows after the last end, ends outside the rows; layouts,
// batches, symbols, parts of the terms, outputs in place.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

using Ends = std::vector<std::vector<i32>>;

struct Case {
  std::string name;
  std::string chain;
  Ends ends;
  std::vector<std::string> families = {"reduce"};  // of the kernels
  i64 symbol = 0;
  bool fuse = true;
  int sm_count = 2;
};

const Ends kEnds = {{30, 30, 31, 98}, {0, 64, 65, 130}, {0, 0, 0, 0}, {-5, 33, 33, 900}};

std::vector<std::string> families_of(const SimulatedChain& chain, i64 symbol) {
  std::vector<std::string> names;
  for (const KernelPlan& kernel : chain.plan().buckets[find_bucket(chain.plan(), symbol)].kernels)
    names.emplace_back(family_name(kernel));
  return names;
}

std::string run(const Case& from, u64 seed, const HostCompiler& compiler) {
  for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal}) {
    SimulatedChainOptions options;
    options.plan.fuse = from.fuse;
    options.symbol = from.symbol;
    options.ends = from.ends[0];
    options.sm_count = from.sm_count;
    options.fill = fill;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return from.name + ": " + take_report(chain.takeError()).message;
    const auto families = families_of(*chain, from.symbol);
    if (families != from.families)
      return fmt::format("{}: kernels of {}", from.name, fmt::join(families, ", "));
    for (const auto& ends : from.ends) {
      if (Error error = chain->set_ends(ends))
        return from.name + ": " + take_report(std::move(error)).message;
      const SimulatedOutcome outcome = chain->run(++seed);
      if (outcome.name.empty()) continue;
      return fmt::format("{}, ends {}, seed {}: {}: {}", from.name, fmt::join(ends, " "), seed,
                         outcome.name, outcome.message);
    }
  }
  return "";
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64 index, const HostCompiler& compiler) {
    return run(from, static_cast<u64>(index) * 100, compiler);
  });
}

// `parameters` besides e, the ends of four groups; `body` returns y.
std::string chain(const std::string& parameters, const std::string& body,
                  const std::string& symbol = "") {
  return fmt::format("chain a{}({}, input e: i32[4]) {{\n  {} }}", symbol, parameters, body);
}

const std::string kSum = "y = sum \"mn->en\"(x) ragged m by e over e\n  return y: ";

}  // namespace

TEST_CASE("sums by group: layouts") {
  run_all({
      {"columns", chain("input x: bf16[130, 72]", kSum + "f32"), kEnds},
      {"odd columns", chain("input x: bf16[130, 75] align 2", kSum + "bf16 align 2"), kEnds},
      {"one column", chain("input x: f32[130, 1] align 4", kSum + "f32 align 4"), kEnds},
      {"rows innermost", chain("input x: bf16[130, 24] strides[1, 136]", kSum + "f32"), kEnds},
      {"groups innermost",
       chain("input x: bf16[130, 24]",
             "y = sum \"mn->ne\"(x) ragged m by e over e\n  return y: f32"),
       kEnds},
      {"groups only",
       chain("input x: f32[130, 9]", "y = sum \"mn->e\"(x) ragged m by e over e\n  return y: f32"),
       kEnds,
       {"reduce", "reduce"}},  // in parts
      {"a vector",
       chain("input x: f32[130]",
             "y = sum \"m->e\"(x) ragged m by e over e\n"
             "  return y: f32"),
       kEnds},
      {"in a batch",
       chain("input x: bf16[3, 130, 24]",
             "y = sum \"bmn->ben\"(x) ragged m by e over e\n  return y: f32"),
       kEnds},
      {"other sums inside and outside",
       chain("input x: bf16[3, 130, 5, 8]",
             "y = sum \"bmkn->ne\"(x) ragged m by e over e\n  return y: f32"),
       kEnds},
      {"no rows", chain("input x: bf16[0, 24]", kSum + "f32"), {{0, 0, 0, 0}, {-1, 0, 3, 9}}},
      {"one row", chain("input x: bf16[1, 24]", kSum + "f32"), {{0, 0, 1, 1}, {0, 0, 0, 0}}},
  });
}

TEST_CASE("sums by group: terms, results, parts, symbols") {
  run_all({
      {"computed terms, results of ops",
       chain("input x: bf16[130, 72], input z: bf16[130, 72], weight b: f32[4, 72]",
             "s = sum \"mn->en\"(mul(x, relu(z))) ragged m by e over e\n"
             "  y = add(mul(s, 0.5), b)\n  return y: bf16"),
       kEnds},
      {"accumulated",
       chain("input x: bf16[130, 72], input b: f32[4, 72]",
             "s = sum \"mn->en\"(x) ragged m by e over e\n  y = add(b, s)\n"
             "  return y: f32 inplace b"),
       kEnds},
      {"parts of the terms",
       chain("input x: bf16[4000, 8]", kSum + "f32"),
       {{30, 30, 31, 3998}, {0, 0, 4000, 4000}, {-5, 1001, 1001, 9000}},
       {"reduce", "reduce"},
       0,
       true,
       0},
      {"symbolic rows",
       chain("input x: bf16[M, 72]", kSum + "f32", "[M in 0..200]"),
       kEnds,
       {"reduce"},
       130},
      {"symbolic columns",
       chain("input x: bf16[130, M] strides[64, 1]", kSum + "f32 strides[64, 1]", "[M in 1..64]"),
       kEnds,
       {"reduce"},
       37},
      {"terms of another kernel",
       chain("input x: bf16[130, 40], weight w: bf16[4, 24, 40]",
             "c = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
             "  y = sum \"mn->en\"(c) ragged m by e over e\n  return c: bf16, y: f32"),
       kEnds,
       {"gemm_sm80", "reduce"}},
  });
}

TEST_CASE("operands by group in pointwise kernels") {
  const std::string add = "y = add(x @ \"mn\", b @ \"en\") ragged m by e over e\n  return y: ";
  run_all({
      {"a matrix by group",
       chain("input x: bf16[130, 72], weight b: bf16[4, 72]", add + "bf16"),
       kEnds,
       {"pointwise"}},
      {"odd columns",
       chain("input x: bf16[130, 75] align 2, input b: bf16[4, 75] align 2", add + "bf16 align 2"),
       kEnds,
       {"pointwise"}},
      {"rows innermost",
       chain("input x: f32[130, 8] strides[1, 136], input b: f32[4, 8]",
             add + "f32 strides[1, 136]"),
       kEnds,
       {"pointwise"}},
      {"one number each",
       chain("input x: f32[130, 8], weight s: f32[4] align 4",
             "y = sub(s @ \"e\", x @ \"mn\") ragged m by e over e\n  return y: f32"),
       kEnds,
       {"pointwise"}},
      {"rows only",
       chain("input x: f32[130], weight s: f32[4] align 4",
             "y = mul(x @ \"m\", s @ \"e\") ragged m by e over e\n  return y: f32"),
       kEnds,
       {"pointwise"}},
      {"a batch outside",
       chain("input x: bf16[3, 130, 8], weight b: bf16[4, 3, 8]",
             "y = add(x @ \"bmn\", b @ \"ebn\") ragged m by e over e\n"
             "  return y: f32"),
       kEnds,
       {"pointwise"}},
      {"symbolic rows",
       chain("input x: bf16[M, 72], weight b: bf16[4, 72]", add + "f32", "[M in 0..200]"),
       kEnds,
       {"pointwise"},
       130},
      {"computed by another kernel",
       chain("input x: bf16[130, 72], weight b: f32[4, 72]",
             "t = add(x @ \"mn\", exp(b) @ \"en\") ragged m by e over e\n  y = relu(t)\n"
             "  return y: f32"),
       kEnds,
       {"pointwise", "pointwise"}},
  });
}

TEST_CASE("operands by group: after another kernel, two divisions of the rows, without fusion") {
  const std::string two =
      "chain a(input x: f32[130, 8], input s: f32[4] align 4, input t: f32[8] align 4,\n"
      "        input e: i32[4]) {\n"
      "  p = mul(x @ \"mn\", s @ \"e\") ragged m by e over e\n"
      "  q = mul(p @ \"mn\", s @ \"e\") ragged m by e over e\n"
      "  y = add(q, t)\n  return y: f32 }";
  const std::string later = chain(
      "input x: bf16[130, 64], weight w: bf16[4, 72, 64], weight b: bf16[4, 72],\n"
      "        input d: bf16[130, 72], weight v: bf16[72, 72]",
      "c = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
      "  g = contract \"mk,nk->mn\"(d, v)\n  t = add(relu(c), g)\n"
      "  y = add(t @ \"mn\", b @ \"en\") ragged m by e over e\n  return y: bf16");
  const std::string row_sum =
      chain("input x: bf16[130, 72], weight s: f32[4] align 4",
            "t = mul(x @ \"mn\", s @ \"e\") ragged m by e over e\n  r = sum \"mn->m\"(t)\n"
            "  y = mul(r @ \"m\", s @ \"e\") ragged m by e over e\n  return y: f32");
  const std::string dense =
      chain("input x: bf16[130, 64], weight v: bf16[72, 64], weight b: bf16[4, 72]",
            "g = contract \"mk,nk->mn\"(x, v)\n"
            "  y = add(g @ \"mn\", b @ \"en\") ragged m by e over e\n  return y: bf16");
  run_all({
      {"twice", two, kEnds, {"pointwise"}},
      {"after a dense contraction", dense, kEnds, {"gemm_sm80", "pointwise"}},
      {"after two contractions", later, kEnds, {"gemm_sm90", "gemm_sm80", "pointwise"}},
      {"around a sum over columns", row_sum, kEnds, {"pointwise", "reduce", "pointwise"}},
      {"without fusion", two, kEnds, {"pointwise", "pointwise", "pointwise"}, 0, false},
  });
}
