// SPDX-License-Identifier: Apache-2.0
// `skinny_dequant` and `gemm_dequant` over several weights, in the simulator: dual GEMMs, weights
// side by side, a matrix for each batch entry, experts with ragged rows. Odd N, tails of K, groups
// without rows, rows past the last end, NaN in the rows of other groups.
#include <doctest/doctest.h>

#include "ir/random/random.h"
#include "shared/gemm_dequant_config.h"
#include "shared/skinny_dequant_config.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

using Ends = std::vector<std::vector<i32>>;

struct Case {
  std::string name;
  std::string chain;
  std::string tile = "";  // empty: the planner's choice
  FillKind fill = FillKind::kExactInteger;
  size_t parts = 1;  // contractions in the launch
  bool dual = false;
  Ends ends = {{}};  // one run each
  std::vector<std::pair<i64, i64>> nan_rows = {};
  i64 symbol = 0;
};

std::string report(Error error) { return take_report(std::move(error)).message; }

std::string wrong_kernel(const Case& c, const Plan& plan) {
  const auto& kernels = plan.buckets[find_bucket(plan, c.symbol)].kernels;
  if (kernels.size() != 1) return fmt::format("{} kernels", kernels.size());
  const auto* skinny = kernels[0].config.get_if<SkinnyDequantConfig>();
  const auto* gemm = kernels[0].config.get_if<GemmDequantConfig>();
  if (skinny == nullptr && gemm == nullptr) return "another family";
  if (kernels[0].beside.size() + 1 != c.parts) return "another number of parts";
  const bool dual = gemm != nullptr ? gemm->dual : skinny->dual;
  if (dual != c.dual) return c.dual ? "no dual GEMM" : "a dual GEMM";
  const bool groups = gemm != nullptr ? gemm->has_groups() : skinny->has_groups();
  if (groups != !c.ends[0].empty()) return "groups are not those of the case";
  return c.tile.empty() || kernels[0].candidate.tile == c.tile ? "" : "another tile";
}

// Empty: one kernel of the family, and right for all ends and schedules.
std::string failure(const Case& c, u64 seed, const HostCompiler& compiler) {
  SimulatedChainOptions options;
  options.plan.force_tile = c.tile;
  options.fill = c.nan_rows.empty() ? c.fill : FillKind::kNormal;
  options.ends = c.ends[0];
  options.nan_rows = c.nan_rows;
  options.symbol = c.symbol;
  options.compiler = &compiler;
  const std::string name = fmt::format("{} {}", c.name, c.tile);
  auto chain = SimulatedChain::make(c.chain, options);
  if (!chain) return name + ": " + report(chain.takeError());
  if (std::string wrong = wrong_kernel(c, chain->plan()); !wrong.empty())
    return name + ": " + wrong + "\n" + c.chain;
  for (const auto& ends : c.ends) {
    if (!ends.empty()) {
      if (Error error = chain->set_ends(ends)) return name + ": " + report(std::move(error));
    }
    for (int schedule = 0; schedule < 3; ++schedule) {
      const SimulatedOutcome outcome = chain->run(++seed);
      if (outcome.name.empty()) continue;
      return fmt::format("{}, ends {}, seed {}: {}: {}", name, fmt::join(ends, " "), seed,
                         outcome.name, outcome.message);
    }
  }
  return "";
}

void pass(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& c, i64 index, const HostCompiler& compiler) {
    return failure(c, static_cast<u64>(index) * 100, compiler);
  });
}

struct Form {
  std::string q = "i4", x = "bf16", scale = "bf16";
  bool zero = false;
  i64 columns = 128;  // that share a scale
};

// Parameters of a weight with the name `q`, and its dequant. `groups`: "4, " or "".
struct Weight {
  std::string parameters, dequant;
};

Weight weight(const Form& f, const std::string& q, const std::string& groups, i64 n, i64 k,
              const std::string& role = "weight") {
  const std::string numbers = fmt::format("[{}{}, {}]", groups, n, ceil_div(k, f.columns));
  return {
      fmt::format("{0} {1}: {2}[{3}{4}, {5}] packed, {0} s{1}: {6}{7}{8}", role, q, f.q, groups, n,
                  k, f.scale, numbers,
                  f.zero ? fmt::format(", {} z{}: i8{}", role, q, numbers) : ""),
      fmt::format("dequant({0}, s{0}{1}) block (1, {2})", q, f.zero ? ", z" + q : "", f.columns)};
}

