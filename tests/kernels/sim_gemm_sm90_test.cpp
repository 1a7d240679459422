// SPDX-License-Identifier: Apache-2.0
// `gemm_sm90` in the simulator: every tile, every operand layout, tails of tiles and of the
// pipeline, several tiles a CTA; exact values under several schedules. The target has few SMs, so
// that CTAs are persistent.
#include <doctest/doctest.h>

#include "compiler/families/gemm_sm90/candidates.h"
#include "compiler/kernel_family.h"
#include "ir/text/text.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
  std::string tile;  // "128x128p2c2", "64x64g1k4": without k-tile depth and stages
  i64 symbol = 0;
  int sm_count = 2;
  u64 seeds = 2;
  FillKind fill = FillKind::kExactInteger;
  i32 tile_swizzle = 0;  // that the plan must have; 0: any
};

std::string short_name(const std::string& tile) {
  const size_t x = tile.rfind('x');
  const size_t kind = tile.find_first_of("gp");
  if (kind == std::string::npos) return "";  // a gemm_sm80 tile
  const size_t stages = tile.find('s');
  const size_t cluster = tile.find_first_of("cnk", stages);
  return tile.substr(0, x) + tile.substr(kind, stages - kind) +
         (cluster == std::string::npos ? "" : tile.substr(cluster));
}

// The full name of the tile that the planner has for this chain.
std::string find_tile_name(const Case& from) {
  auto chain = verify(llvm::cantFail(parse(from.chain)));
  if (!chain) return take_report(chain.takeError()).message;
  auto plan = make_plan(*chain, llvm::cantFail(find_target("h200")));
  if (!plan) return take_report(plan.takeError()).message;
  for (const KernelPlan& kernel : plan->buckets.back().kernels) {
    for (const CandidateSummary& tile : kernel.candidates) {
      if (tile.rejected.empty() && short_name(tile.id.tile) == from.tile) return tile.id.tile;
    }
  }
  return "no such tile";
}

// The first error over all seeds; empty: none.
std::string run(const Case& from, const HostCompiler& compiler) {
  SimulatedChainOptions options;
  options.plan.force_tile = find_tile_name(from);
  options.symbol = from.symbol;
  options.sm_count = from.sm_count;
  options.fill = from.fill;
  options.compiler = &compiler;
  auto chain = SimulatedChain::make(from.chain, options);
  if (!chain) return from.name + ": " + take_report(chain.takeError()).message;
  const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
  if (family_name(kernels[0]) != "gemm_sm90") return from.name + ": another family";
  const i32 tile_swizzle = kernels[0].config.get<GemmSm90Config>().schedule.tile_swizzle;
  if (from.tile_swizzle != 0 && tile_swizzle != from.tile_swizzle)
    return from.name + ": another tile swizzle";
  return first_failure(*chain, from.name, from.seeds);
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}

// Sizes that are multiples of no tile, and K of no k-tile.
constexpr const char* kBiasRelu =
    "chain a(input x: bf16[520, 200], weight w: bf16[328, 200], weight b: f32[328]) {\n"
    "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }";

std::string gemm(const std::string& x, const std::string& w, const std::string& equation,
                 const std::string& output = "bf16") {
  return fmt::format(
      "chain a(input x: {}, weight w: {}) {{\n  y = contract \"{}\"(x, w)\n  return y: {} }}", x, w,
      equation, output);
}

void run_every_tile(const std::string& chain) {
  std::vector<Case> cases;
  const Target target = llvm::cantFail(find_target("h200"));
  for (const GemmSm90Shape& shape : gemm_sm90_shapes()) {
    const std::string name = short_name(tile_name(with_shape(GemmSm90Config(), shape, target)));
    cases.push_back({name, chain, name, 0, 2, 1});
  }
  run_all(cases);
}

}  // namespace

TEST_CASE("every tile, several tiles a CTA") { run_every_tile(kBiasRelu); }

