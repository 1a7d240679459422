// SPDX-License-Identifier: Apache-2.0
// fp8 contractions with scales per block in the simulator: every form of the promoted mainloop,
// column tiles of one and of two blocks, both orders of the scales, tails of M, N and K; scales of
// zero and NaN, saturated results; ragged rows, symbols, split-K, clusters, small M.
#include <doctest/doctest.h>

#include "tests/support/sim_gemm_sm90.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

using Case = SimTileCase;

struct Sizes {
  i64 m = 264, n = 328, k = 592;
};

enum class Order { kColumnsInside, kRowsInside };

// Both scales in that order; rows of A's and B's are padded where they are innermost.
std::string blocks(const Sizes& size, Order order = Order::kColumnsInside,
                   const std::string& dtype = "e4m3", const std::string& result = "bf16") {
  const i64 blocks_n = ceil_div(size.n, 128), blocks_k = ceil_div(size.k, 128);
  const bool rows = order == Order::kRowsInside;
  return fmt::format(
      "chain a(input x: {0}[{1}, {3}], input s: f32[{1}, {5}]{6}, weight w: {0}[{2}, {3}],\n"
      "        weight t: f32[{4}, {5}]{7}, weight b: bf16[{2}]) {{\n"
      "  h = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128))\n"
      "  y = relu(add(h, b))\n  return y: {8} }}",
      dtype, size.m, size.n, size.k, blocks_n, blocks_k,
      rows ? fmt::format(" strides[1, {}]", size.m + 4) : "",
      rows ? fmt::format(" strides[1, {}]", blocks_n + 1) : "", result);
}

std::string experts(const char* strides_s, const char* strides_t) {
  return fmt::format(
      "chain a(input x: e4m3[200, 272], input s: f32[200, 3]{}, weight w: e4m3[5, 136, 272],\n"
      "        weight t: f32[5, 2, 3]{}, input ends: i32[5]) {{\n"
      "  y = contract \"mk,enk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
      "128))\n"
      "      ragged m by ends over e\n  return y: bf16 }}",
      strides_s, strides_t);
}

const char* const kGated =
    "chain a(input x: e4m3[264, 272], input s: f32[264, 3], weight w: e4m3[328, 272],\n"
    "        weight t: f32[3, 3], weight v: e4m3[328, 272], weight u: f32[3, 3] strides[1, 4]) {\n"
    "  d = dequant(x, s) block (1, 128)\n"
    "  g = contract \"mk,nk->mn\"(d, dequant(w, t) block (128, 128))\n"
    "  h = contract \"mk,nk->mn\"(d, dequant(v, u) block (128, 128))\n"
    "  y = mul(relu(g), h)\n  return y: f32 }";

const char* const kGatedExperts =
    "chain a(input x: e4m3[200, 272], input s: f32[200, 3] strides[1, 200], input ends: i32[4],\n"
    "        weight w: e4m3[4, 136, 272], weight t: f32[4, 2, 3], weight v: e4m3[4, 136, 272],\n"
    "        weight u: f32[4, 2, 3]) {\n"
    "  d = dequant(x, s) block (1, 128)\n"
    "  g = contract \"mk,enk->mn\"(d, dequant(w, t) block (128, 128)) ragged m by ends over e\n"
    "  h = contract \"mk,enk->mn\"(d, dequant(v, u) block (128, 128)) ragged m by ends over e\n"
    "  y = mul(relu(g), h)\n  return y: bf16 }";

// The names of parameters in the order of declaration; NaN is planted into the first one.
std::string planted(const char* first, const char* second) {
  return fmt::format(
      "chain a({}, {}, input x: e4m3[150, 272], weight w: e4m3[264, 272]) {{\n"
      "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128))\n"
      "  return y: f32 }}",
      first, second);
}

constexpr const char* kRowScales = "input s: f32[150, 3]";
constexpr const char* kColumnScales = "weight t: f32[3, 3]";

}  // namespace

TEST_CASE("every schedule, with tiles of one block of columns and of two, in both orders") {
  std::vector<Case> cases;
  const std::pair<const char*, int> tiles[] = {
      {"256x128x128g2", 1}, {"128x128x128g2", 1}, {"128x184x128g2s3", 1}, {"64x192x128p2", 1},
      {"64x128x128p2", 2},  {"128x64x128p2", 2},  {"64x128x128g1", 2},  {"64x64x128g1", 2}};
  for (const auto& [tile, sets] : tiles) {
    // One, two and five k-tiles, the last one partial.
    for (const i64 k : {112, 256, 592}) {
      const Order order = k == 256 ? Order::kColumnsInside : Order::kRowsInside;
      cases.push_back({fmt::format("{} k{}", tile, k), blocks({264, 328, k}, order), tile,
                       FillKind::kExactInteger, 0, sets});
    }
  }
  run_tiles(cases);
}

