// SPDX-License-Identifier: Apache-2.0
// The cost model. A CTA has an SM to itself and works through its tiles; a step of K takes the
// largest of three times:
//
//   products   2 BM BN BK sums / (tensor rate of an SM x efficiency of the instruction)
//   traffic    bytes that the SM draws from L2 for a stage / its rate
//   latency    kLatencyUs / stages: the ring covers so many steps of waiting
//
// and the epilogue of a tile stands between the products of cooperative warpgroups, while those of
// ping-pong hide it as far as it is shorter than a tile's products. DRAM bounds the whole from
// below.
#include "compiler/gemm_sm90_tiles.h"

#include <algorithm>

#include "compiler/plan_family.h"

namespace catenary {
namespace {

// Large tiles first: ties go to the earlier one. At most 64 x 256 sums a warpgroup, or 128 x 192
// between them, fit its registers.
constexpr GemmSm90Tile kTiles[] = {
    {128, 256, 2, false, 2}, {256, 128, 2, false, 2}, {128, 128, 2, true, 2},
    {128, 256, 2, false, 1}, {256, 128, 2, false, 1}, {128, 128, 2, true, 1},
    {128, 192, 2, false, 2}, {128, 192, 2, false, 1}, {64, 256, 2, true, 2},
    {64, 256, 2, true, 1},   {128, 128, 2, false, 1}, {64, 192, 2, true, 1},
    {64, 128, 2, true, 1},   {128, 64, 2, true, 1},   {64, 256, 1, false, 1},
    {64, 128, 1, false, 1},  {64, 64, 1, false, 1},
};

constexpr int kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16};

constexpr int kMaxStages = 8;
constexpr int kMinStages = 2;

// Waiting time of a step on its copies when nothing else covers it, and what starts and ends a CTA
// (barriers, the first maps, the last stores).
constexpr double kLatencyUs = 0.9;
constexpr double kStartUs = 1.2;

// L2 -> SM: the bytes per clock that an SM draws while all do (hopper-class chips give 5,500 to
// 8,000 bytes per clock over 132 SMs).
constexpr double kL2BytesPerClockPerSm = 44.0;

// The part of the copy rate that the ring reaches where DRAM bounds it: 28.4 us for 7168x7168
// weights with 48 rows, where the copy rate gives 24.1. Rows of a box beyond the matrix cost
// requests too: with 32 rows 36.3 us and more, with 48 29.8 (H200; six stages).
constexpr double kStreamEfficiency = 0.88;
constexpr double kEmptyRowsEfficiency = 0.70;
constexpr i64 kFullBoxRows = 48;

// A tile's epilogue: clocks per sum of the SM (shared memory twice, arithmetic, stores).
constexpr double kEpilogueClocksPerSum = 0.08;

// The part of the dense rate that wgmma keeps under load with random data (H200, 8192x4096x4096
// with 128x128 tiles: 371 us, cuBLASLt 367; 512x11008x4096: 71 and 62), and what narrow
// instructions lose: m64nN reads 2 KB of A and 32 N bytes of B in N / 2 clocks, at 128 bytes a
// clock.
double wgmma_efficiency(int n) {
  const double clocks = n / 2.0;
  const double reads = (2048 + 32.0 * n) / 128;
  return 0.80 * std::min(1.0, 0.9 * clocks / reads);
}

int accumulators(const GemmSm90Config& c) {
  return c.sums() * c.warpgroup_m() / 64 * c.block_n / 2;
}

std::string reject(const Target& target, const GemmSm90Config& c) {
  if (c.stages < kMinStages || c.smem_bytes() > target.smem_per_cta) {
    return fmt::format("needs {} bytes of shared memory, {} has {} per CTA", c.smem_bytes(),
                       target.name, target.smem_per_cta);
  }
  if (accumulators(c) > 192) return fmt::format("needs {} accumulators", accumulators(c));
  if (c.block_n % (64 / c.sums()) != 0 || c.block_n % (8 * c.cluster) != 0) {
    return fmt::format("{} columns are no whole pieces of the epilogue", c.block_n);
  }
  if (!c.b.k_major && c.block_n % (64 * c.cluster) != 0) {
    return "B lies along N: its tile is no whole boxes";
  }
  return "";
}

i64 output_tiles(const GemmProblem& problem, const GemmSm90Config& c) {
  i64 tiles_m = ceil_div(problem.m, c.raster_m()) * c.cluster;
  if (c.ragged == Ragged::kRows) tiles_m += c.groups * c.cluster / 2;
  return problem.batch * tiles_m * ceil_div(problem.n, c.block_n) * c.split_k;
}

void predict(const GemmProblem& problem, const Target& target, GemmSm90Candidate& candidate) {
  const GemmSm90Config& c = candidate.config;
  const double clock = target.clock_ghz * 1e3;  // per microsecond
  const double sms = target.sm_count / c.cluster * c.cluster;
  const i64 tiles = output_tiles(problem, c);
  const double rounds = std::ceil(static_cast<double>(tiles) / sms);
  const double steps = static_cast<double>(ceil_div(ceil_div(problem.k, c.block_k()), c.split_k));
  const double rate =
      math_tflops(target, c.math) * 1e6 / target.sm_count * wgmma_efficiency(c.block_n);
  const double products = 2.0 * c.block_m * c.block_n * c.block_k() * c.sums() / rate;
  const double drawn = c.tile_a_bytes() + 1.0 * c.sums() * c.tile_b_bytes() / c.cluster;
  const double traffic = drawn / (kL2BytesPerClockPerSm * clock);
  const double step = std::max({products, traffic, kLatencyUs / c.stages});
  const double mainloop = std::max(steps, 1.0) * step;
  // All SMs write at once, each at its share of DRAM.
  const double tile_bytes = static_cast<double>(problem.epilogue_bytes) / std::max<i64>(tiles, 1);
  const double epilogue =
      std::max(1.0 * c.block_m * c.block_n * c.sums() * kEpilogueClocksPerSum / clock,
               tile_bytes / (target.dram_gbs * kDramEfficiency * 1e3 / sms));
  const double between = c.ping_pong ? std::max(epilogue - mainloop, 0.0) : epilogue;

  Prediction& p = candidate.predicted;
  p.flops =
      2.0 * problem.batch * problem.m * problem.n * problem.k * c.sums() + problem.epilogue_flops;
  p.bytes = problem.matrix_bytes + problem.epilogue_bytes;
  p.memory_us = p.bytes / (target.dram_gbs * kDramEfficiency * 1e3);
  p.math_us = kStartUs + rounds * (mainloop + between) + (c.ping_pong ? epilogue : 0.0) +
              problem.epilogue_flops / (target.f32_tflops * 1e6);
  p.launch_us = kLaunchUs;
  p.waves = static_cast<double>(tiles) / sms;
  if (c.split_k > 1) {
    // Partial sums are written and read once, mostly in L2, by one more kernel.
    const double partial = 8.0 * c.split_k * c.sums() * problem.batch * problem.m * problem.n;
    p.math_us += partial / (0.5 * kL2BytesPerClockPerSm * clock * sms);
    p.launch_us += kLaunchUs + kLatencyUs;
  }
  const double stream = problem.m < kFullBoxRows ? kEmptyRowsEfficiency : kStreamEfficiency;
  p.us = std::max(p.memory_us / stream + kStartUs, p.math_us) + p.launch_us;
}

bool wanted_split(const GemmProblem& problem, const Target& target, const GemmSm90Config& c,
                  int split, const PlanOptions& options) {
  if (options.split_k > 0) return split == options.split_k;
  if (split == 1) return true;
  const i64 steps = ceil_div(problem.k, c.block_k());
  return c.ragged == Ragged::kNone && c.m.scale == 0 && c.n.scale == 0 &&
         output_tiles(problem, c) * split <= 2 * target.sm_count && steps >= 4 * split;
}

}  // namespace