// Operands along N, along M and scalar; outputs of both widths; rows of D in a wider tensor; tiles
// whose last subtile is partial.
TEST_CASE("register epilogue") {
  const std::string chain =
      "chain a(input x: bf16[200, 136], weight w: bf16[328, 136], weight b: f32[328],\n"
      "        input s: f32[200, 1], input c: f32[1]) {\n"
      "  h = add(contract \"mk,nk->mn\"(x, w), b)\n  y = mul(relu(h), s)\n  z = mul(y, c)\n"
      "  return h: bf16 strides[336, 1], y: f32, z: f16 }";
  const std::string dual =
      "chain a(input x: bf16[200, 136], weight v: bf16[328, 136], weight w: bf16[328, 136],\n"
      "        weight b: bf16[328], input s: f32[200, 1]) {\n"
      "  g = add(contract \"mk,nk->mn\"(x, v), b)\n  u = contract \"mk,nk->mn\"(x, w)\n"
      "  y = mul(mul(relu(g), u), s)\n  return y: bf16, g: bf16 }";
  std::vector<Case> cases;
  for (const char* tile : {"128x256g2c2", "128x128p2", "128x160p2", "128x192g2", "64x64g1"}) {
    cases.push_back({std::string("single ") + tile, chain, tile});
  }
  for (const char* tile : {"128x128g2", "128x64p2", "64x96p2", "64x32g1"}) {
    cases.push_back({std::string("dual ") + tile, dual, tile});
  }
  run_all(cases);
}

// The last subtile of the last tile ends past N, where a bias has no elements.
TEST_CASE("register epilogue: whole tiles with a partial subtile") {
  const std::string dual =
      "chain a(input x: bf16[1024, 72], weight v: bf16[960, 72], weight b: bf16[960],\n"
      "        weight w: bf16[960, 72]) {\n"
      "  g = add(contract \"mk,nk->mn\"(x, v), b)\n  u = contract \"mk,nk->mn\"(x, w)\n"
      "  y = mul(relu(g), u)\n  return y: bf16 }";
  run_all({{"dual", dual, "64x48p2c2", 0, 132, 1}});
}

// Tile widths that fill one or three waves.
TEST_CASE("widths that fit the number of SMs") {
  run_all(
      {{"one wave", gemm("bf16[256, 72]", "bf16[14336, 72]", "mk,nk->mn"), "128x224g2", 0, 132, 1},
       {"three waves, clusters", gemm("bf16[512, 72]", "bf16[11008, 72]", "mk,nk->mn"),
        "128x112p2c2", 0, 132, 1}});
}

// Six subtiles of 32 columns for each fragment: the last one is stored by rows in every tile.
TEST_CASE("widths that divide the columns evenly") {
  run_all({{"704 columns", gemm("bf16[280, 72]", "bf16[704, 72]", "mk,nk->mn"), "128x176p2"},
           {"clusters", gemm("bf16[280, 72]", "bf16[352, 72]", "mk,nk->mn"), "128x176p2c2"},
           {"664 columns", gemm("bf16[280, 72]", "bf16[664, 72]", "mk,nk->mn"), "128x168p2"}});
}

// The last sweep along N has fewer row tiles. Along M, a sweep has all of them.
TEST_CASE("tile swizzles") {
  Case square{"square", gemm("bf16[580, 72]", "bf16[520, 72]", "mk,nk->mn"), "64x64g1"};
  square.tile_swizzle = 4;
  Case pairs{"pairs", gemm("bf16[900, 72]", "bf16[392, 72]", "mk,nk->mn"), "128x128p2c2"};
  pairs.tile_swizzle = 2;
  Case along_m{"along M", gemm("bf16[900, 72]", "bf16[392, 72]", "mk,nk->mn"), "128x128p2n2"};
  along_m.tile_swizzle = 8;
  Case along_fewer{"along fewer rows", gemm("bf16[600, 72]", "bf16[520, 72]", "mk,nk->mn"),
                   "128x128p2n2"};
  along_fewer.tile_swizzle = 5;
  run_all({square, pairs, along_m, along_fewer});
}

TEST_CASE("K-major and MN-major operands") {
  std::vector<Case> cases;
  for (const char* tile : {"128x256g2", "128x128p2c2", "256x128g2c2", "64x64g1"}) {
    cases.push_back({"MN-major A", gemm("f16[136, 200]", "f16[264, 136]", "km,nk->mn"), tile});
    cases.push_back({"MN-major B", gemm("f16[200, 136]", "f16[136, 264]", "mk,kn->mn"), tile});
    cases.push_back({"both", gemm("bf16[136, 200]", "bf16[136, 264]", "km,kn->mn"), tile});
  }
  run_all(cases);
}

