// SPDX-License-Identifier: Apache-2.0
// When the planner takes `gemm_sm90`, with which maps, tile and grid.
#include <doctest/doctest.h>

#include <cstdio>

#include <set>

#include "compiler/families/gemm_sm90/candidates.h"
#include "compiler/kernel_family.h"
#include "shared/params.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

std::string gemm(const std::string& x, const std::string& w, const std::string& equation,
                 const std::string& output = "bf16") {
  return fmt::format(
      "chain a(input x: {}, weight w: {}) {{\n  y = contract \"{}\"(x, w)\n  return y: {} }}", x, w,
      equation, output);
}

const std::string kLarge = gemm("bf16[4096, 2048]", "bf16[8192, 2048]", "mk,nk->mn");

using Dimension = MapBinding::Dimension;

// Outputs that TMA stores write, each with its own tensor map.
size_t boxed_outputs(const KernelPlan& kernel) {
  size_t count = 0;
  for (const ProgramLine& line : kernel.program) count += line.operand.map >= 0 ? 1 : 0;
  return count;
}

}  // namespace

// 1094 rows end 58 rows past a tile of 128, 1472 columns 64 past one of 128.
TEST_CASE("tiles that end far past the matrix are loaded in small boxes") {
  const auto boxes = [](i64 m, i64 n, const std::string& tile) {
    PlanOptions options;
    options.force_tile = tile;
    const Plan plan =
        planned(fmt::format("chain a(input x: bf16[{0}, 512], weight w: bf16[{1}, 512]) {{\n"
                            "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }}",
                            m, n),
                options);
    const KernelPlan& kernel = first_kernel(plan);
    return std::pair<i64, i64>(kernel.maps[0].dims[1].box, kernel.maps[1].dims[1].box);
  };
  CHECK(boxes(1152, 1408, "128x128x64p2s6") == std::pair<i64, i64>(128, 128));
  // At most 15 rows outside: a whole box.
  CHECK(boxes(1144, 1400, "128x128x64p2s6") == std::pair<i64, i64>(128, 128));
  // 32 leaves 26 of the last box of A outside, 16 leaves 10; both leave none of B.
  CHECK(boxes(1094, 1472, "128x128x64p2s6") == std::pair<i64, i64>(16, 32));
  // The last tile of a cluster may be empty.
  CHECK(boxes(1152, 1408, "128x128x64p2s6c2") == std::pair<i64, i64>(32, 64));
  CHECK(boxes(1152, 1408, "128x128x64p2s6n2") == std::pair<i64, i64>(64, 32));
  // A weight stream.
  CHECK(boxes(64, 1000, "64x64x64g1s6k2").second == 64);
}

TEST_CASE("a large contraction gets maps of its operands") {
  const Plan plan = planned(kLarge);
  const KernelPlan& kernel = first_kernel(plan);
  REQUIRE(family_name(kernel) == "gemm_sm90");
  const GemmSm90Config& c = config(plan);
  CHECK(c.a.k_major);
  CHECK(c.b.k_major);
  CHECK_FALSE(c.a.weight);
  CHECK(c.b.weight);
  REQUIRE(kernel.maps.size() == 3);
  CHECK(kernel.maps[0].slot == 0);
  CHECK(kernel.maps[1].slot == 1);
  CHECK(kernel.maps[0].swizzle == Swizzle::k128);
  CHECK(kernel.maps[0].dims[0] == Dimension{Extent(2048), 2, 64});
  CHECK(kernel.maps[0].dims[1] == Dimension{Extent(4096), 4096, c.tile.block_m});
  CHECK(kernel.maps[1].dims[1] ==
        Dimension{Extent(8192), 4096, c.tile.block_n / c.schedule.cluster_m});
  CHECK(kernel.threads == 128 * (1 + c.schedule.consumers));
  CHECK(kernel.smem_bytes == c.smem_bytes());
  CHECK(kernel.cluster == c.schedule.cluster_m);
  CHECK(kernel.grid.limit == 132);
  CHECK(map_text(kernel, kernel.maps[0]) ==
        fmt::format("'x' as 2048 x 4096 bf16 in boxes of 64 x {}", c.tile.block_m));
}