TEST_CASE("real data is inside the interval, scales of zero among it") {
  std::vector<Case> cases;
  for (const FillKind fill : {FillKind::kNormal, FillKind::kPositive, FillKind::kSparse}) {
    for (const Order order : {Order::kColumnsInside, Order::kRowsInside}) {
      cases.push_back({"normal", blocks({}, order), "256x128x128g2", fill});
      cases.push_back({"normal 192", blocks({}, order), "128x184x128g2s3", fill});
      cases.push_back({"e5m2", blocks({}, order, "e5m2"), "", fill});
    }
    cases.push_back({"few", blocks({9, 200, 1200}), "", fill});
    cases.push_back({"experts", experts("", ""), "", fill});
  }
  run_tiles(cases);
}

TEST_CASE("NaN of a scale, and of an operand, reaches the rows or columns of its block only") {
  run_tiles(
      {{"nan in the scales of x", planted(kRowScales, kColumnScales), "", FillKind::kNanPlant},
       {"nan in the scales of w", planted(kColumnScales, kRowScales), "", FillKind::kNanPlant},
       {"nan 192", planted(kColumnScales, kRowScales), "128x184x128g2s3", FillKind::kNanPlant},
       {"nan in x", blocks({}), "", FillKind::kNanPlant},
       {"inf e5m2", blocks({}, Order::kRowsInside, "e5m2"), "", FillKind::kInfPlant}});
}

TEST_CASE("results beyond the range are the largest finite value") {
  run_tiles({{"saturated",
              "chain a(input x: e4m3[40, 256], input s: f32[40, 2], weight w: e4m3[40, 256],\n"
              "        weight t: f32[1, 2]) {\n"
              "  h = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block "
              "(128, 128))\n"
              "  y = mul(h, 300)\n  return y: e4m3 }",
              ""},
             {"fp8 result", blocks({}, Order::kRowsInside, "e4m3", "e4m3"), "256x128x128g2"}});
}

TEST_CASE("ragged rows, scales by group, rows of no group") {
  std::vector<Case> cases;
  for (const char* tile : {"", "64x128x128p2", "128x128x128g2", "128x184x128g2s3", "64x64x128g1"}) {
    cases.push_back({fmt::format("experts {}", tile), experts("", ""), tile});
    cases.push_back({fmt::format("experts, rows inside {}", tile),
                     experts(" strides[1, 204]", " strides[20, 1, 4]"), tile});
  }
  for (const std::vector<i32>& ends :
       {std::vector<i32>{0, 0, 70, 70, 90}, {-5, 33, 20, 150, 900}, {0, 0, 0, 0, 0}}) {
    cases.push_back({"ends", experts("", ""), "64x128x128p2", FillKind::kNormal, 0, -1, 0, ends});
  }
  // A row of no group is 0 whatever its scale.
  cases.push_back(
      {"nan in a row of no group",
       "chain a(input s: f32[200, 3], input x: e4m3[200, 272], weight w: e4m3[2, 136, 272],\n"
       "        weight t: f32[2, 2, 3], input ends: i32[2]) {\n"
       "  y = contract \"mk,enk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
       "128))\n      ragged m by ends over e\n  return y: f32 }",
       "64x128x128p2",
       FillKind::kNanPlant,
       0,
       -1,
       0,
       {0, 1}});
  run_tiles(cases);
}

TEST_CASE("gated: two products over one activation, dense and ragged") {
  std::vector<Case> cases;
  for (const char* tile : {"", "256x64x128g2", "128x96x128g2", "64x64x128p2"}) {
    cases.push_back({fmt::format("gated {}", tile), kGated, tile});
    cases.push_back({fmt::format("gated experts {}", tile), kGatedExperts, tile});
  }
  std::string twice = kGated;
  const std::string name = "d = dequant(x, s) block (1, 128)\n", use = "(d, ";
  twice.replace(twice.find(name), name.size(), "");
  for (size_t at = twice.find(use); at != std::string::npos; at = twice.find(use))
    twice.replace(at, use.size(), "(dequant(x, s) block (1, 128), ");
  cases.push_back({"gated, dequantised twice", twice, ""});
  cases.push_back({"gated normal", kGated, "", FillKind::kNormal});
  cases.push_back({"gated nan", kGated, "64x96x128p2", FillKind::kNanPlant});
  run_tiles(cases);
}