// The second CTA of a cluster may have no columns; the last cluster may have no second row tile.
TEST_CASE("N clusters") {
  std::vector<Case> cases;
  for (const char* tile : {"128x128p2n2", "256x128g2n2", "128x256g2n2"}) {
    cases.push_back({"bias", kBiasRelu, tile, 0, 4});
    cases.push_back({"MN-major A", gemm("f16[136, 200]", "f16[264, 136]", "km,nk->mn"), tile});
    cases.push_back({"MN-major B", gemm("f16[200, 136]", "f16[136, 520]", "mk,kn->mn"), tile});
    cases.push_back(
        {"one column tile", gemm("bf16[300, 456]", "bf16[72, 456]", "mk,nk->mn"), tile});
    cases.push_back({"batches", gemm("bf16[70, 3, 72]", "bf16[3, 392, 72]", "bgk,gnk->bgn"), tile});
    cases.push_back({"staged", gemm("bf16[140, 72]", "bf16[331, 72]", "mk,nk->mn", "f32"), tile});
  }
  const std::string dual =
      "chain a(input x: bf16[300, 136], weight w: bf16[200, 136], weight v: bf16[200, 136]) {\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: bf16 }";
  cases.push_back({"dual", dual, "128x128g2n2"});
  cases.push_back({"dual, ping-pong", dual, "128x64p2n2"});
  const std::string columns =
      "chain a[M in 0..900](input x: f16[200, 72], input z: f16[M, 72]) {\n"
      "  y = contract \"nk,mk->nm\"(x, z)\n  return y: f16 strides[901, 1] align 2 }";
  for (i64 symbol : {0, 100, 833}) cases.push_back({"columns", columns, "128x128p2n2", symbol});
  run_all(cases);
}

// Each CTA shares A with those of its row and B with those of its column. Row tiles, column tiles
// or both may be missing in the last cluster.
TEST_CASE("clusters of M x N") {
  std::vector<Case> cases;
  for (const char* tile : {"128x128p2c2n2", "64x128p2c4n2", "64x64g1c2n4", "128x192g2c2n2"}) {
    cases.push_back({"bias", kBiasRelu, tile, 0, 8});
    cases.push_back({"many k-tiles", gemm("bf16[300, 712]", "bf16[264, 712]", "mk,nk->mn"), tile});
    cases.push_back(
        {"batches", gemm("bf16[270, 3, 72]", "bf16[3, 392, 72]", "bgk,gnk->bgn"), tile});
    cases.push_back({"staged", gemm("bf16[270, 72]", "bf16[531, 72]", "mk,nk->mn", "f32"), tile});
  }
  for (const char* tile : {"128x128p2c2n2", "128x256g2c2n2"}) {
    cases.push_back({"MN-major A", gemm("f16[136, 200]", "f16[264, 136]", "km,nk->mn"), tile});
    cases.push_back({"MN-major B", gemm("f16[200, 136]", "f16[136, 520]", "mk,kn->mn"), tile});
  }
  run_all(cases);
}

TEST_CASE("batch dimensions in any order") {
  run_all({
      {"[B, G, D]", gemm("bf16[70, 3, 72]", "bf16[3, 136, 72]", "bgk,gnk->bgn"), "64x128g1"},
      {"[G, B, D]", gemm("bf16[3, 70, 72]", "bf16[3, 72, 136]", "gbk,gkn->gbn"), "128x128p2"},
      {"two batch labels", gemm("f16[70, 2, 3, 72]", "f16[3, 2, 40, 72]", "mabk,bank->bamn"),
       "64x64g1"},
      {"a label that A lacks", gemm("f16[40, 72]", "f16[3, 72, 72]", "mk,bkn->bmn"), "64x64g1"},
      {"outer K loop",
       gemm("f16[40, 3, 72] strides[304, 96, 1]", "f16[72, 3, 72] strides[296, 80, 1]",
            "mjk,njk->mn"),
       "128x128p2c2"},
      {"padded rows",
       gemm("bf16[200, 72] strides[80, 1]", "bf16[136, 72] strides[96, 1]", "mk,nk->mn",
            "f32 strides[144, 1]"),
       "128x128p2"},
  });
}

TEST_CASE("sizes around the tile and the pipeline") {
  std::vector<Case> cases;
  for (const i64 size : {8, 64, 120, 128, 136, 256, 264}) {
    const std::string x = fmt::format("bf16[{}, 72]", size);
    const std::string w = fmt::format("bf16[{}, 72]", size);
    cases.push_back({fmt::format("M = N = {}", size), gemm(x, w, "mk,nk->mn"), "128x128p2c2"});
  }
  // 4 stages of 64: fewer k-tiles than stages, as many, one more; many rounds.
  for (const i64 k : {8, 64, 128, 192, 256, 264, 320, 1096}) {
    const std::string x = fmt::format("bf16[300, {}]", k);
    const std::string w = fmt::format("bf16[264, {}]", k);
    cases.push_back({fmt::format("K = {}", k), gemm(x, w, "mk,nk->mn"),
                     k % 128 == 0 ? "128x256g2" : "64x256p2c2"});
  }
  run_all(cases);
}

