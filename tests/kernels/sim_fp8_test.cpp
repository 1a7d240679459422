// SPDX-License-Identifier: Apache-2.0
// fp8 contractions of `gemm_sm90` in the simulator: promoted and fast sums in every schedule,
// scales in the epilogue, gated, grouped and ragged, results in fp8; tails of K and of tiles; exact
// integers bit for bit, real data inside the interval, NaN and saturation.
#include <doctest/doctest.h>

#include "ir/random/random_chain.h"
#include "tests/support/sim_gemm_sm90.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

using Case = SimTileCase;

// Sizes that are multiples of no tile, and K of no k-tile. `k` terms, `word` after the equation.
std::string scaled(i64 k, const std::string& word = "", const std::string& dtype = "e4m3") {
  return fmt::format(
      "chain a(input x: {0}[264, {1}], weight w: {0}[328, {1}], input s: f32[264],\n"
      "        weight t: f32[328], weight b: bf16[328]) {{\n"
      "  h = contract \"mk,nk->mn\" {2} (x, w)\n"
      "  y = relu(add(mul(mul(h, s @ \"m\"), t @ \"n\"), b))\n  return y: bf16 }}",
      dtype, k, word);
}

const char* const kGated =
    "chain a(input x: e4m3[264, 272], weight w: e4m3[328, 272], weight v: e4m3[328, 272],\n"
    "        input s: f32[264], weight t: f32[328], weight u: f32[328]) {\n"
    "  g = contract \"mk,nk->mn\"(x, w)\n  h = contract \"mk,nk->mn\"(x, v)\n"
    "  a = mul(mul(g, s @ \"m\"), t @ \"n\")\n  b = mul(mul(h, s @ \"m\"), u @ \"n\")\n"
    "  y = mul(relu(a), b)\n  return y: e4m3 }";

const char* const kExperts =
    "chain a(input x: e4m3[200, 272], weight w: e4m3[5, 136, 272], input ends: i32[5],\n"
    "        input s: f32[200], weight t: f32[5, 136]) {\n"
    "  h = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n"
    "  y = mul(mul(h, s @ \"m\"), t @ \"en\")\n  return y: bf16 }";

const char* const kGrouped =
    "chain a(input x: e4m3[70, 3, 400], weight w: e4m3[3, 136, 400], input s: f32[70],\n"
    "        weight t: f32[3, 136]) {\n"
    "  y = mul(mul(contract \"bgk,gnk->bgn\"(x, w), s @ \"b\"), t @ \"gn\")\n  return y: e4m3 }";

const char* const kFew =
    "chain a(input x: e4m3[9, 1200], weight w: e4m3[200, 1200], weight t: f32[200]) {\n"
    "  y = mul(contract \"mk,nk->mn\"(x, w), t)\n  return y: f32 }";

}  // namespace

TEST_CASE("every schedule, with one and with two sets of partial sums") {
  std::vector<Case> cases;
  const std::pair<const char*, int> tiles[] = {
      {"256x128x128g2", 1}, {"128x128x128g2", 1}, {"128x192x128g2", 1}, {"128x128x128p2", 1},
      {"64x128x128p2", 2},  {"128x64x128p2", 2},  {"64x128x128g1", 2},  {"64x64x128g1", 2}};
  for (const auto& [tile, sets] : tiles) {
    // One, two and five k-tiles, the last one partial.
    for (const i64 k : {112, 256, 592}) {
      cases.push_back(
          {fmt::format("{} k{}", tile, k), scaled(k), tile, FillKind::kExactInteger, 0, sets});
    }
  }
  run_tiles(cases);
}

TEST_CASE("fast sums stay in the tensor cores") {
  run_tiles(
      {{"fast", scaled(592, "fast_accum"), "128x128x128p2", FillKind::kExactInteger, 0, 0},
       {"fast e5m2", scaled(592, "fast_accum", "e5m2"), "128x256x128g2", FillKind::kExactInteger, 0,
        0},
       {"fast normal", scaled(1040, "fast_accum"), "128x128x128g2", FillKind::kNormal, 0, 0}});
}

TEST_CASE("real data is inside the interval") {
  std::vector<Case> cases;
  for (const FillKind fill : {FillKind::kNormal, FillKind::kPositive, FillKind::kSparse}) {
    cases.push_back({"normal", scaled(592), "256x128x128g2", fill});
    cases.push_back({"normal p2", scaled(592), "64x128x128p2", fill});
    cases.push_back({"e5m2", scaled(592, "", "e5m2"), "", fill});
    cases.push_back({"gated", kGated, "", fill});
    cases.push_back({"few", kFew, "", fill});
  }
  run_tiles(cases);
}

TEST_CASE("NaN and infinities of the operands reach their rows only") {
  run_tiles({{"nan", scaled(272), "", FillKind::kNanPlant},
             {"nan gated", kGated, "", FillKind::kNanPlant},
             {"inf e5m2", scaled(272, "", "e5m2"), "", FillKind::kInfPlant}});
}