TEST_CASE("dimensions of a map beyond K and the free one") {
  PlanOptions options;
  options.force_tile = "128x128x64p2s6c2";
  const Plan plan =
      planned(gemm("f16[256, 12, 512]", "f16[12, 512, 256]", "bgk,gkn->bgn"), options);
  const KernelPlan& kernel = first_kernel(plan);
  REQUIRE(family_name(kernel) == "gemm_sm90");
  const GemmSm90Config& c = config(plan);
  CHECK(c.a.k_major);
  CHECK_FALSE(c.b.k_major);
  CHECK(c.a.coord2 == kMaxDims - 1);
  CHECK(c.b.coord2 == kMaxDims - 1);
  CHECK(c.b.rank() == 3);
  REQUIRE(kernel.maps[1].dims.size() == 3);
  CHECK(kernel.maps[1].dims[0] == Dimension{Extent(256), 2, 64});
  CHECK(kernel.maps[1].dims[1] == Dimension{Extent(512), 512, 64});
  CHECK(kernel.maps[1].dims[2] == Dimension{Extent(12), 512 * 512, 1});
}

TEST_CASE("outputs of 16 bits leave as boxes of the epilogue's pieces") {
  const KernelPlan plain = first_kernel(planned(kLarge));
  REQUIRE(boxed_outputs(plain) == 1);
  CHECK(plain.program.back().operand.map == 2);
  CHECK(plain.maps[2].slot == plain.program.back().operand.slot);
  CHECK(plain.maps[2].swizzle == Swizzle::k128);
  REQUIRE(plain.maps[2].dims.size() == 2);
  CHECK(plain.maps[2].dims[0] == Dimension{Extent(8192), 2, 64});
  CHECK(plain.maps[2].dims[1] == Dimension{Extent(4096), 16384, 16});

  // A batch is a dimension; halves of pieces where two sums share the registers.
  const KernelPlan batch = first_kernel(
      planned("chain a(input x: bf16[2560, 12, 1024], weight w: bf16[12, 3072, 1024],\n"
              "        weight v: bf16[12, 3072, 1024]) {\n"
              "  g = contract \"bgk,gnk->bgn\"(x, w)\n  u = contract \"bgk,gnk->bgn\"(x, v)\n"
              "  y = mul(silu(g), u)\n  return y: f16, g: bf16 strides[43008, 3584, 1] }"));
  REQUIRE(boxed_outputs(batch) == 2);
  CHECK(batch.maps[3].dtype == DType::kBF16);
  CHECK(batch.maps[3].swizzle == Swizzle::k64);
  REQUIRE(batch.maps[3].dims.size() == 3);
  CHECK(batch.maps[3].dims[0] == Dimension{Extent(3072), 2, 32});
  CHECK(batch.maps[3].dims[1] == Dimension{Extent(2560), 43008 * 2, 16});
  CHECK(batch.maps[3].dims[2] == Dimension{Extent(12), 3584 * 2, 1});
  CHECK(batch.maps[4].dtype == DType::kF16);

  // f32, rows that a map cannot have, columns that are not whole pieces of 16 bytes.
  const char* const kOthers[] = {"f32", "bf16 strides[8196, 1] align 8", "bf16 align 2"};
  for (const char* output : kOthers) {
    CAPTURE(std::string(output));
    const Plan plan = planned(gemm("bf16[4096, 2048]", "bf16[8192, 2048]", "mk,nk->mn", output));
    REQUIRE(family_name(first_kernel(plan)) == "gemm_sm90");
    CHECK(boxed_outputs(first_kernel(plan)) == 0);
    CHECK(first_kernel(plan).maps.size() == 2);
  }
  // More than two results leave by rows.
  std::string lines, outputs = "h: bf16";
  for (int i = 0; i < 31; ++i) {
    lines += i == 0 ? "  y0 = add(h, h)\n" : fmt::format("  y{} = add(y{}, h)\n", i, i - 1);
    outputs += fmt::format(", y{}: bf16", i);
  }
  const KernelPlan many =
      first_kernel(planned("chain a(input x: bf16[4096, 2048], weight w: bf16[8192, 2048]) {\n"
                           "  h = contract \"mk,nk->mn\"(x, w)\n" +
                           lines + "  return " + outputs + " }"));
  REQUIRE(family_name(many) == "gemm_sm90");
  CHECK(boxed_outputs(many) == 0);
  CHECK(params_bytes(static_cast<i64>(many.slots.size()), 0, static_cast<i64>(many.maps.size())) <=
        4096);
  // Partial sums.
  PlanOptions options;
  options.split_k = 2;
  const Plan split = planned(gemm("bf16[256, 8192]", "bf16[1024, 8192]", "mk,nk->mn"), options);
  REQUIRE(family_name(first_kernel(split)) == "gemm_sm90");
  CHECK(boxed_outputs(first_kernel(split)) == 0);
}