TEST_CASE("a symbol as M, N and K") {
  std::vector<Case> cases;
  const std::string rows =
      "chain a[M in 0..700](input x: bf16[M, 72], weight w: bf16[136, 72]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }";
  const std::string columns =
      "chain a[M in 0..900](input x: f16[200, 72], input z: f16[M, 72]) {\n"
      "  y = contract \"nk,mk->nm\"(x, z)\n  return y: f16 strides[901, 1] align 2 }";
  const std::string k =
      "chain a[M in 0..700](input x: f16[M, 136], input z: f16[M, 264]) {\n"
      "  y = contract \"tm,tn->mn\"(x, z)\n  return y: f32 }";
  for (i64 symbol : {0, 1, 513, 700}) cases.push_back({"rows", rows, "128x128p2", symbol});
  for (i64 symbol : {0, 600, 833}) cases.push_back({"columns", columns, "128x128p2c2", symbol});
  for (i64 symbol : {0, 7, 520, 640}) cases.push_back({"K", k, "128x256g2", symbol});
  run_all(cases);
}

TEST_CASE("staged epilogue: residual, several outputs, unaligned columns") {
  run_all({
      {"residual and pre-activation",
       "chain a(input x: bf16[200, 136], weight w: bf16[264, 136], weight b: bf16[264],\n"
       "        input r: bf16[200, 264]) {\n"
       "  h = add(contract \"mk,nk->mn\"(x, w), b)\n  y = add(relu(h), r)\n"
       "  return y: bf16, h: f32 }",
       "128x128p2"},
      {"unaligned columns",
       "chain a(input x: bf16[70, 136], weight w: bf16[75, 136], weight b: f32[75] align 4) {\n"
       "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: bf16 align 2 }",
       "128x128g2"},
      {"columns outermost",
       "chain a(input x: f16[200, 72], weight w: f16[136, 72]) {\n"
       "  y = contract \"mk,nk->nm\"(x, w)\n  return y: f16 }",
       "64x128p2"},
      {"a chain of two",
       "chain a(input x: bf16[136, 72], weight w: bf16[200, 72], weight v: bf16[72, 200]) {\n"
       "  h = cast(relu(contract \"mk,nk->mn\"(x, w)), bf16)\n"
       "  y = contract \"mk,nk->mn\"(h, v)\n  return y: f32 }",
       "64x64g1"},
  });
}

TEST_CASE("dual GEMM") {
  std::vector<Case> cases;
  const std::string along_k =
      "chain a(input x: bf16[300, 136], weight w: bf16[200, 136], weight v: bf16[200, 136]) {\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: f32 }";
  const std::string along_n =
      "chain a(input x: f16[2, 70, 72], weight w: f16[2, 72, 136], weight v: f16[2, 72, 136]) {\n"
      "  g = contract \"bmk,bkn->bmn\"(x, w)\n  u = contract \"bmk,bkn->bmn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: f32 }";
  for (const char* tile : {"128x128g2c2", "128x64p2c2", "128x96g2", "64x32g1"}) {
    cases.push_back({"dual", along_k, tile});
  }
  for (const char* tile : {"128x128g2c2", "128x64p2"}) {
    cases.push_back({"dual, MN-major weights", along_n, tile});
  }
  run_all(cases);
}

TEST_CASE("small M: TMA boxes with fewer rows than the tile") {
  std::vector<Case> cases;
  for (const i64 m : {1, 17, 32, 33, 63}) {
    const std::string x = fmt::format("bf16[{}, 200]", m);
    const std::string odd = fmt::format("f16[{}, 136]", m);
    for (const char* tile : {"64x64g1", "64x128p2", "64x256p2c2", "128x256g2"}) {
      cases.push_back(
          {fmt::format("M = {}", m), gemm(x, "bf16[72, 200]", "mk,nk->mn", "f32"), tile});
    }
    cases.push_back({fmt::format("M = {}, MN-major B", m),
                     gemm(odd, "f16[136, 136]", "mk,kn->mn", "f32"), "64x64g1"});
  }
  run_all(cases);
}

