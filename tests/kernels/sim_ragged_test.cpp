// SPDX-License-Identifier: Apache-2.0
// M-grouped and K-grouped `gemm_sm90` in the simulator: group ends around the tile and at random,
// empty groups, rows past the last end, ends out of range; clusters, ping-pong, dual GEMM; NaN next
// to a group, which must not spread into it.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "ir/random/random.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

using Rows = std::pair<i64, i64>;

struct Case {
  std::string name;
  std::string chain;
  std::string tile;
  std::vector<std::vector<i32>> ends;  // one run each
  std::vector<Rows> nan_rows = {};
  i64 symbol = 0;
  int split_k = 0;
};

// The first error over all ends; empty: none.
std::string run(const Case& from, u64 seed, const HostCompiler& compiler) {
  SimulatedChainOptions options;
  options.plan.force_tile = from.tile;
  options.plan.split_k = from.split_k;
  options.symbol = from.symbol;
  options.ends = from.ends[0];
  options.nan_rows = from.nan_rows;
  // Values that are not finite have no exact reference.
  if (!from.nan_rows.empty()) options.fill = FillKind::kNormal;
  options.sm_count = 2;
  options.compiler = &compiler;
  const std::string name = fmt::format("{}, {}", from.name, from.tile);
  auto chain = SimulatedChain::make(from.chain, options);
  if (!chain) return name + ": " + take_report(chain.takeError()).message;
  const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
  if (family_name(kernels[0]) != "gemm_sm90") return name + ": another family";
  for (const auto& ends : from.ends) {
    // Ends are data: the kernels stay the same.
    if (Error error = chain->set_ends(ends))
      return name + ": " + take_report(std::move(error)).message;
    const SimulatedOutcome outcome = chain->run(++seed);
    if (outcome.name.empty()) continue;
    return fmt::format("{}, ends {}, seed {}: {}: {}", name, fmt::join(ends, " "), seed,
                       outcome.name, outcome.message);
  }
  return "";
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64 index, const HostCompiler& compiler) {
    return run(from, static_cast<u64>(index) * 100, compiler);
  });
}

// Ascending ends of groups whose sizes are drawn from the critical ones around `block`.
std::vector<i32> random_ends(Random& random, int groups, i32 size, i32 block) {
  std::vector<i32> ends;
  i32 end = 0;
  for (int g = 0; g < groups; ++g) {
    const i32 sizes[] = {0, 0, 1, block - 1, block, block + 1, 2 * block, 7};
    end = std::min(size, end + sizes[random.range(0, 7)]);
    ends.push_back(end);
  }
  return ends;
}

std::vector<std::vector<i32>> many_ends(u64 seed, int count, int groups, i32 size, i32 block) {
  Random random(seed);
  std::vector<std::vector<i32>> all;
  for (int i = 0; i < count; ++i) all.push_back(random_ends(random, groups, size, block));
  return all;
}

std::string m_grouped(i64 rows, i64 groups, const char* equation = "mk,enk->mn",
                      const char* w = "136, 72") {
  return fmt::format(
      "chain a(input x: bf16[{0}, 72], weight w: bf16[{1}, {3}], input e: i32[{1}]) {{\n"
      "  y = contract \"{2}\"(x, w) ragged m by e over e\n  return y: bf16 }}",
      rows, groups, equation, w);
}

std::string k_grouped(i64 k, i64 groups) {
  return fmt::format(
      "chain a(input d: bf16[{0}, 136], input x: bf16[{0}, 264], input e: i32[{1}]) {{\n"
      "  y = contract \"mn,mk->enk\"(d, x) ragged m by e over e\n  return y: f32 }}",
      k, groups);
}

const std::vector<std::vector<i32>> kEndsOf4Groups = {{75, 150, 225, 300}, {0, 0, 300, 300},
                                                      {0, 0, 0, 0},        {64, 128, 129, 257},
                                                      {1, 2, 3, 4},        {-5, 140, 141, 900}};

}  // namespace

TEST_CASE("M-grouped: every kind of tile") {
  std::vector<Case> cases;
  for (const char* tile :
       {"64x64x64g1s8", "128x128x64p2s6", "128x128x64p2s6c2", "128x256x64g2s4c2", "256x128x64g2s4",
        "64x256x64p2s4c2", "128x128x64p2s6n2", "64x64x64g1s8c2n2"}) {
    cases.push_back({"M-grouped", m_grouped(300, 4), tile, kEndsOf4Groups});
  }
  run_all(cases);
}