TEST_CASE("f32 operands along K are rounded by their maps") {
  const Plan plan = planned(gemm("f32[4096, 2048]", "f32[8192, 2048]", "mk,nk->mn"));
  const KernelPlan& kernel = first_kernel(plan);
  REQUIRE(family_name(kernel) == "gemm_sm90");
  const GemmSm90Config& c = config(plan);
  CHECK(c.space.math == MathMode::kTF32);
  CHECK(c.block_k() == 32);
  CHECK(kernel.maps[0].as_tf32);
  CHECK(kernel.maps[1].as_tf32);
  CHECK(kernel.maps[0].dims[0] == Dimension{Extent(2048), 4, 32});
  CHECK(kernel.maps[0].dims[1] == Dimension{Extent(4096), 8192, c.tile.block_m});
  CHECK(
      map_text(kernel, kernel.maps[0]) ==
      fmt::format("'x' as 2048 x 4096 f32 (rounded to tf32) in boxes of 32 x {}", c.tile.block_m));
  // Half the rate of 16-bit products.
  const Prediction wide = kernel.predicted;
  const Prediction narrow = first_kernel(planned(kLarge)).predicted;
  CHECK(wide.power_us > 1.7 * narrow.power_us);
  CHECK(wide.power_us < 2.2 * narrow.power_us);
  const Plan large = planned(kLarge);
  for (const MapBinding& map : first_kernel(large).maps) CHECK_FALSE(map.as_tf32);
}

TEST_CASE("the family is taken where its rules hold") {
  const struct {
    const char* why;
    std::string chain;
  } kOthers[] = {
      {"nothing contiguous",
       gemm("bf16[4096, 2048] strides[4096, 2]", "bf16[8192, 2048]", "mk,nk->mn")},
      {"f32 along M", gemm("f32[2048, 4096]", "f32[8192, 2048]", "km,nk->mn")},
      {"f32 along N", gemm("f32[4096, 2048]", "f32[2048, 8192]", "mk,kn->mn")},
      {"true f32",
       "chain a(input x: f32[4096, 2048], weight w: f32[8192, 2048]) {\n"
       "  y = contract \"mk,nk->mn\" f32 (x, w)\n  return y: f32 }"},
  };
  for (const auto& other : kOthers) {
    INFO(other.why);
    CHECK(family_name(first_kernel(planned(other.chain))) == "gemm_sm80");
  }
  CHECK(family_name(first_kernel(planned(kLarge, {}, "h100"))) == "gemm_sm90");
  CHECK(family_name(first_kernel(planned(kLarge, {}, "a100"))) == "gemm_sm80");
  CHECK(family_name(first_kernel(planned(kLarge, {}, "b200"))) == "gemm_sm80");
}