TEST_CASE("tf32: every tile, several tiles a CTA") {
  run_every_tile(
      "chain a(input x: f32[520, 100], weight w: f32[328, 100], weight b: f32[328]) {\n"
      "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }");
}

TEST_CASE("cluster split-K") {
  std::vector<Case> cases;
  const auto bias_silu = [](i64 m, i64 n, i64 k) {
    return fmt::format(
        "chain a(input x: bf16[{0}, {2}], weight w: bf16[{1}, {2}], weight b: f32[{1}] align 4) "
        "{{\n  y = silu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 align 2 }}",
        m, n, k);
  };
  // 25 k-tiles of 64 and a tail: k-slices of different lengths, more k-tiles than stages.
  for (const i64 m : {1, 17, 31, 32, 33, 48, 63, 64}) {
    cases.push_back({fmt::format("M = {}", m), bias_silu(m, 136, 1608), "64x64g1k4", 0, 2, 4});
  }
  for (const char* tile : {"64x64g1k1", "64x64g1k2", "64x64g1k8", "64x32g1k4", "64x128g1k2"}) {
    cases.push_back({"unaligned columns", bias_silu(33, 75, 520), tile, 0, 2, 4});
    cases.push_back({"two row tiles", bias_silu(72, 64, 200), tile, 0, 2, 4});
  }
  // k-slices without a k-tile.
  for (const i64 k : {8, 64, 72, 136, 264}) {
    cases.push_back({fmt::format("K = {}", k), bias_silu(17, 40, k), "64x32g1k8", 0, 2, 4});
  }
  run_all(cases);
}

// A product without activations, and a sum whose first product has none: a load warp that loads
// nothing of a k-tile may be late by more than the pipeline's stages. Few schedules show it.
TEST_CASE("products of weights") {
  const std::string one =
      "chain a(weight v: bf16[1280, 24], weight w: bf16[64, 24]) {\n"
      "  y = contract \"mk,nk->mn\"(v, w)\n  return y: f32 }";
  const std::string sum =
      "chain a(weight v: bf16[96, 1480], weight w: bf16[72, 1480], input x: bf16[96, 200],\n"
      "        weight u: bf16[72, 200]) {\n"
      "  y = add(contract \"mk,nk->mn\"(v, w), contract \"mk,nk->mn\"(x, u))\n  return y: f32 }";
  std::vector<Case> cases;
  for (const char* tile : {"64x64g1k1", "64x64g1k4", "128x128p2"})
    cases.push_back({"one product", one, tile, 0, 2, 20});
  for (const char* tile : {"64x64g1k1", "128x128p2", "128x128g2"})
    cases.push_back({"a sum of two", sum, tile, 0, 2, 80});
  run_all(cases);
}

// Widths of 64 and 128 columns for 132 SMs.
TEST_CASE("weight streams: a tile for every SM") {
  std::vector<Case> cases;
  const auto stream = [](i64 m, i64 k) {
    return gemm(fmt::format("bf16[{}, {}]", m, k), fmt::format("bf16[8440, {}]", k), "mk,nk->mn",
                "bf16");
  };
  for (const i64 m : {1, 33, 64}) {
    cases.push_back({fmt::format("M = {}", m), stream(m, 136), "64x64g1k1w", 0, 132, 1});
    cases.push_back(
        {fmt::format("M = {}, two SMs a tile", m), stream(m, 136), "64x128g1k2w", 0, 132, 1});
  }
  cases.push_back({"dual",
                   "chain a(input x: f16[40, 136], weight w: f16[2100, 136], weight v: f16[2100, "
                   "136]) {\n"
                   "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
                   "  h = mul(relu(g), u)\n  return h: f32 }",
                   "64x32g1k2w", 0, 132, 1});
  run_all(cases);
}

