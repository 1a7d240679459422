// SPDX-License-Identifier: Apache-2.0
// `gemm_sm90` with cp.async fallback loads in the simulator: vectors of every width, both layouts,
// one operand by cp.async and the other by TMA, tails, few k-tiles and many tiles, cooperative and
// ping-pong; exact values under several schedules. The target has few SMs, so that CTAs are
// persistent.
#include <doctest/doctest.h>

#include "shared/gemm_sm90_config.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
  std::string tile;
  i32 bytes_a = 0, bytes_b = 0;  // of a cp.async vector; 0: TMA
  i64 symbol = 0;
  std::vector<i32> ends = {};
  u64 seeds = 2;
  FillKind fill = FillKind::kExactInteger;
};

i32 cp_async_bytes(const Sm90Operand& matrix) {
  return matrix.by_cp_async ? matrix.memory.copy_bytes : 0;
}

// The first error over all seeds; empty: none.
std::string run(const Case& from, const HostCompiler& compiler) {
  SimulatedChainOptions options;
  options.plan.force_tile = from.tile;
  options.symbol = from.symbol;
  options.ends = from.ends;
  options.fill = from.fill;
  options.sm_count = 2;
  options.compiler = &compiler;
  auto chain = SimulatedChain::make(from.chain, options);
  if (!chain) return from.name + ": " + take_report(chain.takeError()).message;
  const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
  const auto* config = kernels[0].config.get_if<GemmSm90Config>();
  if (config == nullptr) return from.name + ": another family";
  if (cp_async_bytes(config->a) != from.bytes_a || cp_async_bytes(config->b) != from.bytes_b) {
    return fmt::format("{}: cp.async of {} and {} bytes", from.name, cp_async_bytes(config->a),
                       cp_async_bytes(config->b));
  }
  return first_failure(*chain, fmt::format("{}, {}", from.name, from.tile), from.seeds);
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}

std::string gemm(const std::string& x, const std::string& w, const std::string& equation,
                 const std::string& output = "bf16 align 2") {
  return fmt::format(
      "chain a(input x: {}, weight w: {}) {{\n  y = contract \"{}\"(x, w)\n  return y: {} }}", x, w,
      equation, output);
}

constexpr const char* kPingPong = "128x128x64p2s6";
constexpr const char* kCooperative = "128x256x64g2s4";
constexpr const char* kSmall = "64x64x64g1s8";

}  // namespace

TEST_CASE("vectors of every width, cooperative and ping-pong") {
  std::vector<Case> cases;
  const struct {
    i64 k;
    i32 bytes;
  } kWidths[] = {{201, 2}, {198, 4}, {196, 8}};
  for (const auto& width : kWidths) {
    const std::string x = fmt::format("bf16[300, {}]", width.k);
    const std::string w = fmt::format("bf16[331, {}]", width.k);
    for (const char* tile :
         {kPingPong, kCooperative, "256x128x64g2s4", "64x256x64p2s4", "128x192x64g2s4", kSmall}) {
      cases.push_back({fmt::format("K = {}", width.k), gemm(x, w, "mk,nk->mn"), tile, width.bytes,
                       width.bytes});
    }
  }
  run_all(cases);
}

TEST_CASE("one operand by cp.async, the other by TMA") {
  const std::string unaligned = "bf16[200, 136] strides[137, 1] align 2";
  run_all({
      {"A", gemm(unaligned, "bf16[264, 136]", "mk,nk->mn"), kPingPong, 2, 0},
      {"B", gemm("bf16[200, 136]", unaligned, "mk,nk->mn"), kPingPong, 0, 2},
      {"A", gemm(unaligned, "bf16[136, 264]", "mk,kn->mn"), kCooperative, 2, 0},
      {"B", gemm("bf16[136, 200]", unaligned, "km,nk->mn"), kCooperative, 0, 2},
      {"B by 8 bytes", gemm("f16[200, 136]", "f16[264, 136] strides[140, 1]", "mk,nk->mn"), kSmall,
       0, 8},
  });
}

TEST_CASE("MN-major operands") {
  std::vector<Case> cases;
  for (const char* tile : {kPingPong, kCooperative, "256x128x64g2s4", kSmall}) {
    cases.push_back(
        {"A along an odd M", gemm("f16[136, 201]", "f16[264, 136]", "km,nk->mn"), tile, 2, 0});
    cases.push_back(
        {"B along an odd N", gemm("f16[200, 136]", "f16[136, 265]", "mk,kn->mn"), tile, 0, 2});
    cases.push_back(
        {"both, an odd K", gemm("bf16[137, 204]", "bf16[137, 266]", "km,kn->mn"), tile, 8, 4});
    cases.push_back(
        {"both, all odd", gemm("bf16[71, 203]", "bf16[71, 267]", "km,kn->mn"), tile, 2, 2});
  }
  run_all(cases);
}