TEST_CASE("a layout that wgmma does not take is named, and on no other target") {
  const struct {
    std::string chain, why;
  } kShapes[] = {
      {gemm("f32[4096, 2048]", "f32[2048, 4096]", "mk,kn->mn"), "summed label is innermost"},
      {"chain a(input x: f32[512, 512], weight w: f32[512, 512]) {\n"
       "  y = contract \"mk,nk->mn\" f32 (x, w)\n  return y: f32 }",
       "does not multiply in full f32"},
      {"chain a(input x: bf16[2048, 4096], input d: bf16[2048, 4096], input e: i32[4]) {\n"
       "  y = contract \"nm,km->enk\"(d, x) ragged m by e over e\n  return y: bf16 }",
       "ragged summed label"},
  };
  for (const auto& shape : kShapes) {
    CAPTURE(shape.why);
    const Plan plan = planned(shape.chain);
    const KernelPlan& kernel = first_kernel(plan);
    REQUIRE(family_name(kernel) == "gemm_sm80");
    const auto named = llvm::find_if(kernel.refusals, [&](const FamilyRefusal& refusal) {
      return refusal.reason.find(shape.why) != std::string::npos;
    });
    REQUIRE(named != kernel.refusals.end());
    CHECK(named->family == "gemm_sm90");
  }
  const Plan plain = planned(gemm("bf16[4096, 2048]", "bf16[4096, 2048]", "mk,nk->mn"));
  CHECK(first_kernel(plain).refusals.empty());
}

TEST_CASE("an operand that no tensor map describes has cp.async fallback loads") {
  const struct {
    const char* why;
    std::string chain;
    i32 a, b;  // bytes per copy; 0: a tensor map
  } kCopied[] = {
      {"odd rows", gemm("bf16[8192, 4095]", "bf16[4096, 4095]", "mk,nk->mn"), 2, 2},
      {"rows of 4 bytes", gemm("f16[4096, 4098]", "f16[4096, 4098]", "mk,nk->mn"), 4, 4},
      {"rows of 8 bytes", gemm("bf16[4096, 2052]", "bf16[8192, 2052]", "mk,nk->mn"), 8, 8},
      {"f32 rows of 4 bytes", gemm("f32[4096, 2051]", "f32[8192, 2051]", "mk,nk->mn"), 4, 4},
      {"f32 rows of 8 bytes", gemm("f32[4096, 2050]", "f32[8192, 2050]", "mk,nk->mn"), 8, 8},
      {"an alignment of 8", gemm("bf16[4096, 2048] align 8", "bf16[8192, 2048]", "mk,nk->mn"), 8,
       0},
      {"B along an odd N",
       gemm("bf16[4096, 2048]", "bf16[2048, 4097]", "mk,kn->mn", "bf16 align 2"), 0, 2},
      {"ragged rows along M",
       "chain a(input x: bf16[2048, 8192], weight w: bf16[4, 4096, 2048], input e: i32[4]) {\n"
       "  y = contract \"km,gnk->mn\"(x, w) ragged m by e over g\n  return y: bf16 }",
       2, 0},
      {"four batch dimensions",
       gemm("bf16[2048, 2, 2, 2, 2, 512] strides[65536, 32768, 8192, 4096, 1024, 1]",
            "bf16[2, 2, 2, 2, 512, 512] strides[2097152, 524288, 4194304, 1048576, 512, 1]",
            "mabcdk,abcdnk->abcdmn"),
       16, 16},
  };
  for (const auto& from : kCopied) {
    CAPTURE(std::string(from.why));
    const Plan plan = planned(from.chain);
    const KernelPlan& kernel = first_kernel(plan);
    REQUIRE(family_name(kernel) == "gemm_sm90");
    const GemmSm90Config& c = config(plan);
    CHECK(c.schedule.cluster_m == 1);
    CHECK(c.a.by_cp_async == (from.a != 0));
    CHECK(c.b.by_cp_async == (from.b != 0));
    if (from.a != 0) CHECK(c.a.memory.copy_bytes == from.a);
    if (from.b != 0) CHECK(c.b.memory.copy_bytes == from.b);
    REQUIRE(kernel.maps.size() == (from.a == 0) + (from.b == 0) + boxed_outputs(kernel));
    // What is left is numbered and boxed as its operand.
    if (from.a == 0) CHECK(c.a.map == 0);
    if (from.b == 0) CHECK(c.b.map == 0);
    if (from.b == 0) CHECK(kernel.maps[0].slot == 1);
    if (from.b == 0) CHECK(kernel.maps[0].dims[1].box == c.box_rows_b());
    CHECK(kernel.config_text.find("by cp.async of") != std::string::npos);
  }
  const Plan odd = planned(kCopied[0].chain);
  for (const CandidateSummary& tile : first_kernel(odd).candidates) {
    if (tile.id.tile.find("c2") != std::string::npos) CHECK(tile.rejected != "");
  }
}

