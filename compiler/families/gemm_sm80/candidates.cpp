// SPDX-License-Identifier: Apache-2.0
// The cost model. A CTA works through its k-tiles; an SM holds `ctas` of them at once. A k-tile
// takes the SM the largest of three times, for all its CTAs together:
//
//   products   2 BM BN BK sums / (tensor rate of an SM x efficiency of the warp tile) + overhead
//   traffic    stage bytes / L2 rate of an SM
//   latency    kLatencyUs / (stages - 1), once: the ring covers so many k-tiles of waiting
//
// and the grid runs in rounds of SMs x ctas CTAs. DRAM bounds the whole from below.
#include "compiler/families/gemm_sm80/candidates.h"

#include <algorithm>

namespace catenary {
namespace {

// Large tiles first: ties go to the earlier one. Share of cuBLASLt's rate in the same run on an
// H200, 8192x4096x4096 bf16:
//
//   128x256x64  2x4 warps, 3 stages   0.62     256x128x64  4x2 warps   0.59
//   128x128x64  2x2 warps, two CTAs   0.59     128x128x32  4 stages    0.52
//   256x128x32, 128x256x32            0.41     16 warps of 128 registers   0.36
constexpr GemmSm80Tile kTiles[] = {
    {128, 256, 64, 2, 4, 3}, {256, 128, 64, 4, 2, 3}, {128, 128, 64, 2, 2, 3},
    {128, 256, 32, 2, 4, 4}, {256, 128, 32, 4, 2, 4}, {128, 128, 32, 2, 2, 4},
    {128, 64, 64, 2, 2, 3},  {64, 128, 64, 2, 2, 3},  {64, 64, 64, 2, 2, 4},
    {32, 128, 64, 1, 4, 4},  {128, 32, 64, 4, 1, 4},  {32, 64, 128, 1, 4, 3},
    {16, 128, 64, 1, 4, 6},  {16, 64, 128, 1, 4, 5},  {128, 16, 64, 4, 1, 6},
};

constexpr int kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16};

// Waiting time of a k-tile on its copies when nothing else covers it: DRAM 479 clocks plus queueing
// (Luo et al., arXiv:2402.13499), as the ring sees it under load.
constexpr double kLatencyUs = 0.9;

// What a k-tile costs beside its products: the barrier, the copies' instructions, the first
// fragments. From the same runs: 128x128 at block_k 32 against 64.
constexpr double kTileOverheadUs = 0.09;

// L2 -> SM rate: 4,000 to 4,500 bytes per clock over 132 SMs (same source).
constexpr double kL2BytesPerClockPerSm = 32.0;

// Clocks of an SM for a warp's load of pieces of 8 or 4 bytes (cp.async), and of elements of 2,
// which a thread waits for: then no less than those of one warp, over the warps. 8192x4096x4095
// bf16 3,900 us, 4096x4096x4098 653; 32x4096x4095 by tiles of 16x64 175, of 32x64 with K in two,
// four and six parts 100, 56, 46 (H200).
constexpr double kPieceClocks = 6.0;
constexpr double kElementClocks = 9.0;
constexpr double kElementLatencyClocks = 112.0;

// Part of the copy rate that the cp.async ring reaches where DRAM bounds it: 59.5 us for 28672x4096
// and 34.4 us for 8192x8192 weights with one to 16 rows, where the copy rate alone gives 55.1 and
// 31.5 (H200).
// Taller tiles have shorter rings, and two row tiles stream W twice: 31.5 us for 7168x7168 with 17
// to 32 rows, where the copy rate gives 24.1.
constexpr double kStreamEfficiency = 0.93;
constexpr double kTallStreamEfficiency = 0.78;
// A long K that one CTA to an SM works through reads faster than a copy does. H200, one to 16 rows,
// means of plain and overlapped launches and the copy rate's time, us: 8192x14336 55.0 and 54.9,
// 14336x14336 93.2 and 96.1, 8192x28672 106 and 110, 14336x28672 183.4 and 192.2. More CTAs than
// there is room for need twice that K: 28672x28672 by tiles of 64 columns 365.7 and 384.4, but by
// 128 (two CTAs on some SMs) 382.6; 28672x14336 by 64 columns 200 where gemm_sm90 takes 193.
constexpr i64 kLongStream = 12800;
constexpr double kLongStreamEfficiency = 1.06;
constexpr double kLongStreamEndsUs = 1.7;

// Part of the dense tensor rate that mma.sync reaches with a warp tile of wm x wn. sm_90's mma.sync
// reaches 0.51 of wgmma's rate (the runs above, less the overhead per k-tile); before that it is
// the full rate. Small warp tiles are bound by ldmatrix: an mma of 16x8x16 reads (1/wn + 1/wm) of
// its operands' bytes anew.
double mma_efficiency(const Target& target, const GemmSm80Config& config) {
  const double wm = static_cast<double>(config.block_m) / config.warps_m;
  const double wn =
      static_cast<double>(config.block_n) / config.warps_n * config.num_accumulators();
  const double ceiling = target.compute_capability() >= 90 ? 0.51 : 0.85;
  const double reads = 1.0 / wm + 1.0 / wn;
  return ceiling * std::min(1.0, 0.045 / reads);
}

double efficiency(const Target& target, const GemmSm80Config& config) {
  // f32 products are bound by shared-memory reads: one per two multiply-adds at a 32x32 warp tile.
  return config.math == MathMode::kF32 ? 0.5 : mma_efficiency(target, config);
}

// What follows a CTA's last product, per sum of a thread: once, since all CTAs of a round end
// together. H200: 512x2048 with K = 256 takes 4.7 us by tiles of 128x64 (64 sums), 4.3 by 64x64
// (32); 128x16384 with K = 512 10.1 by 128x128 (128), where a k-tile's products and the ring
// give 7.1. Tiles of fewer sums are right without it.
constexpr double kEndUsPerSum = 0.02;
constexpr int kManySums = 32;

double end_us(const GemmSm80Config& c) {
  const int sums = c.block_m * c.block_n * c.num_accumulators() / c.threads();
  return sums < kManySums ? 0 : sums * kEndUsPerSum;
}

// Registers a thread needs, by the structure of the kernel: accumulators, two fragment buffers,
// addresses (measured 38 to 60 beyond the first two on sm_80 and sm_90a).
int estimated_registers(const GemmSm80Config& config) {
  const int warp_m = config.block_m / config.warps_m;
  const int warp_n = config.block_n / config.warps_n;
  const int accumulators = config.num_accumulators() * warp_m * warp_n / 32;
  const int fragments = 2 * (warp_m / 4 + config.num_accumulators() * warp_n / 4);
  // Narrow copies are many, and each has its address in flight (measured: 128x128 on four warps
  // spills 80 to 424 bytes with them and nothing without, 64x64 of tf32 needs over 168 registers).
  const int narrowest =
      std::min({config.a.copy_bytes, config.b.copy_bytes, config.dual ? config.b2.copy_bytes : 16});
  return accumulators + fragments + (narrowest < 16 ? 110 : 60);
}

GemmSm80Config apply(const GemmSm80Config& base, const GemmSm80Tile& tile) {
  GemmSm80Config config = base;
  config.block_m = tile.block_m;
  config.block_n = base.dual ? std::max(tile.block_n / 2, 16 * tile.warps_n) : tile.block_n;
  config.block_k = base.element_bytes() == 2 ? tile.block_k : tile.block_k / 2;
  config.warps_m = tile.warps_m;
  config.warps_n = tile.warps_n;
  config.stages = tile.stages;
  return config;
}

std::string reject(const Target& target, const GemmSm80Config& config) {
  if (config.smem_bytes() > target.smem_per_cta) {
    return fmt::format("needs {} bytes of shared memory, {} has {} per CTA", config.smem_bytes(),
                       target.name, target.smem_per_cta);
  }
  const int registers = estimated_registers(config);
  if (registers > 255) return fmt::format("needs about {} registers of 255", registers);
  if (config.math == MathMode::kF32 && config.block_m * config.block_n > 128 * 64) {
    return "f32 products keep no fragments: a smaller tile does";
  }
  return "";
}

int resident_ctas(const Target& target, const GemmSm80Config& config) {
  const i64 by_smem = target.smem_per_sm / (config.smem_bytes() + 1024);
  const i64 by_registers =
      65536 / (i64{config.threads()} * std::min(255, estimated_registers(config)));
  return static_cast<int>(std::clamp<i64>(std::min(by_smem, by_registers), 1, 4));
}

i64 output_tiles(const ContractionProblem& problem, const GemmSm80Config& config) {
  i64 tiles_m = ceil_div(problem.size.m, config.block_m);
  if (config.ragged == Ragged::kMGrouped)
    tiles_m += config.num_groups / 2;  // half a tile per group
  return problem.size.batch * tiles_m * ceil_div(problem.size.n, config.block_n);
}

// What a k-tile's copies in pieces of less than 16 bytes take where an SM has so many CTAs.
double narrow_copies_us(const Target& target, const GemmSm80Config& c, double resident) {
  const auto clocks = [&](const MatrixOperand& operand, i32 rows) {
    if (operand.copy_bytes >= 16) return 0.0;
    const double loads = rows * c.block_k * c.element_bytes() / (32.0 * operand.copy_bytes);
    if (operand.copy_bytes > 2) return loads * kPieceClocks * resident;
    return loads * std::max(kElementClocks * resident, kElementLatencyClocks * 32 / c.threads());
  };
  const double b2 = c.dual ? clocks(c.b2, c.block_n) : 0;
  return (clocks(c.a, c.block_m) + clocks(c.b, c.block_n) + b2) / (target.clock_ghz * 1e3);
}

// W's way from DRAM: `tiles` CTAs, of which `slots` are resident at once.
double stream_us(const ContractionProblem& problem, const Target& target, const GemmSm80Config& c,
                 i64 tiles, i64 slots, double memory_us) {
  if (c.block_m > 16 || problem.size.m > 16) return memory_us / kTallStreamEfficiency;
  const bool one_each = tiles <= target.sm_count && tiles >= 0.8 * target.sm_count;
  const i64 least = one_each ? kLongStream : 2 * kLongStream;
  if (problem.size.k >= least && c.split_k == 1 && (one_each || tiles > slots)) {
    return memory_us / kLongStreamEfficiency + kLongStreamEndsUs;
  }
  return memory_us / kStreamEfficiency;
}

Prediction predict(const ContractionProblem& problem, const Target& target, const GemmSm80Config& c,
                   int ctas) {
  const double sms = target.sm_count;
  const i64 tiles = output_tiles(problem, c) * c.split_k;
  const double k_tiles = std::max<i64>(ceil_div(ceil_div(problem.size.k, c.block_k), c.split_k), 1);

  // Rounds of CTAs: in a full round every SM works on `ctas` at once; the last takes what is left.
  const i64 slots = static_cast<i64>(sms) * ctas;
  const double full = static_cast<double>(tiles / slots);
  const double last = std::ceil((tiles % slots) / sms);
  const double sm_tflops = math_tflops(target, c.math) * efficiency(target, c) / sms;
  const double products =
      2.0 * c.block_m * c.block_n * c.block_k * c.num_accumulators() / (sm_tflops * 1e6);
  const double traffic = c.stage_bytes() / (kL2BytesPerClockPerSm * target.clock_ghz * 1e3);
  const double latency = kLatencyUs / (c.stages - 1);
  // Filling the ring, and writing the tile: all SMs write at once, each at its share of DRAM.
  // Another CTA on the SM covers half of it.
  const double tile_bytes =
      static_cast<double>(problem.size.epilogue_bytes) / std::max<i64>(output_tiles(problem, c), 1);
  const double ends = (kLatencyUs + tile_bytes / (target.dram_gbs * kDramEfficiency * 1e3 / sms)) *
                      (ctas > 1 ? 0.5 : 1.0);
  const double overhead = kTileOverheadUs * (ctas > 1 ? 0.75 : 1.0);
  const auto round_us = [&](double resident) {
    return resident * ends +
           k_tiles * std::max({(products + overhead) * resident, traffic * resident, latency,
                               narrow_copies_us(target, c, resident)});
  };
  const double mainloop = full * round_us(ctas) + (last > 0 ? round_us(last) : 0);

  Prediction p;
  p.flops = problem.flops();
  p.bytes = problem.bytes();
  const double gbs = target.dram_gbs * kDramEfficiency * 1e3;
  p.memory_us = p.bytes / gbs;
  p.math_us = mainloop + end_us(c) + problem.size.epilogue_flops / (target.f32_tflops * 1e6);
  p.launch_us = kLaunchUs;
  p.waves = static_cast<double>(tiles) / slots;
  if (c.split_k > 1) {
    // Partial sums are written and read once, mostly in L2, by one more kernel.
    const double l2 = kL2BytesPerClockPerSm * target.clock_ghz * sms * 1e3;
    p.math_us += 8.0 * c.split_k * c.num_accumulators() * problem.size.batch * problem.size.m *
                 problem.size.n / (0.5 * l2);
    p.launch_us += kLaunchUs + kLatencyUs;
  }
  const double stream = stream_us(problem, target, c, tiles, slots, p.memory_us);
  p.memory_us = std::min(p.memory_us, stream);
  p.floor_us =
      std::max(p.bytes / (target.dram_gbs * 1e3), p.flops / (math_tflops(target, c.math) * 1e6));
  p.us = std::max(stream, p.math_us) + p.launch_us;
  return p;
}

bool wanted_split(const ContractionProblem& problem, const Target& target,
                  const GemmSm80Config& config, int split, const TileRequest& request) {
  if (request.split_k > 0) return split == request.split_k;
  if (split == 1) return true;
  const i64 k_tiles = ceil_div(problem.size.k, config.block_k);
  return config.ragged == Ragged::kNone && output_tiles(problem, config) < target.sm_count &&
         k_tiles >= 4 * split;
}

// Should the next kernel start with this one? Of 99 shapes of few rows on an H200, launched early
// and late, 53 of the 55 whole sums were faster late, by up to 1.5 times; of the 44 K splits 23
// were faster early, by up to 1.27: those over about all SMs whose fix-up has something to do (more
// than four rows) but no more than a CTA per SM.
bool triggers_early(const ContractionProblem& problem, const Target& target,
                    const GemmSm80Config& c) {
  const i64 ctas = gemm_sm80_grid(c).ctas(problem.size.symbol);
  const i64 outputs = problem.size.batch * problem.size.m * problem.size.n;
  return c.split_k > 1 && problem.size.m > 4 && 10 * ctas >= 9 * target.sm_count &&
         outputs <= i64{1024} * target.sm_count;
}

std::string describe(const GemmSm80Config& c, int ctas) {
  return fmt::format("tile {}x{}x{}, {} x {} warps, {} stages, {} KiB shared, {} CTAs per SM{}",
                     c.block_m, c.block_n, c.block_k, c.warps_m, c.warps_n, c.stages,
                     c.smem_bytes() / 1024, ctas,
                     c.split_k > 1 ? fmt::format(", split-K {}", c.split_k) : "");
}

}  // namespace