llvm::ArrayRef<GemmSm90Tile> gemm_sm90_tiles() { return kTiles; }

GemmSm90Config with_tile(const GemmSm90Config& base, const GemmSm90Tile& tile,
                         const Target& target) {
  GemmSm90Config c = base;
  c.block_m = tile.block_m;
  c.block_n = base.gated ? tile.block_n / 2 : tile.block_n;
  c.consumers = tile.consumers;
  c.ping_pong = tile.ping_pong;
  c.cluster = tile.cluster;
  c.stages = 0;
  const i64 rest = target.smem_per_cta - c.smem_bytes();
  c.stages = static_cast<i32>(std::clamp<i64>(rest / (c.stage_bytes() + 16), 0, kMaxStages));
  return c;
}

std::string tile_name(const GemmSm90Config& c) {
  return fmt::format("{}x{}x{}{}{}s{}{}", c.block_m, c.block_n, c.block_k(),
                     c.ping_pong ? "p" : "g", c.consumers, c.stages,
                     c.cluster > 1 ? fmt::format("c{}", c.cluster) : "");
}

std::vector<GemmSm90Candidate> rank_gemm_sm90_candidates(const GemmSm90Config& base,
                                                         const GemmProblem& problem,
                                                         const Target& target,
                                                         const PlanOptions& options) {
  std::vector<GemmSm90Candidate> ranked;
  const auto add = [&](GemmSm90Config config, int split) {
    if (!options.force_tile.empty() && tile_name(config) != options.force_tile) return;
    if (!wanted_split(problem, target, config, split, options)) return;
    config.split_k = split;
    GemmSm90Candidate candidate;
    candidate.config = config;
    candidate.rejected = reject(target, config);
    predict(problem, target, candidate);
    ranked.push_back(std::move(candidate));
  };
  for (const GemmSm90Tile& tile : kTiles) {
    const GemmSm90Config whole = with_tile(base, tile, target);
    for (const int split : kSplits) add(whole, split);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    if (a.rejected.empty() != b.rejected.empty()) return a.rejected.empty();
    // Where memory decides, the tile with less to compute.
    const auto cost = [](const GemmSm90Candidate& x) {
      return x.predicted.us + x.predicted.math_us / 16;
    };
    return cost(a) < cost(b);
  });
  return ranked;
}

}  // namespace catenary