TEST_CASE("the grid holds the SMs at most, in whole clusters, and nothing without rows") {
  PlanOptions options;
  options.force_tile = "128x128x64p2s6c2";
  const Plan plan = planned(
      "chain a[M in 0..20000](input x: bf16[M, 512], weight w: bf16[512, 512]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
      options);
  const KernelPlan& kernel = first_kernel(plan);
  REQUIRE(family_name(kernel) == "gemm_sm90");
  CHECK(kernel.maps[0].dims[1].size == Extent(20000, 1));
  CHECK(kernel.grid.ctas(0) == 0);
  CHECK(kernel.grid.ctas(1) == 8);
  CHECK(kernel.grid.ctas(257) == 16);
  CHECK(kernel.grid.ctas(20000) == 132);
}

TEST_CASE("tiles have names, fit the target and can be forced") {
  const Plan plan = planned(kLarge);
  std::set<std::string> names;
  int chosen = 0;
  for (const CandidateSummary& tile : first_kernel(plan).candidates) {
    CHECK(names.insert(fmt::format("{} {}", tile.id.tile, tile.id.split_k)).second);
    chosen += tile.chosen;
    if (!tile.rejected.empty()) continue;
    PlanOptions options;
    options.force_tile = tile.id.tile;
    options.split_k = tile.id.split_k;
    const Plan forced = planned(kLarge, options);
    INFO(tile.id.tile);
    const bool is_sm90 = tile.id.family == "gemm_sm90";
    CHECK(family_name(first_kernel(forced)) == (is_sm90 ? "gemm_sm90" : "gemm_sm80"));
    CHECK(first_kernel(forced).smem_bytes <= 227 * 1024);
    const bool transposed = llvm::StringRef(tile.id.tile).endswith("t");
    if (is_sm90) CHECK(tile_name(config(forced), transposed) == tile.id.tile);
  }
  CHECK(chosen == 1);
  CHECK(names.size() > gemm_sm90_shapes().size());
}

namespace {

// Forces the candidate of 64 rows with this width, cluster split-K and CTAs per SM.
PlanOptions forced_shape(const std::string& chain, int block_n, int cluster_k, int ctas_per_sm) {
  PlanOptions options;
  const std::string start = fmt::format("64x{}x64g1s", block_n);
  const std::string end = fmt::format("k{}{}", cluster_k, ctas_per_sm == 1 ? "w" : "");
  const Plan open = planned(chain);
  for (const CandidateSummary& c : first_kernel(open).candidates) {
    const llvm::StringRef tile = c.id.tile;
    if (tile.startswith(start) && tile.endswith(end) && c.id.split_k == 1)
      options.force_tile = c.id.tile;
  }
  CHECK(!options.force_tile.empty());
  options.split_k = 1;
  return options;
}

}  // namespace

TEST_CASE("small M: boxes of as many rows, cluster split-K, two CTAs to an SM") {
  const struct {
    i64 m, n, k;
    int block_n, cluster_k;
  } kShapes[] = {{32, 2048, 4096, 64, 4}, {64, 2048, 4096, 64, 4}, {40, 2048, 4096, 64, 4}};
  for (const auto& shape : kShapes) {
    const std::string chain = gemm(fmt::format("bf16[{}, {}]", shape.m, shape.k),
                                   fmt::format("bf16[{}, {}]", shape.n, shape.k), "mk,nk->mn");
    const Plan plan = planned(chain, forced_shape(chain, shape.block_n, shape.cluster_k, 2));
    const KernelPlan& kernel = first_kernel(plan);
    CAPTURE(kernel.config_text);
    REQUIRE(family_name(kernel) == "gemm_sm90");
    const GemmSm90Config& c = config(plan);
    CHECK(c.tile.block_m == 64);
    CHECK(c.tile.block_n == shape.block_n);
    CHECK(c.schedule.cluster_k == shape.cluster_k);
    CHECK(c.schedule.split_k == 1);
    CHECK(c.tile.a_rows == (shape.m < 64 ? shape.m : 0));
    CHECK(kernel.maps[0].dims[1].box == shape.m);
    CHECK(kernel.maps[1].dims[1].box == c.tile.block_n);
    CHECK(kernel.cluster == shape.cluster_k);
    CHECK(kernel.grid.ctas(0) == shape.n / c.tile.block_n * shape.cluster_k);
    CHECK(kernel.min_ctas == 2);
    CHECK(2 * (kernel.smem_bytes + 1024) <= plan.target.smem_per_sm);
  }
}

