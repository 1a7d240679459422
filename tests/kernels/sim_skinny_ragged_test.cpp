// SPDX-License-Identifier: Apache-2.0
// M-grouped `skinny` in the simulator: group sizes around `columns` and random ones, empty groups,
// one group with all rows, ends below the row count, invalid ends; layouts, epilogues, dual GEMM, a
// symbol; before and after other kernels; NaN in neighbouring groups.
#include <doctest/doctest.h>

#include "ir/random/random.h"
#include "shared/skinny_config.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

using Ends = std::vector<std::vector<i32>>;

struct Case {
  std::string name;
  std::string chain;
  std::string tile;  // empty: the planner's own choice
  Ends ends;         // one run each
  std::vector<std::pair<i64, i64>> nan_rows = {};
  i64 symbol = 0;
  size_t kernel = 0;  // index of the M-grouped kernel
  int columns = 0;    // its SkinnyConfig::columns; 0: any
};

std::string report(Error error) { return take_report(std::move(error)).message; }

std::string wrong_kernel(const Case& from, const SimulatedChain& chain) {
  const auto& kernels = chain.plan().buckets[find_bucket(chain.plan(), from.symbol)].kernels;
  if (from.kernel >= kernels.size()) return "no such kernel";
  const auto* config = kernels[from.kernel].config.get_if<SkinnyConfig>();
  if (config == nullptr || config->ragged.kind != Ragged::kMGrouped) return "another kernel";
  if (from.columns != 0 && config->tile.columns != from.columns) return "another count of columns";
  return "";
}