TEST_CASE("M-grouped: random ends around the tile") {
  run_all({
      {"ping-pong", m_grouped(700, 9), "128x128x64p2s6c2", many_ends(1, 4, 9, 700, 128)},
      {"ping-pong", m_grouped(700, 9), "128x128x64p2s6c2", many_ends(2, 3, 9, 700, 256)},
      {"cooperative", m_grouped(700, 9), "128x256x64g2s4c2", many_ends(3, 3, 9, 700, 256)},
      {"N clusters", m_grouped(700, 9), "128x128x64p2s6n2", many_ends(1, 4, 9, 700, 128)},
      {"small", m_grouped(400, 7), "64x64x64g1s8", many_ends(4, 8, 7, 400, 64)},
      {"many groups", m_grouped(200, 300, "mk,enk->mn", "72, 72"), "64x128x64p2s8",
       many_ends(5, 2, 300, 200, 2)},
      {"as many as lanes", m_grouped(200, 32), "64x128x64p2s8", many_ends(6, 2, 32, 200, 9)},
      {"one more", m_grouped(200, 33), "64x128x64p2s8", many_ends(7, 2, 33, 200, 9)},
      {"one group", m_grouped(200, 1), "64x128x64p2s8", {{200}, {0}, {131}}},
  });
}

TEST_CASE("M-grouped: layouts, batches, epilogues, a symbol, split-K") {
  const std::string symbol =
      "chain a[M in 0..700](input x: f16[M, 72], weight w: f16[3, 136, 72], input e: i32[3]) {\n"
      "  y = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n  return y: bf16 }";
  const std::vector<std::vector<i32>> ends3 = {{70, 70, 200}, {0, 1, 130}};
  std::vector<Case> cases = {
      {"MN-major weights", m_grouped(300, 4, "mn,enk->mk", "72, 264"), "128x128x64p2s6c2",
       kEndsOf4Groups},
      {"MN-major weights", m_grouped(300, 4, "mk,ekn->mn", "72, 264"), "128x256x64g2s4",
       kEndsOf4Groups},
      {"in a batch",
       "chain a(input x: bf16[3, 70, 72], weight w: bf16[3, 3, 136, 72], input e: i32[3]) {\n"
       "  y = contract \"bmk,benk->bmn\"(x, w) ragged m by e over e\n  return y: bf16 }",
       "64x64x64g1s8",
       {{0, 70, 70}, {1, 2, 69}, {64, 65, 70}}},
      {"two row labels",
       "chain a(input x: f16[70, 5, 72], weight w: f16[3, 136, 72], input e: i32[3]) {\n"
       "  y = contract \"mhk,enk->mhn\"(x, w) ragged m by e over e\n  return y: f16 }",
       "64x128x64p2s8",
       {{0, 70, 70}, {1, 2, 69}}},
      {"bias and residual",
       "chain a(input x: bf16[300, 72], weight w: bf16[4, 136, 72], weight b: bf16[136],\n"
       "        input r: bf16[300, 136], input e: i32[4]) {\n"
       "  h = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
       "  y = add(relu(add(h, b)), r)\n  return y: bf16, h: f32 }",
       "128x128x64p2s6c2", kEndsOf4Groups},
      {"split-K",
       m_grouped(300, 4, "mn,enk->mk", "72, 264"),
       "64x64x64g1s8",
       kEndsOf4Groups,
       {},
       0,
       2},
  };
  for (const i64 size : {0, 1, 513, 700}) {
    cases.push_back({"symbol", symbol, "128x128x64p2s6c2", ends3, {}, size});
  }
  run_all(cases);
}

TEST_CASE("M-grouped: tf32, staged epilogue") {
  const std::vector<std::vector<i32>> ends = {{0, 1, 130}, {64, 129, 200}};
  const std::string tf32 =
      "chain a(input x: f32[200, 72], weight w: f32[3, 136, 72], input e: i32[3]) {\n"
      "  y = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n  return y: f32 }";
  const std::string unaligned =
      "chain a(input x: bf16[200, 72], weight w: bf16[3, 75, 72], input e: i32[3]) {\n"
      "  y = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n  return y: bf16 align 2 }";
  run_all({{"tf32", tf32, "128x128x32p2s6c2", ends},
           {"unaligned columns", unaligned, "128x128x64p2s6c2", ends}});
}