TEST_CASE("weight streams: every SM has the same share of the weights") {
  const struct {
    i64 m, n, k;
    int block_n, cluster_k;
  } kShapes[] = {{64, 14336, 8192, 112, 1},
                 {48, 4096, 14336, 64, 2},
                 {32, 28672, 4096, 224, 1},
                 {20, 8192, 8192, 128, 2},
                 {64, 8192, 8192, 128, 2}};
  for (const auto& shape : kShapes) {
    const std::string chain = gemm(fmt::format("bf16[{}, {}]", shape.m, shape.k),
                                   fmt::format("bf16[{}, {}]", shape.n, shape.k), "mk,nk->mn");
    const Plan plan = planned(chain, forced_shape(chain, shape.block_n, shape.cluster_k, 1));
    const KernelPlan& kernel = first_kernel(plan);
    CAPTURE(kernel.config_text);
    REQUIRE(family_name(kernel) == "gemm_sm90");
    const GemmSm90Config& c = config(plan);
    CHECK(c.tile.block_n == shape.block_n);
    CHECK(c.schedule.cluster_k == shape.cluster_k);
    CHECK(c.schedule.ctas_per_sm == 1);
    CHECK(kernel.min_ctas == 1);
    CHECK(kernel.grid.ctas(0) == 128);
    CHECK(c.tile.stages >= 5);
  }
}

TEST_CASE("widths of streams are such as wgmma takes") {
  for (i64 n = 64; n < 40000; n += 1112) {
    const Plan plan = planned(gemm("bf16[32, 512]", fmt::format("bf16[{}, 512]", n), "mk,nk->mn"));
    for (const CandidateSummary& tile : first_kernel(plan).candidates) {
      if (tile.id.tile.back() != 'w') continue;
      int rows = 0, columns = 0;
      REQUIRE(std::sscanf(tile.id.tile.c_str(), "%dx%dx", &rows, &columns) == 2);
      CAPTURE(tile.id.tile);
      CHECK(columns % 8 == 0);
      CHECK(tile.rejected == "");
    }
  }
}

TEST_CASE("a forced name may have any number of stages") {
  PlanOptions options;
  options.force_tile = "64x64x64g1s3k4";
  const Plan plan = planned(gemm("bf16[33, 4096]", "bf16[2048, 4096]", "mk,nk->mn"), options);
  CHECK(config(plan).tile.stages == 3);
  CHECK(config(plan).schedule.cluster_k == 4);
  // TMA boxes of A have 40 rows, and so has A in a stage; the tile of B follows it.
  CHECK(config(plan).stage_bytes() == (40 + 64) * 128);
  // 32 rows of B are too few to be rows 32 to 63 of A.
  options.force_tile = "64x32x64g1s3k4";
  const Plan narrow = planned(gemm("bf16[20, 4096]", "bf16[2048, 4096]", "mk,nk->mn"), options);
  CHECK(config(narrow).stage_bytes() == (32 + 32) * 128);
  CHECK(first_kernel(narrow).maps[0].dims[1].box == 32);
}