// The pitch is a multiple of 16 bytes, the base is not: all lines of a tile are misaligned, or
// none.
TEST_CASE("unaligned base") {
  std::vector<Case> cases;
  for (const char* tile : {kPingPong, kSmall}) {
    cases.push_back({"an alignment of 2",
                     gemm("bf16[200, 128] align 2", "bf16[136, 128] align 2", "mk,nk->mn"), tile, 2,
                     2});
    cases.push_back({"an alignment of 4",
                     gemm("bf16[200, 128] align 4", "bf16[128, 136] align 8", "mk,kn->mn"), tile, 4,
                     8});
  }
  run_all(cases);
}

TEST_CASE("few and many k-tiles, few and many tiles") {
  std::vector<Case> cases;
  for (const i64 k : {3, 63, 65, 129, 191, 257, 385, 1097}) {
    const std::string x = fmt::format("bf16[300, {}]", k);
    const std::string w = fmt::format("bf16[264, {}]", k);
    // A tile of one k-tile; a pipeline that holds several tiles.
    cases.push_back({fmt::format("K = {}", k),
                     gemm(x, w, "mk,nk->mn"),
                     k % 4 == 1 ? kPingPong : kSmall,
                     2,
                     2,
                     0,
                     {},
                     4});
  }
  for (const i64 size : {7, 63, 65, 127, 129, 257}) {
    const std::string x = fmt::format("f16[{}, 75]", size);
    cases.push_back({fmt::format("M = N = {}", size), gemm(x, x, "mk,nk->mn"), kPingPong, 2, 2});
    cases.push_back(
        {fmt::format("M = N = {}", size), gemm(x, x, "mk,nk->mn"), "64x128x64g1s8", 2, 2});
  }
  // Two and three stages: no k-tile in flight, or one.
  for (const char* tile : {"64x64x64g1s2", "64x64x64g1s3", "128x128x64p2s2", "128x128x64p2s3"}) {
    cases.push_back({"few stages",
                     gemm("bf16[200, 457]", "bf16[136, 457]", "mk,nk->mn"),
                     tile,
                     2,
                     2,
                     0,
                     {},
                     6});
  }
  run_all(cases);
}

TEST_CASE("dual GEMM") {
  const std::string along_k =
      "chain a(input x: bf16[300, 137], weight w: bf16[200, 137], weight v: bf16[200, 137]) {\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: f32 }";
  const std::string one_of_them =
      "chain a(input x: bf16[300, 136], weight w: bf16[200, 136], weight v: bf16[200, 136] align 4)"
      " {\n  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: f32 }";
  const std::string along_n =
      "chain a(input x: f16[2, 70, 72], weight w: f16[2, 72, 135], weight v: f16[2, 72, 135]) {\n"
      "  g = contract \"bmk,bkn->bmn\"(x, w)\n  u = contract \"bmk,bkn->bmn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: f32 align 4 }";
  run_all({{"along K", along_k, "128x128x64g2s4", 2, 2},
           {"along K", along_k, "128x64x64p2s6", 2, 2},
           {"along K", along_k, "64x32x64g1s8", 2, 2},
           {"only the second", one_of_them, "128x64x64p2s6", 0, 0},
           {"along N", along_n, "128x128x64g2s4", 0, 2},
           {"along N", along_n, "128x64x64p2s6", 0, 2}});
}

TEST_CASE("batches, outer K loops, symbols, a chain of two") {
  std::vector<Case> cases = {
      {"[B, G, D]", gemm("bf16[70, 3, 73]", "bf16[3, 136, 73]", "bgk,gnk->bgn"), "64x128x64g1s8", 2,
       2},
      {"[G, B, D]", gemm("bf16[3, 70, 72]", "bf16[3, 72, 137]", "gbk,gkn->gbn"), kPingPong, 0, 2},
      {"two batch labels", gemm("f16[70, 2, 3, 71]", "f16[3, 2, 40, 71]", "mabk,bank->bamn"),
       kSmall, 2, 2},
      {"a label that A lacks", gemm("f16[40, 71]", "f16[3, 71, 72]", "mk,bkn->bmn"), kSmall, 2, 0},
      {"outer K loop",
       gemm("f16[40, 3, 72] strides[303, 95, 1]", "f16[72, 3, 72] strides[296, 81, 1]",
            "mjk,njk->mn"),
       kPingPong, 2, 2},
      {"too many dimensions for a map",
       gemm("f16[20, 2, 2, 2, 2, 40] strides[4096, 2048, 640, 160, 48, 1]",
            "f16[2, 2, 2, 2, 24, 40] strides[8192, 16384, 32768, 65536, 40, 1]",
            "mabcdk,abcdnk->abcdmn"),
       kSmall, 16, 16},
      {"a chain of two",
       "chain a(input x: bf16[136, 71], weight w: bf16[201, 71], weight v: bf16[72, 201]) {\n"
       "  h = cast(relu(contract \"mk,nk->mn\"(x, w)), bf16)\n"
       "  y = contract \"mk,nk->mn\"(h, v)\n  return y: f32 }",
       kSmall, 2, 2},
  };
  const std::string rows =
      "chain a[M in 0..700](input x: bf16[M, 71], weight w: bf16[136, 71]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }";
  const std::string columns =
      "chain a[M in 0..900](input x: f16[200, 71], input z: f16[M, 71]) {\n"
      "  y = contract \"nk,mk->nm\"(x, z)\n  return y: f16 strides[901, 1] align 2 }";
  const std::string k =
      "chain a[M in 0..700](input x: f16[M, 135], input z: f16[M, 262]) {\n"
      "  y = contract \"tm,tn->mn\"(x, z)\n  return y: f32 }";
  for (i64 symbol : {0, 1, 513, 700}) cases.push_back({"rows", rows, kPingPong, 2, 2, symbol});
  for (i64 symbol : {0, 600, 833}) cases.push_back({"columns", columns, kPingPong, 2, 2, symbol});
  for (i64 symbol : {0, 7, 520, 640}) cases.push_back({"K", k, kCooperative, 2, 4, symbol});
  run_all(cases);
}