TEST_CASE("gated, ragged, grouped, small M, split-K, M clusters, N clusters") {
  std::vector<Case> cases = {{"gated", kGated, ""},
                             {"gated 128x128x128g2", kGated, "128x128x128g2"},
                             {"gated 64x128", kGated, "64x128x128p2"},
                             {"experts", kExperts, ""},
                             {"experts p2", kExperts, "64x128x128p2"},
                             {"experts g2", kExperts, "128x128x128g2"},
                             {"grouped", kGrouped, ""},
                             {"few", kFew, ""},
                             {"few 64x64 k4", kFew, "64x64x128g1"},
                             {"split-K", scaled(1040), "128x128x128g2", FillKind::kNormal, 0, 1, 2},
                             {"clusters", scaled(592), "256x128x128g2s4c2"},
                             {"N clusters", scaled(592), "256x128x128g2s4n2"},
                             {"clusters of 2 x 2", scaled(592), "64x64x128g1s8c2n2"}};
  run_tiles(cases);
}

TEST_CASE("a symbolic number of rows, none among them") {
  const std::string chain =
      "chain a[M in 0..200](input x: e4m3[M, 272], weight w: e4m3[72, 272], input s: f32[M]) {\n"
      "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: e4m3 }";
  std::vector<Case> cases;
  for (const i64 m : {0, 1, 77, 200})
    cases.push_back({fmt::format("M {}", m), chain, "", FillKind::kExactInteger, m});
  run_tiles(cases);
}

// Rows of results that are aligned to 16 bytes are staged: with whole subtiles, with columns past
// the matrix (8 of the last 16, or all), with rows of another group, beside 16-bit results by TMA.
// Tiles of 104 and 136 columns begin between 16 bytes and are not.
TEST_CASE("staged results") {
  const auto chain = [](int n, const std::string& rest) {
    return fmt::format(
        "chain a(input x: e4m3[152, 272], weight w: e4m3[{0}, 272], weight t: f32[{0}]) {{\n"
        "  y = mul(contract \"mk,nk->mn\"(x, w), t)\n{1} }}",
        n, rest);
  };
  const std::string experts =
      "chain a(input x: e4m3[200, 272], weight w: e4m3[5, 144, 272], input ends: i32[5]) {\n"
      "  y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n  return y: e5m2 }";
  std::vector<Case> cases;
  for (const char* tile : {"64x128x128p2", "128x128x128g2", "256x128x128g2", "128x64x128p2",
                           "128x192x128g2", "128x136x128g2s3", "64x104x128p2s3"}) {
    cases.push_back({fmt::format("whole {}", tile), chain(384, "  return y: e4m3"), tile});
    cases.push_back(
        {fmt::format("tails {}", tile), chain(200, "  return y: e4m3 strides[208, 1]"), tile});
    cases.push_back({fmt::format("two {}", tile),
                     chain(336, "  z = add(y, 1)\n  return y: e4m3, z: bf16"), tile});
    cases.push_back({fmt::format("experts {}", tile), experts, tile});
  }
  run_tiles(cases);
}

// 300 * 2 and -300 * 2 are beyond 448.
TEST_CASE("results beyond the range are the largest finite value") {
  run_tiles({{"saturated",
              "chain a(input x: e4m3[40, 128], weight w: e4m3[40, 128]) {\n"
              "  h = contract \"mk,nk->mn\"(x, w)\n  y = mul(h, 300)\n  z = mul(h, 0.001)\n"
              "  return y: e4m3, z: e5m2 }",
              ""}});
}

// Contractions of fp8 beside those of other dtypes; parameters, casts and results of fp8 in every
// family. No kernel multiplies fp8 operands that a second contraction lays out otherwise.
TEST_CASE("random chains") {
  std::vector<Case> cases;
  const FillKind fills[] = {FillKind::kExactInteger, FillKind::kNormal, FillKind::kPositive};
  int refused = 0, fp8 = 0, scaled = 0;
  for (u64 seed = 0; seed < 60; ++seed) {
    RandomChainOptions options;
    options.small_m = true;
    options.fp8 = true;
    options.no_in_place = true;
    options.max_elements = 2048;
    const Chain chain = random_chain(seed, options);
    const VerifiedChain valid = llvm::cantFail(verify(chain));
    auto plan = make_plan(valid, llvm::cantFail(find_target("h200")));
    if (!plan) {
      CHECK(take_report(plan.takeError()).code == ErrorCode::kUnsupported);
      ++refused;
      continue;
    }
    for (ValueId id = 0; id < valid.num_values(); ++id) {
      const auto& operands = valid.value(id).operands;
      fp8 +=
          valid.value(id).op == Op::kContract && is_fp8(valid.info(operands[0].value).type.dtype);
      scaled += valid.value(id).op == Op::kDequant;
    }
    const i64 symbol = chain.symbol ? chain.symbol->hi : 0;
    cases.push_back({fmt::format("seed {}", seed), print(chain), "", fills[seed % 3], symbol});
  }
  CHECK(refused < 30);
  CHECK(fp8 > 5);
  CHECK(scaled > 5);
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) -> std::string {
    SimulatedChainOptions options;
    options.symbol = from.symbol;
    options.sm_count = 3;
    options.fill = from.fill;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return from.name + ": " + take_report(chain.takeError()).message;
    return first_failure(*chain, from.name, 1);
  });
}
