// SPDX-License-Identifier: Apache-2.0
// The candidate list, what each needs of a target, and its counts for the cost model.
#include "compiler/families/gemm_sm80/candidates.h"

#include <algorithm>
#include <cmath>

#include "compiler/families/roofline.h"
#include "ir/counted.h"

namespace catenary {
namespace {

// Large tiles first: equal predictions go to the earlier one (RESULTS sm80-100).
constexpr GemmSm80Tile kTiles[] = {
    {128, 256, 64, 2, 4, 3}, {256, 128, 64, 4, 2, 3}, {128, 128, 64, 2, 2, 3},
    {128, 256, 32, 2, 4, 4}, {256, 128, 32, 4, 2, 4}, {128, 128, 32, 2, 2, 4},
    {128, 64, 64, 2, 2, 3},  {64, 128, 64, 2, 2, 3},  {64, 64, 64, 2, 2, 4},
    {32, 128, 64, 1, 4, 4},  {128, 32, 64, 4, 1, 4},  {32, 64, 128, 1, 4, 3},
    {16, 128, 64, 1, 4, 6},  {16, 64, 128, 1, 4, 5},  {128, 16, 64, 4, 1, 6},
};

constexpr int kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16};

// Registers that a thread needs: accumulators, two fragment buffers, and the rest, addresses
// above all (measured: 38 to 60 on sm_80 and sm_90a).
int estimated_registers(const GemmSm80Config& config) {
  const int warp_m = config.tile.block_m / config.tile.warps_m;
  const int warp_n = config.tile.block_n / config.tile.warps_n;
  const int accumulators = config.num_accumulators() * warp_m * warp_n / 32;
  const int fragments = 2 * (warp_m / 4 + config.num_accumulators() * warp_n / 4);
  // Narrow copies are many, and each has its address in flight (measured: 128x128 on four warps
  // spills 80 to 424 bytes with them and nothing without, 64x64 of tf32 needs over 168 registers).
  int narrowest = config.dual ? config.b2.copy_bytes : 16;
  for (int s = 0; s < config.segments; ++s) {
    narrowest =
        std::min({narrowest, config.segment_a(s).copy_bytes, config.segment_b(s).copy_bytes});
  }
  return accumulators + fragments + (narrowest < 16 ? 110 : 60);
}

GemmSm80Config apply(const GemmSm80Config& base, const GemmSm80Tile& tile) {
  GemmSm80Config config = base;
  config.tile = tile;
  if (base.dual) config.tile.block_n = std::max(tile.block_n / 2, 16 * tile.warps_n);
  if (base.space.element_bytes() != 2) config.tile.block_k = tile.block_k / 2;
  return config;
}

// A predicate whose subject is the candidate; empty: the target can run it.
std::string reject(const Target& target, const GemmSm80Config& config) {
  if (config.smem_bytes() > target.smem_per_cta) {
    return fmt::format("needs {} bytes of shared memory, {} has {} per CTA", config.smem_bytes(),
                       target.name, target.smem_per_cta);
  }
  const int registers = estimated_registers(config);
  if (registers > 255) return fmt::format("needs about {} registers of 255", registers);
  if (config.space.math == MathMode::kF32 && config.tile.block_m * config.tile.block_n > 128 * 64) {
    return "is larger than 128x64, the limit of true f32";
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
  i64 tiles_m = ceil_div(problem.size.m, config.tile.block_m);
  if (config.ragged.kind == Ragged::kMGrouped) tiles_m += config.ragged.num_groups / 2;
  return problem.size.batch * tiles_m * ceil_div(problem.size.n, config.tile.block_n);
}

double row_tiles(const ContractionProblem& problem, const GemmSm80Config& c) {
  if (c.ragged.kind != Ragged::kMGrouped) {
    return static_cast<double>(ceil_div(problem.size.m, c.tile.block_m));
  }
  const i64 groups = std::min(problem.size.m, c.ragged.num_groups);
  return grouped_row_tiles(static_cast<double>(problem.size.m), static_cast<double>(groups),
                           c.tile.block_m);
}

// Clocks that one k-tile keeps shared memory busy: ldmatrix of the warps' fragments, and cp.async
// writes. Where copies of fewer than 16 bytes keep the load path busy for longer, its clocks.
double smem_clocks(const GemmSm80Config& c) {
  const GemmSm80Tile& tile = c.tile;
  const int accumulators = c.num_accumulators();
  const double line = tile.block_k * c.space.element_bytes();
  const double fragments =
      tile.warps_m * tile.warps_n *
      (tile.block_m / tile.warps_m + accumulators * tile.block_n / tile.warps_n) * line;
  const auto narrow_copy_clocks = [&](const MatrixOperand& operand, int rows) {
    return operand.copy_bytes >= 16 ? 0.0 : rows * line / 128 * copy_clocks(operand.copy_bytes);
  };
  double loads = 0;  // of the segment that takes longest
  for (int s = 0; s < c.segments; ++s) {
    loads = std::max(loads, narrow_copy_clocks(c.segment_a(s), tile.block_m) +
                                narrow_copy_clocks(c.segment_b(s), tile.block_n));
  }
  if (c.dual) loads += narrow_copy_clocks(c.b2, tile.block_n);
  return std::max((fragments + c.stage_bytes()) / 128, loads);
}

Prediction predict_gemm_sm80(const ContractionProblem& problem, const Target& target,
                             const GemmSm80Config& c, int resident) {
  const GemmSm80Tile& tile = c.tile;
  const auto pitch = [&](const MatrixOperand& operand) {
    return (operand.k_major ? operand.stride_row : operand.stride_k) * c.space.element_bytes();
  };
  const double rows = c.ragged.kind == Ragged::kNone
                          ? static_cast<double>(std::min<i64>(tile.block_m, problem.size.m))
                          : tile.block_m;
  const double line = tile.block_k * c.space.element_bytes();
  Counts counts;
  counts.units = static_cast<double>(problem.size.batch) * row_tiles(problem, c) *
                 ceil_div(problem.size.n, tile.block_n) * c.schedule.split_k;
  counts.resident = resident;
  counts.units_per_sm = std::ceil(counts.units / target.sm_count);
  // With PDL the CTAs of a split start packed on few SMs, while the reduction before them ends.
  if (c.schedule.split_k > 1) {
    counts.units_per_sm = std::ceil(counts.units / target.sm_count / resident) * resident;
  }
  counts.k_tiles = std::max<double>(ceil_div(problem.k_tiles(tile.block_k), c.schedule.split_k), 1);
  counts.stages = tile.stages - 1;
  counts.mma_flop = 2.0 * tile.block_m * tile.block_n * tile.block_k * c.num_accumulators();
  counts.smem_clocks = smem_clocks(c);
  counts.l2_bytes = (rows * line_share(pitch(c.a)) +
                     c.num_accumulators() * tile.block_n * line_share(pitch(c.b))) *
                    line;
  counts.accumulators = tile.block_m * tile.block_n * c.num_accumulators();
  counts.mma_sync = true;
  counts.math_share = math_tflops(target, c.space.math) / target.tensor_tflops;
  if (c.schedule.split_k > 1) {
    counts.partial_bytes = 8.0 * c.schedule.split_k * c.num_accumulators() * problem.size.batch *
                           problem.size.m * problem.size.n;
  }
  return predict(counts, target, problem.bytes(), problem.flops(),
                 math_tflops(target, c.space.math), problem.size.epilogue_flops);
}

bool wanted_split(const ContractionProblem& problem, const Target& target,
                  const GemmSm80Config& config, int split, const TileRequest& request) {
  if (request.split_k > 0) return split == request.split_k;
  if (split == 1) return true;
  const i64 k_tiles = problem.k_tiles(config.tile.block_k);
  return config.ragged.kind == Ragged::kNone && output_tiles(problem, config) < target.sm_count &&
         k_tiles >= 4 * split;
}

// Should the next kernel start with this one? With split-K it should where the grid fills about all
// SMs, and the fix-up has more than four rows to add but no more than one CTA per SM. Measured on
// 99 shapes with small M on an H200: without split-K a late start wins 53 of 55 (up to 1.5 times),
// with split-K an early one wins 23 of 44 (up to 1.27 times).
bool triggers_early(const ContractionProblem& problem, const Target& target,
                    const GemmSm80Config& c) {
  const i64 ctas = gemm_sm80_grid(c, problem.size.symbol).ctas(problem.size.symbol);
  const i64 outputs = problem.size.batch * problem.size.m * problem.size.n;
  return c.schedule.split_k > 1 && problem.size.m > 4 && 10 * ctas >= 9 * target.sm_count &&
         outputs <= i64{1024} * target.sm_count;
}

std::string describe(const GemmSm80Config& c, int ctas) {
  const GemmSm80Tile& tile = c.tile;
  return fmt::format("tile {}x{}x{}, {} x {} warps, {}, {} KiB shared, {} per SM{}{}", tile.block_m,
                     tile.block_n, tile.block_k, tile.warps_m, tile.warps_n,
                     counted(tile.stages, "stage"), c.smem_bytes() / 1024, counted(ctas, "CTA"),
                     c.schedule.split_k > 1 ? fmt::format(", split-K {}", c.schedule.split_k) : "",
                     c.segments > 1 ? fmt::format(", {} K segments", c.segments) : "");
}

}  // namespace

llvm::ArrayRef<GemmSm80Tile> gemm_sm80_tiles() { return kTiles; }

std::string tile_name(const GemmSm80Config& c) {
  const auto& [block_m, block_n, block_k, warps_m, warps_n, stages] = c.tile;
  return fmt::format("{}x{}x{}w{}x{}s{}", block_m, block_n, block_k, warps_m, warps_n, stages);
}

GemmSm80Config gemm_sm80_config(const ContractionProblem& p) {
  GemmSm80Config c;
  c.space = p.space;
  c.a = p.a[0].memory;
  c.b = p.b[0].memory;
  c.dual = p.is_dual();
  if (c.dual) c.b2 = p.b[1].memory;
  if (p.is_sum()) c.segments = static_cast<i32>(p.products.size());
  for (i32 s = 1; s < c.segments; ++s) {
    c.more[s - 1] = {p.a[s].memory, p.b[s].memory, p.products[s].k.size, p.products[s].k_outer};
  }
  c.vec = p.vec;
  c.column_sums = p.num_column_sums();
  c.ragged = p.ragged;
  return c;
}

GridRule gemm_sm80_grid(const GemmSm80Config& c, i64 symbol) {
  const i64 extra = c.ragged.kind == Ragged::kMGrouped ? c.ragged.num_groups + 1 : 0;
  return tile_grid(c.space, c.tile.block_m, c.tile.block_n, c.schedule.split_k, extra, symbol);
}

Candidate gemm_sm80_candidate(GemmSm80Config config, const ContractionProblem& problem,
                              const Target& target) {
  Candidate candidate;
  candidate.id = {"gemm_sm80", tile_name(config), config.schedule.split_k};
  candidate.min_ctas = resident_ctas(target, config);
  candidate.rejected = reject(target, config);
  candidate.predicted = predict_gemm_sm80(problem, target, config, candidate.min_ctas);
  candidate.text = describe(config, candidate.min_ctas);
  config.schedule.trigger_early = triggers_early(problem, target, config);
  candidate.config = config;
  if (config.schedule.split_k == 1) candidate.sums.kind = SumOrder::Kind::kAscending;
  return candidate;
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
      config.schedule.split_k = split;
      candidates.push_back(gemm_sm80_candidate(config, problem, target));
    }
  }
  return candidates;
}

}  // namespace catenary