TEST_CASE("refused candidates are not chosen again; without any left gemm_sm80 is") {
  PlanOptions options;
  std::set<std::string> seen;
  for (size_t i = 0; i < 200; ++i) {
    const Plan plan = planned(kLarge, options);
    const KernelPlan& kernel = first_kernel(plan);
    if (family_name(kernel) == "gemm_sm80") break;
    CHECK(seen.insert(kernel.config_text).second);
    options.rejected.push_back({kernel.signature, kernel.candidate});
  }
  CHECK(seen.size() > 8);
  CHECK(family_name(first_kernel(planned(kLarge, options))) == "gemm_sm80");
}

TEST_CASE("fp8: one kernel with its scales, promoted sums that fit the registers, refusals") {
  const auto linear = [](const std::string& x, const std::string& w, const std::string& equation) {
    return fmt::format(
        "chain a(input x: {}, weight w: {}, input s: f32[512], weight t: f32[1024]) {{\n"
        "  y = mul(mul(contract {}(x, w), s @ \"m\"), t @ \"n\")\n  return y: e4m3 }}",
        x, w, equation);
  };
  const std::string promoted = linear("e4m3[512, 2048]", "e4m3[1024, 2048]", "\"mk,nk->mn\"");
  const Plan plan = planned(promoted);
  CHECK(plan.buckets[0].kernels.size() == 1);
  const GemmSm90Config& c = config(plan);
  CHECK(c.space.math == MathMode::kE4M3);
  CHECK(c.epilogue.in_registers);
  CHECK(c.block_k() == 128);
  CHECK(c.mainloop_registers() > c.accumulator_registers());
  for (const CandidateSummary& tile : first_kernel(plan).candidates) {
    if (!tile.rejected.empty()) continue;
    PlanOptions options;
    options.force_tile = tile.id.tile;
    const GemmSm90Config forced = config(planned(promoted, options));
    CHECK(forced.mainloop_registers() <= forced.most_mainloop_registers());
  }
  const Plan fast =
      planned(linear("e4m3[512, 2048]", "e4m3[1024, 2048]", "\"mk,nk->mn\" fast_accum "));
  CHECK(config(fast).space.math == MathMode::kE4M3Fast);
  CHECK(config(fast).partial_sets() == 0);
  // Twice the rate of 16-bit operands.
  CHECK(math_tflops(plan.target, MathMode::kE4M3) == 2 * math_tflops(plan.target, MathMode::kBF16));

  const auto refusal = [&](const std::string& text, const char* target) {
    auto refused = make_plan(verified(text), llvm::cantFail(find_target(target)));
    REQUIRE_FALSE(static_cast<bool>(refused));
    const ErrorReport report = take_report(refused.takeError());
    CHECK(report.code == ErrorCode::kUnsupported);
    return report.message;
  };
  CHECK(refusal(linear("e4m3[512, 2048]", "e4m3[2048, 1024]", "\"mk,kn->mn\""), "h200")
            .find("wgmma takes e4m3 operands whose summed label is innermost") !=
        std::string::npos);
  CHECK(refusal(linear("e5m2[512, 2040]", "e5m2[1024, 2040]", "\"mk,nk->mn\""), "h200")
            .find("an operand of e5m2 has no tensor map; align it and its rows to 16 bytes") !=
        std::string::npos);
  CHECK(refusal(promoted, "a100").find("it multiplies bf16, f16, tf32 and f32") !=
        std::string::npos);
}

TEST_CASE("long kernels of split-K start late, unless clusters keep their CTAs together") {
  const auto edges = [](int k, const std::string& tile, int split) {
    PlanOptions options;
    options.force_tile = tile;
    options.split_k = split;
    const std::string x = fmt::format("bf16[680, {}]", k), w = fmt::format("bf16[400, {}]", k);
    return planned(gemm(x, w, "mk,nk->mn"), options).buckets[0].pdl;
  };
  CHECK(edges(28544, "128x128x64p2s6", 5) == std::vector<bool>{false, false});
  CHECK(edges(28544, "128x128x64p2s6c2", 5) == std::vector<bool>{true, true});
  CHECK(edges(28544, "128x128x64p2s6", 1) == std::vector<bool>{true});
  CHECK(edges(2048, "128x128x64p2s6", 2) == std::vector<bool>{true, true});
}
