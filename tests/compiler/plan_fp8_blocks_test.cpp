// SPDX-License-Identifier: Apache-2.0
// Plans of fp8 contractions with scales per block: the config's scales, tiles by how many blocks
// of columns they have, and what is refused.
#include <doctest/doctest.h>

#include "compiler/emit/emit.h"
#include "compiler/kernel_family.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

std::string product(const char* parameters, const char* block_x, const char* block_w,
                    const char* rest = "") {
  return fmt::format(
      "chain a({}) {{\n  y = contract \"mk,nk->mn\"(dequant(x, s) block {}, dequant(w, t) block {})"
      "{}\n  return y: bf16 }}",
      parameters, block_x, block_w, rest);
}

ErrorReport refused(const std::string& text, const char* target = "h200") {
  auto plan = make_plan(verified(text), llvm::cantFail(find_target(target)));
  REQUIRE(!plan);
  return take_report(plan.takeError());
}

void check_refused(const std::string& text, const char* says, const char* target = "h200") {
  const ErrorReport report = refused(text, target);
  CAPTURE(report.message);
  CHECK(report.code == ErrorCode::kUnsupported);
  CHECK(report.message.find(says) != std::string::npos);
}

constexpr const char* kLayer =
    "input x: e4m3[512, 1040], input s: f32[512, 9] strides[1, 520], weight w: e4m3[384, 1040],\n"
    "weight t: f32[3, 9]";

}  // namespace

TEST_CASE("where the scales are, in either order") {
  const GemmSm90Config rows = config(planned(product(kLayer, "(1, 128)", "(128, 128)")));
  CHECK(rows.block_scaled);
  CHECK(rows.scale_a == BlockScales{rows.scale_a.slot, 1, 128, 1, 520, 0});
  CHECK(rows.scale_b == BlockScales{rows.scale_b.slot, 128, 128, 9, 1, 0});
  CHECK(rows.scale_a.slot != rows.scale_b.slot);
  const GemmSm90Config columns = config(
      planned(product("input x: e4m3[512, 1040], input s: f32[512, 5], weight w: e4m3[384, 1040],\n"
                      "weight t: f32[1, 1]",
                      "(1, 256)", "(384, 1040)")));
  CHECK(columns.scale_a == BlockScales{columns.scale_a.slot, 1, 256, 5, 1, 0});
  CHECK(columns.scale_b == BlockScales{columns.scale_b.slot, 0, 128, 0, 0, 0});
  const GemmSm90Config experts = config(planned(
      "chain a(input x: e4m3[512, 256], input s: f32[512, 2], weight w: e4m3[4, 384, 256],\n"
      "        weight t: f32[4, 3, 2], input ends: i32[4]) {\n"
      "  y = contract \"mk,enk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
      "128))\n      ragged m by ends over e\n  return y: bf16 }"));
  CHECK(experts.scale_b == BlockScales{experts.scale_b.slot, 128, 128, 2, 1, 6});
}

TEST_CASE("the operand whose rows share scales is B, on either side") {
  const Plan plan = planned(
      "chain a(weight w: e4m3[384, 256], weight t: f32[3, 2], input x: e4m3[512, 256],\n"
      "        input s: f32[512, 2]) {\n"
      "  y = contract \"nk,mk->nm\"(dequant(w, t) block (128, 128), dequant(x, s) block (1, "
      "128))\n  return y: bf16 }");
  CHECK(config(plan).space.m == Extent(512));
  CHECK(config(plan).scale_a.rows == 1);
  CHECK(config(plan).scale_b.rows == 128);
}