TEST_CASE("blocks of all of K, of several k-tiles, of all rows; the weight on the left") {
  const auto with = [](const char* scales, const char* block_x, const char* block_w) {
    return fmt::format(
        "chain a(input x: e4m3[70, 592], weight w: e4m3[328, 592], {}) {{\n"
        "  y = contract \"mk,nk->mn\"(dequant(x, s) block {}, dequant(w, t) block {})\n"
        "  return y: bf16 }}",
        scales, block_x, block_w);
  };
  run_tiles(
      {{"all of K", with("input s: f32[70, 1], weight t: f32[3, 1]", "(1, 592)", "(128, 592)"), ""},
       {"two k-tiles", with("input s: f32[70, 3], weight t: f32[2, 5]", "(1, 256)", "(256, 128)"),
        "128x184x128g2s3"},
       {"two k-tiles 128",
        with("input s: f32[70, 3], weight t: f32[2, 5]", "(1, 256)", "(256, 128)"), "64x128x128p2"},
       {"one of each", with("input s: f32[1, 1], weight t: f32[1, 5]", "(70, 592)", "(328, 128)"),
        "64x128x128p2"},
       {"weight on the left",
        "chain a(input x: e4m3[70, 592], input s: f32[70, 5], weight w: e4m3[328, 592],\n"
        "        weight t: f32[3, 5]) {\n"
        "  y = contract \"nk,mk->nm\"(dequant(w, t) block (128, 128), dequant(x, s) block (1, "
        "128))\n  return y: f32 }",
        ""}});
}

TEST_CASE("small M, split-K, cluster split-K, M clusters, N clusters") {
  run_tiles({{"few", blocks({9, 200, 1200}), ""},
             {"few 64x64", blocks({9, 200, 1200}, Order::kRowsInside), "64x64x128g1"},
             {"few 64x48",
              blocks({9, 5400, 272}),
              "64x48x128g1",
              FillKind::kExactInteger,
              0,
              -1,
              0,
              {},
              0},
             {"split-K", blocks({264, 328, 1040}), "128x128x128g2", FillKind::kNormal, 0, 1, 2},
             {"clusters", blocks({}), "256x128x128g2s4c2"},
             {"N clusters", blocks({}), "256x128x128g2s4n2"}});
}

TEST_CASE("a symbolic number of rows, none among them, in both orders") {
  std::vector<Case> cases;
  for (const char* strides : {"", " strides[1, 200]"}) {
    const std::string chain = fmt::format(
        "chain a[M in 0..200](input x: e4m3[M, 272], input s: f32[M, 3]{}, weight w: e4m3[72, "
        "272],\n        weight t: f32[1, 3]) {{\n"
        "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
        "128))\n  return y: e4m3 }}",
        strides);
    for (const i64 m : {0, 1, 77, 200})
      cases.push_back({fmt::format("M {}", m), chain, "", FillKind::kExactInteger, m});
  }
  run_tiles(cases);
}

// The largest magnitude of each row and 128 columns gives its scale. The results are what a second
// chain takes as x and s. An interval of e4m3 allows for the kernel's own largest magnitude.
TEST_CASE("a result quantised with scales per block, in plain operations") {
  const std::string chain =
      "chain a(input x: bf16[40, 272], weight w: bf16[2, 128, 272]) {\n"
      "  h = contract \"mk,bnk->mbn\"(x, w)\n"
      "  s = mul(max(reduce_max \"mbn->mb\"(abs(h)), 0.0001), 0.002232142857142857)\n"
      "  y = div(h, s @ \"mb\")\n  return y: e4m3, s: f32 strides[1, 40] }";
  run_cases(std::vector<FillKind>{FillKind::kNormal, FillKind::kPositive, FillKind::kNanPlant},
            [&](FillKind fill, i64, const HostCompiler& compiler) -> std::string {
              SimulatedChainOptions options;
              options.fill = fill;
              options.sm_count = 3;
              options.compiler = &compiler;
              auto made = SimulatedChain::make(chain, options);
              if (!made) return take_report(made.takeError()).message;
              return first_failure(*made, std::string(fill_text(fill)), 2);
            });
}