TEST_CASE("M-grouped and K-grouped") {
  std::vector<Case> cases;
  const std::string m_grouped =
      "chain a(input x: bf16[170, 71], weight w: bf16[4, 72, 71], input e: i32[4]) {\n"
      "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: f32 }";
  const std::string mn_major =
      "chain a(input x: bf16[72, 170], weight w: bf16[4, 72, 72], input e: i32[4]) {\n"
      "  y = contract \"km,gnk->mn\"(x, w) ragged m by e over g\n  return y: f32 }";
  const std::string k_grouped =
      "chain a(input x: f16[170, 135], input y: f16[170, 70], input e: i32[4]) {\n"
      "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }";
  const std::string b_by_tma =
      "chain a(input x: f16[170, 135], input y: f16[170, 72], input e: i32[4]) {\n"
      "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }";
  const std::vector<std::vector<i32>> kEnds = {
      {50, 100, 150, 170}, {0, 0, 170, 170}, {0, 0, 0, 0}, {1, 130, 131, 160}, {-5, 33, 33, 900}};
  for (const std::vector<i32>& ends : kEnds) {
    for (const char* tile : {kPingPong, kSmall}) {
      cases.push_back({"M-grouped", m_grouped, tile, 2, 2, 0, ends});
      cases.push_back({"M-grouped, MN-major A", mn_major, tile, 2, 0, 0, ends});
      cases.push_back({"K-grouped", k_grouped, tile, 2, 4, 0, ends});
      cases.push_back({"K-grouped, B by TMA", b_by_tma, tile, 2, 0, 0, ends});
    }
  }
  run_all(cases);
}

TEST_CASE("cluster split-K") {
  std::vector<Case> cases;
  const auto single = [](i64 m, i64 n, i64 k) {
    return gemm(fmt::format("bf16[{}, {}]", m, k), fmt::format("bf16[{}, {}]", n, k), "mk,nk->mn");
  };
  for (const i64 m : {2, 17, 33, 64}) {
    cases.push_back({fmt::format("M = {}", m), single(m, 136, 1609), "64x64x64g1s4k4", 2, 2});
    cases.push_back({fmt::format("M = {}", m), single(m, 136, 1606), "64x64x64g1s4k1", 4, 4});
  }
  // k-slices without a k-tile.
  for (const i64 k : {7, 65, 137}) {
    cases.push_back({fmt::format("K = {}", k), single(17, 40, k), "64x32x64g1s5k8", 2, 2});
  }
  run_all(cases);
}

TEST_CASE("tf32: vectors of every width, tails, dual GEMM; rounded, not truncated") {
  std::vector<Case> cases;
  const struct {
    i64 k;
    i32 bytes;
  } kWidths[] = {{99, 4}, {3, 4}, {33, 4}, {98, 8}, {546, 8}};
  for (const auto& width : kWidths) {
    const std::string x = fmt::format("f32[300, {}]", width.k);
    const std::string w = fmt::format("f32[203, {}]", width.k);
    for (const char* tile : {"128x128x32p2s6", "128x256x32g2s4", "64x64x32g1s8"}) {
      cases.push_back({fmt::format("K = {}", width.k), gemm(x, w, "mk,nk->mn"), tile, width.bytes,
                       width.bytes});
      if (width.k < 99) break;
      cases.push_back(cases.back());
      cases.back().fill = FillKind::kPositive;
    }
  }
  const std::string dual =
      "chain a(input x: f32[300, 67], weight w: f32[200, 67], weight v: f32[200, 67]) {\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: f32 }";
  cases.push_back({"dual", dual, "128x64x32p2s6", 4, 4});
  cases.push_back({"dual", dual, "64x32x32g1s8", 4, 4});
  cases.push_back({"too many dimensions for a map",
                   gemm("f32[40, 2, 2, 2, 2, 36]",
                        "f32[2, 2, 2, 2, 24, 36] strides[8192, 16384, 32768, 65536, 36, 1]",
                        "mabcdk,abcdnk->abcdmn"),
                   "64x64x32g1s8", 16, 16});
  run_all(cases);
}