TEST_CASE("blocks of the columns of a tile") {
  const auto blocks = [](i32 block_n, i64 rows, i64 n) {
    GemmSm90Config c;
    c.space.n = Extent(n);
    c.tile.block_n = block_n;
    c.scale_b.rows = rows;
    const auto [most, first_columns] = c.scale_blocks();
    return std::pair(most, first_columns);
  };
  constexpr i32 kVaries = GemmSm90Config::kVaries;
  CHECK(blocks(128, 128, 4096) == std::pair(1, 128));
  CHECK(blocks(64, 128, 4096) == std::pair(1, 64));
  CHECK(blocks(256, 128, 4096) == std::pair(2, 128));
  CHECK(blocks(192, 128, 4096) == std::pair(2, kVaries));
  CHECK(blocks(160, 128, 4096) == std::pair(2, kVaries));
  CHECK(blocks(168, 128, 4096) == std::pair(3, kVaries));
  // One tile; and two, the second with fewer columns than the first block of the first.
  CHECK(blocks(168, 128, 168) == std::pair(2, 128));
  CHECK(blocks(192, 128, 200) == std::pair(2, 128));
  // Tiles of one block and of two.
  CHECK(blocks(56, 128, 4096) == std::pair(2, kVaries));
  CHECK(blocks(128, 384, 4096) == std::pair(1, 128));
  CHECK(blocks(192, 256, 384) == std::pair(2, kVaries));
  CHECK(blocks(192, 0, 4096) == std::pair(1, 192));
}

TEST_CASE("tiles with columns of three blocks are rejected with the reason") {
  // 512 x 11008 has fitted widths.
  const Plan plan = planned(
      product("input x: e4m3[512, 1024], input s: f32[512, 8], weight w: e4m3[11008, 1024],\n"
              "weight t: f32[86, 8]",
              "(1, 128)", "(128, 128)"));
  int rejected = 0, taken = 0;
  for (const CandidateSummary& tile : first_kernel(plan).candidates) {
    const bool blocks =
        tile.rejected.find("blocks of 128 that share scales, the limit is 2") != std::string::npos;
    rejected += blocks;
    taken += tile.rejected.empty();
  }
  CHECK(rejected > 0);
  CHECK(taken > 5);
  CHECK(config(plan).scale_blocks().most <= 2);
}

TEST_CASE("the emitted config names the scales") {
  const std::string text = product(kLayer, "(1, 128)", "(128, 128)");
  const Plan plan = planned(text);
  const std::string source = emit(verified(text), plan, first_kernel(plan)).text();
  CHECK(source.find(".block_scaled = true, .scale_a = {.slot = ") != std::string::npos);
  CHECK(source.find(".rows = 128, .columns = 128, .stride_row = 9, .stride_column = 1}") !=
        std::string::npos);
}

TEST_CASE("what is refused, and elsewhere") {
  check_refused(product(kLayer, "(1, 128)", "(128, 128)"), "gemm_sm90: it needs sm_90a", "a100");
  check_refused(product("input x: e4m3[64, 256], input s: f32[64, 4], weight w: e4m3[64, 256],\n"
                        "weight t: f32[1, 2]",
                        "(1, 64)", "(128, 128)"),
                "64 columns of 'x' share a scale: make that a multiple of 128");
  check_refused(product("input x: e4m3[256, 256], input s: f32[2, 2], weight w: e4m3[256, 256],\n"
                        "weight t: f32[2, 2]",
                        "(128, 128)", "(128, 128)"),
                "128 rows of 'x' share a scale: give each row its own, or all rows one");
  check_refused(product("input x: e4m3[64, 256], input s: f32[64, 2], weight w: e4m3[256, 256],\n"
                        "weight t: f32[256, 2]",
                        "(1, 128)", "(1, 128)"),
                "each row of 'w' has scales of its own, and so has each row of 'x'");
  check_refused(product("input x: e4m3[64, 256], input s: f32[64, 2], weight w: e4m3[256, 256],\n"
                        "weight t: f32[4, 2]",
                        "(1, 128)", "(64, 128)"),
                "64 rows of 'w' share a scale: make that a multiple of 128");
  check_refused(product("input x: e4m3[64, 200], input s: f32[64, 2], weight w: e4m3[256, 200],\n"
                        "weight t: f32[2, 2]",
                        "(1, 128)", "(128, 128)"),
                "an operand of e4m3 has no tensor map");
  check_refused(
      "chain a(input x: e4m3[2, 64, 256], input s: f32[2, 64, 2], weight w: e4m3[2, 256, 256],\n"
      "        weight t: f32[2, 2, 2]) {\n"
      "  y = contract \"bmk,bnk->bmn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
      "128))\n  return y: bf16 }",
      "scales per block are of two matrices: write a contraction for each batch entry");
  check_refused(
      "chain a(input x: e4m3[64, 256], input s: f32[64, 2], weight w: e4m3[256, 256],\n"
      "        weight t: f32[2, 2]) {\n"
      "  y = contract \"mk,kn->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
      "128))\n  return y: bf16 }",
      "'w' is not a matrix with the summed label innermost");
  // Each matrix has one row, and scales of its own.
  check_refused(
      "chain a(input x: e4m3[64, 256], input s: f32[64, 2], weight w: e4m3[64, 1, 256],\n"
      "        weight t: f32[64, 1, 2]) {\n"
      "  y = contract \"mk,jck->mjc\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
      "128))\n  return y: bf16 }",
      "'w' is not a matrix with the summed label innermost");
}