llvm::ArrayRef<GemmSm80Tile> gemm_sm80_tiles() { return kTiles; }

std::string tile_name(const GemmSm80Config& c) {
  return fmt::format("{}x{}x{}w{}x{}s{}", c.block_m, c.block_n, c.block_k, c.warps_m, c.warps_n,
                     c.stages);
}

GemmSm80Config gemm_sm80_config(const ContractionProblem& p) {
  GemmSm80Config c;
  c.math = p.math;
  c.batch = p.batch;
  c.batch_rank = p.batch_rank;
  c.m = p.m;
  c.n = p.n;
  c.k = p.k;
  c.k_outer = p.k_outer;
  c.a = p.a[0].memory;
  c.b = p.b[0].memory;
  c.dual = p.is_dual();
  if (c.dual) c.b2 = p.b[1].memory;
  c.vec = p.vec;
  c.ragged = p.ragged;
  c.group_ends_slot = p.group_ends_slot;
  c.num_groups = p.num_groups;
  return c;
}

GridRule gemm_sm80_grid(const GemmSm80Config& c) {
  GridRule grid;
  grid.fixed = c.split_k * ceil_div(c.n.size, c.block_n);
  for (const Extent& extent : c.batch.at) grid.fixed *= extent.size;
  grid.size = c.m.size;
  grid.scale = c.m.scale;
  grid.block = c.block_m;
  if (c.ragged == Ragged::kMGrouped) grid.extra = c.num_groups + 1;
  return grid;
}

std::vector<Candidate> gemm_sm80_candidates(const ContractionProblem& problem, const Target& target,
                                            const TileRequest& request) {
  const GemmSm80Config base = gemm_sm80_config(problem);
  std::vector<Candidate> candidates;
  for (const GemmSm80Tile& tile : kTiles) {
    for (int split : kSplits) {
      GemmSm80Config config = apply(base, tile);
      if (!request.tile.empty() && tile_name(config) != request.tile) continue;
      if (!wanted_split(problem, target, config, split, request)) continue;
      config.split_k = split;
      Candidate candidate;
      candidate.id = {"gemm_sm80", tile_name(config), split};
      candidate.min_ctas = resident_ctas(target, config);
      candidate.rejected = reject(target, config);
      candidate.predicted = predict(problem, target, config, candidate.min_ctas);
      candidate.text = describe(config, candidate.min_ctas);
      config.trigger_early = triggers_early(problem, target, config);
      candidate.config = config;
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

}  // namespace catenary