TEST_CASE("cluster split-K: dual GEMM, batches, MN-major operands, symbols") {
  std::vector<Case> cases;
  const std::string dual =
      "chain a(input x: bf16[33, 712], weight w: bf16[75, 712], weight v: bf16[75, 712]) {\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: f32 align 4 }";
  for (const char* tile : {"64x32g1k4", "64x16g1k2", "64x64g1k8"}) {
    cases.push_back({"dual", dual, tile, 0, 2, 4});
  }
  const std::string rows =
      "chain a[M in 0..64](input x: f16[M, 328], weight w: f16[136, 328]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f16 }";
  for (i64 symbol : {0, 1, 17, 33, 64}) cases.push_back({"rows", rows, "64x64g1k4", symbol});
  const std::string k =
      "chain a[M in 0..700](input x: f16[M, 40], input z: f16[M, 72]) {\n"
      "  y = contract \"tm,tn->mn\"(x, z)\n  return y: f32 }";
  for (i64 symbol : {0, 7, 640}) cases.push_back({"K", k, "64x64g1k4", symbol});
  cases.push_back({"[G, B, D]", gemm("bf16[3, 30, 264]", "bf16[3, 264, 136]", "gbk,gkn->gbn"),
                   "64x64g1k2", 0, 2, 4});
  cases.push_back({"outer K loop",
                   gemm("f16[40, 3, 136] strides[432, 144, 1]",
                        "f16[72, 3, 136] strides[456, 152, 1]", "mjk,njk->mn"),
                   "64x32g1k4", 0, 2, 4});
  cases.push_back({"a chain of two",
                   "chain a(input x: bf16[36, 72], weight w: bf16[200, 72], weight v: bf16[72, "
                   "200], input r: f32[36, 72]) {\n"
                   "  h = cast(relu(contract \"mk,nk->mn\"(x, w)), bf16)\n"
                   "  y = add(contract \"mk,nk->mn\"(h, v), r)\n  return y: f32 }",
                   "64x64g1k2", 0, 2, 4});
  run_all(cases);
}

TEST_CASE("cluster split-K and split-K together") {
  auto compiler = HostCompiler::get();
  if (!compiler) {
    MESSAGE("skipped: " << take_report(compiler.takeError()).message);
    return;
  }
  Case both = {"both", gemm("bf16[33, 1096]", "bf16[72, 1096]", "mk,nk->mn"), "64x64g1k2"};
  SimulatedChainOptions options;
  options.plan.force_tile = find_tile_name(both);
  options.plan.split_k = 3;
  options.compiler = *compiler;
  auto chain = SimulatedChain::make(both.chain, options);
  REQUIRE(bool(chain));
  const auto& c = chain->plan().buckets[0].kernels[0].config.get<GemmSm90Config>();
  CHECK(c.k_slices() == 6);
  for (u64 seed = 1; seed <= 4; ++seed) CHECK(chain->run(seed).name == "");
}

TEST_CASE("tf32: batches, dual GEMM, outer K loops, K tails, a symbol") {
  std::vector<Case> cases = {
      {"[B, G, D]", gemm("f32[70, 3, 36]", "f32[3, 136, 36]", "bgk,gnk->bgn", "f32"), "64x128g1"},
      {"outer K loop",
       gemm("f32[40, 3, 36] strides[152, 48, 1]", "f32[72, 3, 36] strides[148, 40, 1]",
            "mjk,njk->mn"),
       "128x128p2c2"},
      {"columns outermost", gemm("f32[200, 36]", "f32[136, 36]", "mk,nk->nm", "f32"), "64x128p2"},
  };
  const std::string dual =
      "chain a(input x: f32[300, 68], weight w: f32[200, 68], weight v: f32[200, 68]) {\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: f32 }";
  for (const char* tile : {"128x128g2c2", "128x64p2c2", "128x96g2", "64x32g1"}) {
    cases.push_back({"dual", dual, tile});
  }
  for (const i64 k : {4, 32, 64, 128, 132, 548}) {
    const std::string x = fmt::format("f32[300, {}]", k);
    const std::string w = fmt::format("f32[264, {}]", k);
    cases.push_back({fmt::format("K = {}", k), gemm(x, w, "mk,nk->mn"),
                     k % 64 == 0 ? "128x256g2" : "64x256p2c2"});
  }
  const std::string rows =
      "chain a[M in 0..700](input x: f32[M, 36], weight w: f32[136, 36]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }";
  for (i64 symbol : {0, 1, 513, 700}) cases.push_back({"rows", rows, "128x128p2", symbol});
  run_all(cases);
}

// Truncated operands would be off by 2^-11 on average, all in one direction.
TEST_CASE("tf32: operands are rounded, not truncated") {
  std::vector<Case> cases;
  const std::string chain = gemm("f32[136, 200]", "f32[264, 200]", "mk,nk->mn", "f32");
  for (const FillKind fill : {FillKind::kNormal, FillKind::kPositive}) {
    for (const char* tile : {"128x256g2", "128x128p2c2"}) {
      cases.push_back({"non-integer data", chain, tile});
      cases.back().fill = fill;
    }
  }
  run_all(cases);
}