// relu(x g) * (x u) + b.
std::string pair(const Form& f, i64 m, i64 n, i64 k) {
  const Weight g = weight(f, "g", "", n, k), u = weight(f, "u", "", n, k);
  return fmt::format(
      "chain a[M in 0..{}](input x: {}[M, {}], {},\n  {}, weight b: f32[{}] align 4) {{\n"
      "  y = contract \"mk,nk->mn\"(x, {})\n  w = contract \"mk,nk->mn\"(x, {})\n"
      "  h = add(mul(relu(y), w), b)\n  return h: f32 align 4 }}",
      m, f.x, k, g.parameters, u.parameters, n, g.dequant, u.dequant);
}

// Three weights over one x, with N of their own and unlike epilogues.
std::string side_by_side(const Form& f, i64 m, std::vector<i64> n, i64 k) {
  const Weight a = weight(f, "a", "", n[0], k), b = weight(f, "b", "", n[1], k),
               c = weight(f, "c", "", n[2], k);
  return fmt::format(
      "chain a(input x: {0}[{1}, {2}], {3},\n  {4}, {5}, weight r: f32[{6}] align 4) {{\n"
      "  d = contract \"mk,nk->mn\"(x, {7})\n"
      "  e = relu(add(contract \"mk,nk->mn\"(x, {8}), r))\n"
      "  h = neg(contract \"mk,nk->mn\"(x, {9}))\n"
      "  return d: f32 align 4, e: f32 align 4, h: {0} align 2 }}",
      f.x, m, k, a.parameters, b.parameters, c.parameters, n[1], a.dequant, b.dequant, c.dequant);
}

// The labels of x and of the result; q is [g, n, k].
std::string batch(const Form& f, const std::string& x_shape, const std::string& groups, i64 n,
                  i64 k, const std::string& equation) {
  const Weight w = weight(f, "q", groups, n, k);
  return fmt::format(
      "chain a(input x: {}[{}], {}, weight b: f32[{}] align 4) {{\n"
      "  y = add(contract \"{}\"(x, {}), b)\n  return y: f32 align 4 }}",
      f.x, x_shape, w.parameters, n, equation, w.dequant);
}

struct Experts {
  std::string rows = "40", range = "";
  i64 groups = 4, n = 39, k = 544;
};

std::string experts(const Form& f, const Experts& e) {
  const Weight w = weight(f, "q", fmt::format("{}, ", e.groups), e.n, e.k);
  return fmt::format(
      "chain a{}(input x: {}[{}, {}], {},\n  weight b: f32[{}] align 4, input e: i32[{}]) {{\n"
      "  y = relu(add(contract \"mk,enk->mn\"(x, {}) ragged m by e over e, b))\n"
      "  return y: f32 align 4 }}",
      e.range, f.x, e.rows, e.k, w.parameters, e.n, e.groups, w.dequant);
}

// Gated experts with an operand by the group of the row.
std::string gated_experts(const Form& f, i64 n, i64 k) {
  const Weight g = weight(f, "g", "4, ", n, k), u = weight(f, "u", "4, ", n, k);
  return fmt::format(
      "chain a(input x: {0}[40, {2}], {3},\n  {4}, weight b: f32[4, {1}] align 4,\n"
      "  input r: f32[40, {1}] align 4, input e: i32[4]) {{\n"
      "  y = contract \"mk,enk->mn\"(x, {5}) ragged m by e over e\n"
      "  w = contract \"mk,enk->mn\"(x, {6}) ragged m by e over e\n"
      "  h = add(mul(relu(add(y, b @ \"en\")), w), r)\n  return h: f32 align 4 }}",
      f.x, n, k, g.parameters, u.parameters, g.dequant, u.dequant);
}

// Even, empty, all in one, none, one row, ends below the row count, around the columns of a pass,
// out of order.
const Ends kEnds4of40 = {{10, 20, 30, 40}, {0, 0, 40, 40}, {40, 40, 40, 40}, {0, 0, 0, 0},
                         {0, 1, 1, 1},     {1, 9, 17, 34}, {24, 24, 33, 40}, {-5, 20, 11, 90}};