TEST_CASE("M-grouped: dual GEMM") {
  std::vector<Case> cases;
  const std::string dual =
      "chain a(input x: bf16[300, 136], weight w: bf16[4, 200, 136], weight v: bf16[4, 200, 136],\n"
      "        input e: i32[4]) {\n"
      "  g = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
      "  u = contract \"mk,enk->mn\"(x, v) ragged m by e over e\n"
      "  h = mul(relu(g), u)\n  return h: f32 }";
  for (const char* tile : {"128x64x64p2s6c2", "128x128x64g2s4c2", "64x32x64g1s8"}) {
    cases.push_back({"dual", dual, tile, kEndsOf4Groups});
  }
  run_all(cases);
}

TEST_CASE("K-grouped: every kind of tile, ends around the k-tile") {
  std::vector<Case> cases;
  u64 seed = 1;
  for (const char* tile :
       {"64x64x64g1s8", "128x128x64p2s6", "128x128x64p2s6c2", "128x256x64g2s4c2", "256x128x64g2s4",
        "64x256x64p2s4c2", "128x128x64p2s6n2", "128x128x64p2s6c2n2"}) {
    cases.push_back({"K-grouped",
                     k_grouped(300, 4),
                     tile,
                     {kEndsOf4Groups[1], kEndsOf4Groups[3], kEndsOf4Groups[5]}});
    cases.push_back({"K-grouped", k_grouped(300, 5), tile, many_ends(seed++, 2, 5, 300, 64)});
  }
  cases.push_back({"one group", k_grouped(200, 1), "64x128x64p2s8", {{200}, {0}, {131}}});
  cases.push_back(
      {"many groups", k_grouped(200, 40), "128x256x64g2s4c2", many_ends(seed, 1, 40, 200, 7)});
  run_all(cases);
}

TEST_CASE("K-grouped: outer K loop, dual GEMM, split-K, a symbol") {
  run_all({
      {"outer K loop",
       "chain a(input d: f16[3, 100, 136], input x: f16[3, 100, 136], input e: i32[2]) {\n"
       "  y = contract \"bmn,bmk->enk\"(d, x) ragged m by e over e\n  return y: f32 }",
       "128x128x64p2s6c2",
       {{33, 99}, {64, 66}, {0, 100}}},
      {"in a batch",
       "chain a(input d: f16[3, 100, 136], input x: f16[3, 100, 136], input e: i32[2]) {\n"
       "  y = contract \"bmn,bmk->benk\"(d, x) ragged m by e over e\n  return y: f32 }",
       "64x64x64g1s8",
       {{33, 99}, {64, 66}}},
      {"dual",
       "chain a(input d: bf16[200, 136], input x: bf16[200, 136], input z: bf16[200, 136],\n"
       "        input e: i32[3]) {\n"
       "  g = contract \"mn,mk->enk\"(d, x) ragged m by e over e\n"
       "  u = contract \"mn,mk->enk\"(d, z) ragged m by e over e\n"
       "  h = mul(relu(g), u)\n  return h: f32 }",
       "128x128x64g2s4c2",
       {{33, 33, 199}, {64, 129, 200}}},
      {"split-K", k_grouped(300, 4), "128x128x64g2s6", kEndsOf4Groups, {}, 0, 3},
      {"symbol",
       "chain a[M in 0..700](input d: bf16[M, 136], input x: bf16[M, 136], input e: i32[3]) {\n"
       "  y = contract \"mn,mk->enk\"(d, x) ragged m by e over e\n  return y: bf16 }",
       "128x128x64p2s6c2",
       {{7, 140, 513}, {0, 0, 0}},
       {},
       513},
  });
}

// NaN in group 1 of three, and past the last end.
TEST_CASE("NaN stays in its group") {
  const std::vector<std::vector<i32>> ends = {{100, 110, 250}};
  const std::vector<Rows> nan_rows = {{100, 110}, {250, 300}};
  run_all({
      {"K-grouped, ping-pong", k_grouped(300, 3), "128x128x64p2s6c2", ends, nan_rows},
      {"K-grouped, cooperative", k_grouped(300, 3), "128x256x64g2s4c2", ends, nan_rows},
      {"K-grouped, one warpgroup", k_grouped(300, 3), "64x64x64g1s8", ends, nan_rows},
      {"M-grouped", m_grouped(300, 3), "128x128x64p2s6c2", ends, nan_rows},
  });
}