// The first failure over all ends; empty if there is none.
std::string run(const Case& from, u64 seed, const HostCompiler& compiler) {
  SimulatedChainOptions options;
  options.plan.force_tile = from.tile;
  options.family = "skinny";
  options.symbol = from.symbol;
  options.ends = from.ends[0];
  options.nan_rows = from.nan_rows;
  // Values that are not finite have no exact reference.
  if (!from.nan_rows.empty()) options.fill = FillKind::kNormal;
  options.compiler = &compiler;
  const std::string name = fmt::format("{}, {}", from.name, from.tile);
  auto chain = SimulatedChain::make(from.chain, options);
  if (!chain) return name + ": " + report(chain.takeError());
  if (std::string wrong = wrong_kernel(from, *chain); !wrong.empty()) return name + ": " + wrong;
  for (const auto& ends : from.ends) {
    // Ends are data: the kernels are the same.
    if (Error error = chain->set_ends(ends)) return name + ": " + report(std::move(error));
    for (int schedule = 0; schedule < 3; ++schedule) {
      const SimulatedOutcome outcome = chain->run(++seed);
      if (outcome.name.empty()) continue;
      return fmt::format("{}, ends {}, seed {}: {}: {}", name, fmt::join(ends, " "), seed,
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

// Group ends of random sizes near multiples of 8; every fourth run has ends out of order, before
// the first row and past the last.
Ends random_ends(u64 seed, int count, int groups, i32 size) {
  Random random(seed);
  Ends all;
  for (int i = 0; i < count; ++i) {
    const bool wild = i % 4 == 3;
    std::vector<i32> ends;
    i32 end = 0;
    for (int g = 0; g < groups; ++g) {
      const i32 sizes[] = {0, 0, 0, 1, 1, 2, 7, 8, 9, 15, 16, 17, 33};
      end = std::min(size, end + sizes[random.range(0, 12)]);
      ends.push_back(wild ? static_cast<i32>(random.range(-3, size + 9)) : end);
    }
    all.push_back(std::move(ends));
  }
  return all;
}

struct Experts {
  std::string rows = "40";  // of x
  int groups = 4;
  int n = 39;
  int k = 576;
  const char* dtype = "bf16";
  const char* range = "";  // of M
};

std::string experts(const Experts& e) {
  return fmt::format(
      "chain a{5}(input x: {4}[{0}, {3}], weight w: {4}[{1}, {2}, {3}],\n"
      "        weight b: f32[{2}] align 4, input e: i32[{1}]) {{\n"
      "  y = relu(add(contract \"mk,enk->mn\"(x, w) ragged m by e over e, b))\n"
      "  return y: f32 align 4 }}",
      e.rows, e.groups, e.n, e.k, e.dtype, e.range);
}

std::string pair(const char* dtype, int k) {
  return fmt::format(
      "chain a(input x: {0}[40, {1}], weight w: {0}[4, 23, {1}], weight v: {0}[4, 23, {1}],\n"
      "        input e: i32[4], input r: f32[40, 23] align 4) {{\n"
      "  g = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
      "  u = contract \"mk,enk->mn\"(x, v) ragged m by e over e\n"
      "  h = add(mul(relu(g), u), r)\n  return h: f32 align 4 }}",
      dtype, k);
}

// Even, empty, all in one, none, one row, ends below the row count, around `columns`, out of order.
const Ends kEnds4of40 = {{10, 20, 30, 40}, {0, 0, 40, 40}, {40, 40, 40, 40}, {0, 0, 0, 0},
                         {0, 1, 1, 1},     {1, 9, 17, 34}, {16, 16, 33, 40}, {-5, 20, 11, 90}};

}  // namespace

TEST_CASE("the planner's choice for every math mode") {
  std::vector<Case> cases;
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    cases.push_back({dtype, experts({.dtype = dtype}), "", kEnds4of40, {}, 0, 0, 16});
  }
  run_all(cases);
}

TEST_CASE("shapes: K blocks in shared memory, in registers, uneven, slices not full") {
  std::vector<Case> cases;
  for (const char* tile : {"skinny8x1s1r1g4p2", "skinny4x2s1r2g1p3", "skinny8x1s2r0g16p2",
                           "skinny5x1s1r1g1p2", "skinny9x1s1r0g1p1"}) {
    cases.push_back({"shape", experts({}), tile, kEnds4of40});
    cases.push_back({"few", experts({.rows = "11", .n = 17}), tile, random_ends(1, 4, 4, 11)});
  }
  run_all(cases);
}

TEST_CASE("number of groups: 1, around a warp's lanes, more than one pass over the ends") {
  const auto wide = [](int groups, const char* rows) {
    return experts({.rows = rows, .groups = groups, .n = 8, .k = 256});
  };
  run_all({
      {"31", wide(31, "70"), "", random_ends(2, 8, 31, 70), {}, 0, 0, 8},
      {"32", wide(32, "200"), "", random_ends(3, 8, 32, 200)},
      {"33", wide(33, "200"), "", random_ends(4, 8, 33, 200)},
      {"127", wide(127, "60"), "", random_ends(5, 4, 127, 60)},
      {"128", wide(128, "60"), "", random_ends(6, 4, 128, 60)},
      {"300", wide(300, "90"), "", random_ends(7, 4, 300, 90)},
      {"fewer rows than groups", wide(33, "3"), "", {{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}}},
      {"one group", wide(1, "13"), "", {{13}, {0}, {9}, {99}, {-1}}},
      {"one row", wide(5, "1"), "", {{0, 0, 1, 1, 1}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}}},
  });
}

TEST_CASE("dual GEMM with a residual") {
  run_all({{"bf16", pair("bf16", 576), "", kEnds4of40},
           {"tf32", pair("f32", 544), "", kEnds4of40},
           {"uneven", pair("f16", 576), "skinny4x2s1r2g2p3", kEnds4of40}});
}

TEST_CASE("layouts: batches, padded rows, W left of x, two row labels") {
  const Ends ends = {{0, 5, 20}, {3, 3, 3}, {20, 20, 20}, {1, 10, 19}};
  run_all({
      {"in a batch",
       "chain a(input x: bf16[2, 20, 512], weight w: bf16[2, 3, 24, 512], input e: i32[3]) {\n"
       "  y = contract \"bmk,benk->bmn\"(x, w) ragged m by e over e\n  return y: bf16 }",
       "", ends},
      {"padded",
       "chain a(input x: bf16[20, 576] strides[584, 1],\n"
       "        weight w: bf16[3, 41, 576] strides[24608, 600, 1], input e: i32[3]) {\n"
       "  y = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
       "  return y: bf16 strides[47, 1] align 2 }",
       "", ends},
      {"columns apart",
       "chain a(input x: f16[20, 512], weight w: f16[24, 3, 512], input e: i32[3]) {\n"
       "  y = contract \"mk,nek->mn\"(x, w) ragged m by e over e\n"
       "  return y: f32 strides[96, 3] align 4 }",
       "", ends},
      {"two row labels",
       "chain a(input x: f16[20, 2, 512], weight w: f16[3, 24, 512], input e: i32[3]) {\n"
       "  y = contract \"mhk,enk->mhn\"(x, w) ragged m by e over e\n  return y: f16 }",
       "", ends},
  });
}

TEST_CASE("symbolic rows: every bucket, no more CTAs than rows need") {
  std::vector<Case> cases;
  const std::string text = experts({.rows = "M", .groups = 6, .n = 20, .range = "[M in 0..96]"});
  for (const i64 m : {0, 1, 5, 16, 33, 64, 96}) {
    cases.push_back({fmt::format("M = {}", m), text, "", random_ends(m, 6, 6, m), {}, m});
  }
  run_all(cases);
}

TEST_CASE("after a kernel that computes x or w, and before another kernel") {
  const Ends ends = {{3, 3, 12}, {0, 12, 12}, {0, 0, 0}, {2, 4, 9}};
  run_all({
      {"x",
       "chain a(input p: bf16[12, 512], weight w: bf16[3, 24, 512], input e: i32[3]) {\n"
       "  x = cast(relu(p), bf16)\n"
       "  y = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n  return y: f32 }",
       "",
       ends,
       {},
       0,
       1},
      {"w",
       "chain a(input x: bf16[12, 512], input p: bf16[3, 24, 512], input e: i32[3]) {\n"
       "  w = cast(relu(p), bf16)\n"
       "  y = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n  return y: f32 }",
       "",
       ends,
       {},
       0,
       1},
      {"two layers",
       "chain a(input x: bf16[12, 512], weight w: bf16[3, 256, 512], weight v: bf16[3, 24, 256],\n"
       "        input e: i32[3]) {\n"
       "  h = cast(relu(contract \"mk,enk->mn\"(x, w) ragged m by e over e), bf16)\n"
       "  y = contract \"mk,enk->mn\"(h, v) ragged m by e over e\n  return y: f32 }",
       "",
       ends,
       {},
       0,
       1},
  });
}

// The group, and with it the weights of a CTA, is known after the wait.
TEST_CASE("nothing is read before the dependency wait") {
  SimulatedChainOptions options;
  options.weights_as_inputs = true;
  options.ends = kEnds4of40[1];
  auto chain = SimulatedChain::make(experts({}), options);
  if (!chain) FAIL(report(chain.takeError()));
  for (u64 seed = 1; seed <= 10; ++seed) {
    const SimulatedOutcome outcome = chain->run(seed);
    CHECK_MESSAGE(outcome.name == "", outcome.message);
  }
}

// NaN in group 1 of three and past the last end: neighbours of other groups' rows in one iteration.
TEST_CASE("NaN stays in its group") {
  const std::string text = experts({.groups = 3});
  run_all({{"rows", text, "", {{7, 10, 33}}, {{7, 10}, {33, 40}}},
           {"rows, in several iterations", text, "", {{1, 24, 33}}, {{1, 24}, {33, 40}}}});
}