std::vector<Form> forms() {
  std::vector<Form> all;
  for (const char* q : {"i8", "i4", "u4"}) {
    for (const bool zero : {false, true}) {
      all.push_back({q, "bf16", "bf16", zero, 128});
      all.push_back({q, "f16", "f32", zero, 32});
    }
  }
  return all;
}

}  // namespace

TEST_SUITE("dequantised weights side by side and by group, in the simulator") {
  TEST_CASE("dual GEMMs: every form of the weights; numbers of rows; tails of N and K") {
    std::vector<Case> cases;
    for (const Form& f : forms()) {
      for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal})
        cases.push_back({f.q + " pair", pair(f, 5, 39, 544), "", fill, 1, true, {{}}, {}, i64{5}});
    }
    for (const i64 m : {0, 1, 8, 9, 17, 25, 32}) {
      cases.push_back({"rows",
                       pair({"i4", "bf16", "bf16", true, 64}, 32, 33, 416),
                       "",
                       {},
                       1,
                       true,
                       {{}},
                       {},
                       m});
    }
    for (const i64 n : {1, 16, 31, 65}) {
      for (const i64 k : {32, 64, 96, 1440})
        cases.push_back({"tails",
                         pair({"i8", "bf16", "f16", true, k}, 3, n, k),
                         "",
                         {},
                         1,
                         true,
                         {{}},
                         {},
                         i64{3}});
    }
    pass(cases);
  }

  TEST_CASE("dual GEMMs: shallow and deep rings, several row tiles, uneven slices, clusters") {
    std::vector<Case> cases;
    for (const char* tile : {"dequant1t1s1b1x1b1", "dequant2t1s2b1x2b1", "dequant4t2s2b2x1b6",
                             "dequant2t3s2b1x2b1", "dequant3t1s2b3x3b1", "dequant2t1s3b2x1b4c2",
                             "dequant2t2s2b1x1b2c4", "dequant1t2s2b2x1b2c8n4", "packed2t5x16s2b2",
                             "packed2t3x8s2b2c2", "packed2t1x16s3b2c4"}) {
      for (const i64 columns : {32, 128, 1440}) {
        cases.push_back({"pair",
                         pair({"i4", "bf16", "bf16", false, columns}, 8, 70, 1440),
                         tile,
                         {},
                         1,
                         true,
                         {{}},
                         {},
                         i64{8}});
        cases.push_back({"pair",
                         pair({"i8", "f16", "f32", true, columns}, 11, 70, 1440),
                         tile,
                         {},
                         1,
                         true,
                         {{}},
                         {},
                         i64{11}});
      }
    }
    pass(cases);
  }

  TEST_CASE("weights side by side in one launch, and pairs of them") {
    std::vector<Case> cases;
    for (const Form& f : forms())
      cases.push_back({f.q + " three", side_by_side(f, 5, {80, 33, 17}, 544), "", {}, 3});
    for (const char* tile :
         {"dequant1t1s1b1x1b1", "dequant4t2s2b2x1b2", "dequant2t3s2b1x2b1", "dequant2t1s2b1x1b2c2",
          "dequant2t2s2b1x1b2c4n7", "packed1t4x16s2b2", "packed2t2x8s3b2c2"}) {
      cases.push_back({"three", side_by_side({}, 9, {70, 33, 16}, 1056), tile, {}, 3});
      cases.push_back({"three",
                       side_by_side({"i8", "f16", "f32", true, 1056}, 3, {1, 129, 40}, 1056), tile,
                       FillKind::kNormal, 3});
    }
    pass(cases);
  }

  TEST_CASE("a matrix for each batch entry: layouts, one x for all, a batch of two labels") {
    std::vector<Case> cases;
    for (const Form& f : forms()) {
      cases.push_back({f.q + " batch", batch(f, "3, 5, 288", "3, ", 39, 288, "bmk,bnk->bmn")});
      cases.push_back({f.q + " grouped", batch(f, "5, 3, 288", "3, ", 17, 288, "bgk,gnk->bgn")});
      cases.push_back({f.q + " one x", batch(f, "5, 288", "3, ", 39, 288, "mk,bnk->bmn")});
      // N in whole row tiles: the matrices are one, of more rows.
      cases.push_back({f.q + " rows of all", batch(f, "5, 288", "3, ", 32, 288, "mk,bnk->mbn")});
      cases.push_back(
          {f.q + " two labels", batch(f, "2, 3, 9, 96", "2, 3, ", 20, 96, "abmk,abnk->abmn")});
      cases.push_back(
          {f.q + " outer label", batch(f, "2, 3, 9, 96", "3, ", 20, 96, "abmk,bnk->abmn")});
    }
    for (const char* tile : {"dequant1t1s1b1x1b1", "dequant4t2s2b2x1b2", "dequant2t1s2b1x1b2c2",
                             "dequant2t2s2b1x1b2c4", "packed1t3x8s2b2", "packed2t3x16s2b4c2"}) {
      cases.push_back({"batch", batch({}, "3, 5, 1056", "3, ", 70, 1056, "bmk,bnk->bmn"), tile});
      cases.push_back(
          {"batch",
           batch({"i8", "f16", "f32", true, 1056}, "3, 11, 1056", "3, ", 33, 1056, "bmk,bnk->bmn"),
           tile, FillKind::kNormal});
    }
    pass(cases);
  }

  TEST_CASE("experts: every form; groups without rows, several passes, rows past the last end") {
    std::vector<Case> cases;
    for (const Form& f : forms()) {
      cases.push_back({f.q + " experts", experts(f, {}), "", {}, 1, false, kEnds4of40});
      cases.push_back(
          {f.q + " gated experts", gated_experts(f, 23, 288), "", {}, 1, true, kEnds4of40});
    }
    for (const char* tile :
         {"dequant1t1s1b1x1b1", "dequant2t1s2b1x2b1", "dequant4t2s2b2x1b6", "dequant3t1s2b3x3b1",
          "dequant3t3s2b1x2b2", "packed1t3x8s2b2", "packed2t1x16s3b2c2", "packed3t3x40s2b4"}) {
      const Experts e = {.k = 1440};
      cases.push_back({"tile", experts({}, e), tile, {}, 1, false, kEnds4of40});
      cases.push_back({"tile", experts({"i8", "f16", "f32", true, 1440}, e), tile,
                       FillKind::kNormal, 1, false, kEnds4of40});
    }
    cases.push_back(
        {"one group", experts({}, {.rows = "9", .groups = 1}), "", {}, 1, false, {{9}, {0}, {4}}});
    cases.push_back({"many groups",
                     experts({}, {.rows = "3", .groups = 200, .n = 16, .k = 96}),
                     "",
                     {},
                     1,
                     false,
                     {std::vector<i32>(200, 3), std::vector<i32>(200, 0)}});
    for (const i64 m : {0, 1, 40}) {
      cases.push_back({"symbol",
                       experts({}, {.rows = "M", .range = "[M in 0..40]"}),
                       "",
                       {},
                       1,
                       false,
                       kEnds4of40,
                       {},
                       m});
    }
    pass(cases);
  }

  TEST_CASE("experts with a batch: rows of several heads") {
    const Weight w = weight({}, "q", "4, 3, ", 20, 96);
    const std::string text = fmt::format(
        "chain a(input x: bf16[20, 3, 96], {}, input e: i32[4]) {{\n"
        "  y = contract \"mhk,ehnk->mhn\"(x, {}) ragged m by e over e\n  return y: f32 align 4 }}",
        w.parameters, w.dequant);
    pass({{"heads", text, "", {}, 1, false, {{5, 5, 12, 18}, {0, 20, 20, 20}}}});
  }

  TEST_CASE("NaN in rows of other groups does not reach a group's rows") {
    pass({{"nan", experts({}, {}), "", {}, 1, false, {{10, 20, 30, 40}}, {{10, 20}}},
          {"nan past the end", experts({}, {}), "", {}, 1, false, {{10, 20, 30, 35}}, {{35, 40}}}});
  }

  TEST_CASE("weights of experts and ends are read after the dependency wait") {
    SimulatedChainOptions options;
    options.ends = {10, 20, 30, 40};
    options.weights_as_inputs = true;
    auto chain = SimulatedChain::make(gated_experts({}, 23, 288), options);
    if (!chain) FAIL(take_report(chain.takeError()).message);
    for (u64 seed = 1; seed <= 5; ++seed) {
      const SimulatedOutcome outcome = chain->run(seed);
      CHECK_MESSAGE(outcome.name == "", outcome.message);
    }
  }
}