TEST_CASE("two products over one activation are a dual GEMM where their blocks agree") {
  const auto gated = [](const char* weights, const char* block_v) {
    return planned(fmt::format(
        "chain a(input x: e4m3[512, 256], input s: f32[512, 2], weight w: e4m3[384, 256],\n"
        "        weight t: f32[3, 2], {}) {{\n"
        "  d = dequant(x, s) block (1, 128)\n"
        "  g = contract \"mk,nk->mn\"(d, dequant(w, t) block (128, 128))\n"
        "  h = contract \"mk,nk->mn\"(d, dequant(v, u) block {})\n"
        "  y = mul(silu(g), h)\n  return y: bf16 }}",
        weights, block_v));
  };
  const Plan dual =
      gated("weight v: e4m3[384, 256], weight u: f32[3, 2] strides[1, 3]", "(128, 128)");
  REQUIRE(dual.buckets[0].kernels.size() == 1);
  CHECK(config(dual).dual);
  CHECK(config(dual).scale_b.stride_row == 2);
  CHECK(config(dual).scale_b2 == BlockScales{config(dual).scale_b2.slot, 128, 128, 1, 3, 0});
  CHECK(config(dual).scale_b2.slot != config(dual).scale_b.slot);
  const Plan apart = gated("weight v: e4m3[384, 256], weight u: f32[2, 2]", "(256, 128)");
  CHECK(apart.buckets[0].kernels.size() == 2);
}

TEST_CASE("an activation dequantised twice is one activation, by other scales it is another") {
  const auto gated = [](const char* parameters, const char* scales) {
    return planned(fmt::format(
        "chain a(input x: e4m3[512, 256], {}\n"
        "        weight w: e4m3[384, 256], weight t: f32[3, 2], weight v: e4m3[384, 256]) {{\n"
        "  g = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
        "128))\n"
        "  h = contract \"mk,nk->mn\"(dequant(x, {}) block (1, 128), dequant(v, t) block (128, "
        "128))\n"
        "  y = mul(silu(g), h)\n  return y: bf16 }}",
        parameters, scales));
  };
  const char* const two = "input s: f32[512, 2], input r: f32[512, 2],";
  CHECK(gated("input s: f32[512, 2],", "s").buckets[0].kernels.size() == 1);
  CHECK(gated(two, "r").buckets[0].kernels.size() == 2);
}

TEST_CASE("fp8 without elements is refused for that reason") {
  for (const char* sizes : {"0, 64", "4, 0"}) {
    const bool rows = sizes[0] == '0';
    check_refused(fmt::format("chain z(input x: e4m3[{}], weight w: e4m3[32, {}]) {{\n"
                              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }}",
                              sizes, rows ? 64 : 0),
                  "gemm_sm90: an operand has no contiguous dimension, or no elements");
  }
}
