// SPDX-License-Identifier: Apache-2.0
// What a kernel of `gemm_sm90` does, counted for the cost model.
#include "compiler/families/gemm_sm90/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "llvm/ADT/STLExtras.h"

#include "compiler/families/beside.h"
#include "compiler/families/gemm_sm90/candidates.h"
#include "compiler/families/gemm_sm90/layout.h"
#include "compiler/families/roofline.h"

namespace catenary {
namespace {

// Row tiles of M clusters.
double row_tiles(const ContractionProblem& problem, const GemmSm90Config& c) {
  if (c.ragged.kind != Ragged::kMGrouped) {
    return static_cast<double>(ceil_div(problem.size.m, c.cluster_tile_m()));
  }
  const i64 groups = std::clamp<i64>(problem.size.m, 1, c.ragged.num_groups);
  return grouped_row_tiles(static_cast<double>(problem.size.m), static_cast<double>(groups),
                           c.cluster_tile_m());
}

double output_tiles(const ContractionProblem& problem, const GemmSm90Config& c) {
  return static_cast<double>(problem.size.batch) * row_tiles(problem, c) * c.schedule.cluster_m *
         c.schedule.cluster_n * ceil_div(problem.size.n, c.cluster_tile_n()) * c.schedule.split_k;
}

// Tiles of each part of contractions side by side; of a cluster, one.
llvm::SmallVector<i64, 4> part_tiles(const ContractionProblem& problem, const GemmSm90Config& c) {
  llvm::SmallVector<i64, 4> tiles;
  for (const PartSize& part : problem.parts) {
    tiles.push_back(problem.size.batch * ceil_div(part.m, c.cluster_tile_m()) *
                    ceil_div(part.n, c.cluster_tile_n()));
  }
  return tiles;
}

// Clocks of shared memory for a k-tile. A k-tile has four wgmma for each 64 rows, of both B in a
// dual GEMM unless sums are promoted. Each reads 2 KB of A and 32 bytes of B for each column. In
// the same time TMA writes the next k-tile. With cp.async fallback loads, the load path may take
// longer: then its clocks.
double smem_clocks(const GemmSm90Config& c) {
  const int of_a = c.promotes() ? c.num_accumulators() : 1;  // reads of A
  const double reads =
      c.tile.block_m / 64.0 * 4 * (2048.0 * of_a + 32.0 * c.num_accumulators() * c.tile.block_n);
  const auto fallback_clocks = [&](const Sm90Operand& operand, int lines) {
    return operand.by_cp_async ? lines * copy_clocks(operand.memory.copy_bytes) : 0.0;
  };
  const int lines_b = c.tile_b_bytes() / c.kRowBytes;
  const double loads = fallback_clocks(c.a, c.a_box_rows()) + fallback_clocks(c.b, lines_b) +
                       (c.dual ? fallback_clocks(c.b2, lines_b) : 0.0);
  return std::max((reads + c.stage_bytes()) / 128, loads);
}

// Clocks of a warpgroup for a k-tile whose sums are promoted, 0 for others: its MMAs, and for each
// part, or each second one where there are two sets of partial sums, the wait for them and the
// additions, one of a warp a clock. Cooperative warpgroups add while the MMAs of the others run,
// but all of them wait for the stage. Scales per block add their loads and products, and more where
// a tile has columns of two blocks; they arrive a round of the loop after they are requested. The
// constants are measured (RESULTS fp8-3).
double promotion_clocks(const GemmSm90Config& c) {
  constexpr double kWait = 150;       // from the last MMA to the first addition
  constexpr double kStageWait = 175;  // cooperative: from one k-tile to the next
  constexpr double kScaleLatency = 930, kTwoBlocks = 700;
  if (!c.promotes()) return 0;
  const double part = c.tile.block_n / 2.0;
  const double parts = c.accumulator_registers() / part;
  const double mma = 4.0 * part;  // m64nNk32 takes N / 2 clocks
  const double k_tiles_in_round = c.partial_sets() == 2 && parts == 1 ? 2 : 1;
  double scales = 0, two_blocks = 0, least = 0;
  if (c.block_scaled) {
    constexpr double kLoad = 4;  // with its address
    const int blocks = c.scale_blocks().most;
    scales = (2 + blocks) * kLoad + 2 * blocks;
    if (blocks == 2) two_blocks = kTwoBlocks;
    least = kScaleLatency / k_tiles_in_round;
  }
  double clocks = parts * (mma + (kWait + part + scales) / c.partial_sets());
  if (!c.schedule.ping_pong && c.schedule.consumers > 1)
    clocks = std::max(clocks, c.schedule.consumers * parts * mma + kStageWait);
  return std::max(clocks + two_blocks, least);
}

// A warp's epilogue waits for operands that vary along both M and N, two subtiles of 32 columns at
// a time.
double epilogue_waits(const ContractionProblem& problem, const GemmSm90Config& c) {
  if (c.schedule.split_k > 1 || c.schedule.cluster_k != 0) return 0;
  if (sm90_matrix_operands(problem) == 0) return 0;
  return c.warpgroup_m() / 64.0 * ceil_div(c.tile.block_n, 64);
}

// Bytes from one row of an operand in memory to the next.
i64 row_pitch(const MatrixOperand& operand, const GemmSm90Config& c) {
  return (operand.k_major ? operand.stride_row : operand.stride_k) * c.space.element_bytes();
}

// TMA requests the sectors of rows that do not start on a sector of 32 bytes more than once, the
// CTAs of a cluster together (RESULTS sm90-141, model-16).
double pitch_share(const MatrixOperand& operand, const GemmSm90Config& c) {
  constexpr i64 kSector = 32;
  constexpr double kSplitSectors = 0.3;
  const i64 pitch = row_pitch(operand, c);
  const double split = pitch % kSector == 0 ? 0 : kSplitSectors / c.cluster_ctas();
  return (1 + split) * line_share(pitch);
}

// All CTAs ask for the same k-tiles at about the same time: one wave, operands of whole lines that
// stay in L2.
bool in_lockstep(const ContractionProblem& problem, const Target& target, const GemmSm90Config& c,
                 const Counts& counts) {
  constexpr i64 kLine = 128;
  const double rows = static_cast<double>(problem.size.batch) *
                      static_cast<double>(problem.size.m + problem.size.n);
  const double bytes =
      rows * static_cast<double>(c.total_k()) * static_cast<double>(c.space.element_bytes());
  return counts.persistent && counts.units_per_sm <= 1 &&
         bytes <= static_cast<double>(target.l2_bytes) && c.ragged.kind == Ragged::kNone &&
         row_pitch(problem.a[0].memory, c) % kLine == 0 &&
         row_pitch(problem.b[0].memory, c) % kLine == 0;
}

// Clocks in which an SM takes a k-tile from L2 at its share of the rate of all SMs. Multicast does
// not make it faster (RESULTS model-14, -17). CTAs in lockstep are slower in clusters (RESULTS
// model-16). It counts for persistent CTAs, and for CTAs that share an SM (RESULTS model-20); a
// one-tile CTA with an SM to itself is a weight stream, whose limit is DRAM.
double ingest_clocks(const GemmSm90Config& c, const Target& target, bool lockstep) {
  constexpr double kAll = 1.02, kMClusters = 0.95, kNClusters = 0.88;
  const double part = rates_of(target).l2 / (target.sm_count * target.clock_ghz * 1e3);
  const double share = !lockstep || c.cluster_ctas() == 1 ? kAll
                       : c.schedule.cluster_n > 1         ? kNClusters
                                                          : kMClusters;
  return c.stage_bytes() / (share * part);
}

// Clocks in which TMA starts the boxes of a k-tile: many small ones, of tiles that end far past the
// matrix, take longer than their bytes (RESULTS model-14).
double box_clocks(const GemmSm90Config& c) {
  constexpr double kClocksPerBox = 38;
  constexpr i32 kRowsOfLines = 64;  // of a box along the free dimension
  const auto boxes = [](const Sm90Operand& operand, i32 rows, i32 box_rows) {
    if (operand.by_cp_async) return 0;
    return rows / (operand.k_major ? box_rows : kRowsOfLines);
  };
  // The CTA with most rows of B sets the time of its cluster.
  const i32 rows_of_b =
      c.has_equal_parts_b()
          ? c.tile.block_n / c.schedule.cluster_m
          : ceil_div(c.tile.block_n / c.box_rows_b(), c.schedule.cluster_m) * c.box_rows_b();
  return kClocksPerBox * (boxes(c.a, c.a_box_rows() / c.schedule.cluster_n, c.box_rows_a()) +
                          c.num_accumulators() * boxes(c.b, rows_of_b, c.box_rows_b()));
}

// The time that sums of squares of the rows of A add, in passes over 16 rows: waits at the start
// and the end of a CTA, and reads of shared memory in each k-tile, which delay those of its MMAs
// (RESULTS sm90-158).
double squares_us(const GemmSm90Config& c, const Target& target, double k_tiles) {
  constexpr double kWait = 0.32, kWaitOfPass = 0.23;  // latencies
  constexpr double kClocks = 2.4;                     // of a pass in a k-tile
  constexpr i32 kRows = 16;
  if (!c.row_squares) return 0;
  // CTAs that share an SM also share its issue slots.
  const double passes =
      ceil_div(std::min(c.a_box_rows(), c.warpgroup_m()), kRows) * c.schedule.ctas_per_sm;
  return (kWait + kWaitOfPass * passes) * rates_of(target).latency_us +
         kClocks * passes * k_tiles / (target.clock_ghz * 1e3);
}

// Accumulators of a unit as its epilogue's time counts them, in those of a kernel without
// persistent CTAs. A subtile that ends past the tile takes as long as others. One warpgroup hides
// fewer waits than two; subtiles of 32 columns have twice the waits; columns of transposed products
// have a barrier for each subtile (RESULTS model-14). An epilogue that loads beside more than 160
// accumulators takes longer, unrolled or not (RESULTS sm90-154).
double counted_accumulators(const ContractionProblem& problem, const GemmSm90Config& c) {
  constexpr double kPersistent = 0.74, kOneWarpgroup = 1.2, kNarrow = 1.4, kTransposed = 1.5,
                   kWithLoads = 1.9;
  i64 columns = c.tile.block_n;
  if (c.epilogue.in_registers) columns = ceil_div(columns, c.subtile_n()) * c.subtile_n();
  double accumulators = static_cast<double>(c.tile.block_m * columns * c.num_accumulators());
  if (c.schedule.cluster_k != 0) return accumulators;
  accumulators *= kPersistent;
  if (c.schedule.ping_pong) accumulators *= kOneWarpgroup;
  if (c.num_accumulators() == 1 && c.subtile_n() == 32) accumulators *= kNarrow;
  if (problem.transposed && c.schedule.split_k == 1) accumulators *= kTransposed;
  const bool loads = llvm::any_of(problem.program, [](const ProgramLine& line) {
    return line.kind == ProgramLine::Kind::kLoad;
  });
  if (c.accumulator_registers() > 160 && loads) accumulators *= kWithLoads;
  // A pass over the columns computes terms, copies no accumulators and stores nothing.
  constexpr double kPass = 0.4;
  return accumulators * (1 + kPass * problem.reduction_passes);
}

}  // namespace

i64 gemm_sm90_output_tiles(const ContractionProblem& problem, const GemmSm90Config& c) {
  return static_cast<i64>(output_tiles(problem, c));
}

Prediction predict_gemm_sm90(const ContractionProblem& problem, const Target& target,
                             const GemmSm90Config& c) {
  const double cluster_k = std::max(c.schedule.cluster_k, 1);
  Counts counts;
  counts.units = output_tiles(problem, c) * cluster_k;
  counts.resident = c.schedule.ctas_per_sm;
  counts.persistent = c.schedule.cluster_k == 0;
  const i64 clustered_sms =
      target.ctas_at_once(c.cluster_ctas(), c.schedule.ctas_per_sm) / c.schedule.ctas_per_sm;
  counts.units_per_sm = std::ceil(counts.units / static_cast<double>(clustered_sms));
  if (counts.persistent && !problem.parts.empty()) {
    const auto tiles = part_tiles(problem, c);
    counts.units =
        static_cast<double>(std::accumulate(tiles.begin(), tiles.end(), i64{0})) * c.cluster_ctas();
    counts.units_per_sm =
        static_cast<double>(persistent_rounds(tiles, clustered_sms / c.cluster_ctas()));
  }
  // The last MMAs of a slice are waited for, which takes about a k-tile.
  counts.k_tiles = std::max<double>(ceil_div(problem.k_tiles(c.block_k()), c.k_slices()), 1) +
                   (c.schedule.sum_slices - 1);
  counts.stages = c.tile.stages;
  counts.round_us = squares_us(c, target, counts.k_tiles);
  counts.mma_flop = 2.0 * c.tile.block_m * c.tile.block_n * c.block_k() * c.num_accumulators();
  counts.smem_clocks = smem_clocks(c);
  counts.issue_clocks = promotion_clocks(c);
  const bool lockstep = in_lockstep(problem, target, c, counts);
  if (counts.persistent || counts.resident > 1) {
    counts.issue_clocks =
        std::max({counts.issue_clocks, ingest_clocks(c, target, lockstep), box_clocks(c)});
  }
  // What leaves L2. CTAs of a cluster share multicast tiles (RESULTS model-14), CTAs in lockstep
  // share requests (RESULTS model-16).
  counts.l2_bytes = c.tile_a_bytes() * pitch_share(problem.a[0].memory, c) / c.schedule.cluster_n +
                    c.num_accumulators() * c.tile_b_bytes() * pitch_share(problem.b[0].memory, c) /
                        c.schedule.cluster_m;
  constexpr double kJoined = 0.6;
  if (lockstep && c.cluster_ctas() == 1) counts.l2_bytes *= kJoined;
  // Neighbouring CTAs have unlike K: they share fewer requests to L2 (RESULTS sm90-146). Those of
  // one row tile share no B.
  constexpr double kUnlikeK = 1.15;
  const bool shares_b = problem.size.m > c.cluster_tile_m();
  if (c.schedule.cluster_k > 1 && c.schedule.ctas_per_sm == 1 && shares_b) {
    counts.l2_bytes *= kUnlikeK;
  }
  counts.accumulators = counted_accumulators(problem, c);
  counts.epilogue_waits = epilogue_waits(problem, c);
  counts.ping_pong = c.schedule.ping_pong;
  // An N cluster waits for two tiles of W, which come from DRAM (RESULTS model-7).
  counts.cluster_waits = c.schedule.cluster_n > 1 ? 2 : c.schedule.cluster_m > 1 ? 1 : 0;
  counts.early_weights =
      c.schedule.cluster_k != 0 && c.schedule.ctas_per_sm == 1 && problem.b[0].weight;
  counts.math_share = math_tflops(target, c.space.math) / target.tensor_tflops;
  if (c.schedule.cluster_k > 1) {
    const i64 rows = std::min<i64>(c.tile.block_m, ceil_div(problem.size.m, 8) * 8);
    // Where an SM has one CTA, no other one computes during its exchange (RESULTS model-7, -17).
    const double exposed = c.schedule.ctas_per_sm == 1 ? 1.5 : 1;
    counts.exchange_bytes = exposed * static_cast<double>(rows) * c.tile.block_n *
                            c.num_accumulators() * 4 * (cluster_k - 1) / cluster_k;
  }
  if (c.schedule.split_k > 1) {
    counts.partial_bytes = 8.0 * c.schedule.split_k * c.num_accumulators() * problem.size.batch *
                           problem.size.m * problem.size.n;
  }
  return predict(counts, target, problem.bytes(), problem.flops(),
                 math_tflops(target, c.space.math), problem.size.epilogue_flops);
}

}  // namespace catenary
