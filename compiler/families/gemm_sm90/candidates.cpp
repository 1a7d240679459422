// SPDX-License-Identifier: Apache-2.0
// The candidate list and what each candidate needs of a target.
#include "compiler/families/gemm_sm90/candidates.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"

#include "compiler/families/gemm_sm90/cost.h"
#include "ir/counted.h"

namespace catenary {
namespace {

constexpr i64 kMaxBlockM = 256;

constexpr int kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16};

constexpr int kMinStages = 2;
constexpr int kMaxStages = 20;           // of CTAs with one tile each
constexpr int kMaxPersistentStages = 8;  // K tails are counted in 8 bits per stage (u64)

// Shared memory that the hardware keeps of each CTA (CUDA C++ Programming Guide, compute capability
// 9.0).
constexpr i64 kReservedSmem = 1024;

i64 smem_limit(const Target& target, const GemmSm90Config& c) {
  return c.schedule.ctas_per_sm == 1 ? target.smem_per_cta
                                     : target.smem_per_sm / c.schedule.ctas_per_sm - kReservedSmem;
}

// Why the CTAs of a cluster cannot load equal parts of a tile in TMA boxes; empty: they can.
std::string reject_boxes(const GemmSm90Config& c) {
  const i32 block_n = c.tile.block_n;
  const i32 cluster_m = c.schedule.cluster_m;
  const i32 cluster_n = c.schedule.cluster_n;
  // The load warps of M-grouped kernels have no registers for boxes in turns.
  const bool in_turns = c.b.k_major && block_n % 8 == 0 && c.ragged.kind == Ragged::kNone;
  if (!c.has_equal_parts_b() && !in_turns) {
    return fmt::format("has block_n {}, no multiple of 8 for each of {} CTAs", block_n, cluster_m);
  }
  if (!c.b.k_major && block_n % (64 * cluster_m) != 0) {
    return fmt::format("has block_n {}, and TMA boxes of an N-major B have 64 columns", block_n);
  }
  if (c.a_box_rows() % (8 * cluster_n) != 0) {
    return fmt::format("has {} rows, no multiple of 8 for each of {} CTAs", c.a_box_rows(),
                       cluster_n);
  }
  if (!c.a.k_major && c.tile.block_m % (64 * cluster_n) != 0) {
    return fmt::format("has block_m {}, and TMA boxes of an M-major A have 64 rows",
                       c.tile.block_m);
  }
  return "";
}

// Why the blocks of row reductions are not whole subtiles of one tile; empty: they are, or there
// are none.
std::string reject_blocks(const GemmSm90Config& c) {
  const i32 columns = c.epilogue.reduced_columns;
  if (columns == 1) return "";
  if (c.schedule.cluster_k != 0) return "has one tile per CTA, whose epilogue reduces no rows";
  const i32 subtile = c.subtile_n();
  const bool one_block = c.space.n.size == columns;
  const i32 subtiles = ceil_div(c.tile.block_n, subtile);
  const bool whole = one_block ? columns <= c.tile.block_n
                               : columns % subtile == 0 && c.tile.block_n % columns == 0;
  if (whole && subtiles % ceil_div(columns, subtile) == 0) return "";
  return fmt::format(
      "has block_n {} in subtiles of {}, which do not hold whole blocks of {} columns",
      c.tile.block_n, subtile, columns);
}

// A predicate whose subject is the candidate; empty: the target can run it.
std::string reject(const Target& target, const GemmSm90Config& c) {
  const i32 block_n = c.tile.block_n;
  if (c.tile.stages < kMinStages || c.tile.stages > kMaxStages ||
      c.smem_bytes() > smem_limit(target, c)) {
    return fmt::format("needs {} bytes of shared memory, {} has {} per CTA", c.smem_bytes(),
                       target.name, smem_limit(target, c));
  }
  if (c.accumulator_registers() > 192)
    return fmt::format("needs {} accumulators", c.accumulator_registers());
  // More leave a long epilogue too few registers.
  constexpr i32 kMostOfPingPong = 176;
  if (c.schedule.ping_pong && c.accumulator_registers() > kMostOfPingPong) {
    return fmt::format("has ping-pong warpgroups with {} accumulators", c.accumulator_registers());
  }
  if (c.adds_partials() && c.mainloop_registers() > c.most_mainloop_registers()) {
    return fmt::format("needs {} accumulators and sums of a part of K", c.mainloop_registers());
  }
  if (const i32 blocks = c.scale_blocks().most; c.block_scaled && blocks > 2) {
    return fmt::format("has columns of {} blocks of {} that share scales, the limit is 2", blocks,
                       c.scale_b.rows);
  }
  if (c.block_scaled && c.schedule.cluster_m * c.schedule.cluster_n > 2) {
    return "has more than two CTAs in a cluster, which leaves no registers for scales per block";
  }
  if (c.schedule.consumers == 3) {
    // ptxas gives no instruction more registers than the kernel starts with: 128 (C7602). Group
    // tables of a dual GEMM take some.
    const i32 most = c.dual && c.ragged.kind == Ragged::kMGrouped ? 80 : 96;
    if (c.accumulator_registers() > most) {
      return fmt::format("has three mma warpgroups with {} accumulators",
                         c.accumulator_registers());
    }
    if (!c.epilogue.in_registers || c.epilogue.matrices > 0 || c.uses_cp_async()) {
      return "has three mma warpgroups, which have no registers for this epilogue or these loads";
    }
  }
  if (c.row_squares && c.schedule.cluster_k == 0) {
    return "has persistent CTAs, which sum no squares of rows";
  }
  if (c.row_squares && c.warpgroup_m() != 64) {
    return fmt::format("has mma warpgroups with {} rows, which sum no squares", c.warpgroup_m());
  }
  if (c.schedule.cluster_k != 0 && c.ragged.kind != Ragged::kNone) {
    return "has one tile per CTA, and no scheduler of ragged groups";
  }
  if (c.schedule.cluster_k != 0 && c.epilogue.column_sums > 0) {
    return fmt::format("has one tile per CTA, whose epilogue does not sum {} rows", kSummedRows);
  }
  if (c.uses_cp_async() && c.schedule.cluster_m * c.schedule.cluster_n > 1) {
    return "has clusters, which do not share cp.async fallback loads";
  }
  if (c.uses_cp_async() && c.zero_fills_k_tails() && c.tile.stages > kMaxPersistentStages) {
    return fmt::format("has {} stages, with K tails and cp.async fallback loads the limit is {}",
                       c.tile.stages, kMaxPersistentStages);
  }
  const int columns =
      c.epilogue.in_registers || c.schedule.cluster_k != 0 ? 8 : 64 / c.num_accumulators();
  if (block_n % columns != 0) {
    return fmt::format("has block_n {}, no multiple of the epilogue's {} columns", block_n,
                       columns);
  }
  if (std::string blocks = reject_blocks(c); !blocks.empty()) return blocks;
  return reject_boxes(c);
}

// The number after the last `letter` of a tile's name; `otherwise`: there is none.
int number_after(const std::string& name, char letter, int otherwise) {
  const size_t at = name.rfind(letter);
  int number = otherwise;
  if (at != std::string::npos) llvm::StringRef(name).substr(at + 1).consumeInteger(10, number);
  return number;
}

// The number of k-slices that a persistent CTA sums separately. The order of sums, or the name of a
// forced tile, says it.
int sum_slices(const ContractionProblem& problem, const TileRequest& request,
               const GemmSm90Config& base) {
  const int slices = request.tile.empty() ? request.sum_slices : number_after(request.tile, 'z', 1);
  const bool can = base.ragged.kind == Ragged::kNone && !base.promotes() &&
                   slices <= problem.k_tiles(base.block_k());
  return can ? std::max(slices, 1) : 1;
}

bool wanted_split(const ContractionProblem& problem, const Target& target, const GemmSm90Config& c,
                  int split, const TileRequest& request) {
  if (request.split_k > 0) return split == request.split_k;
  if (split == 1 || c.schedule.cluster_k != 0 || c.schedule.sum_slices > 1) return split == 1;
  const i64 steps = problem.k_tiles(c.block_k());
  return c.ragged.kind == Ragged::kNone && c.space.m.scale == 0 && c.space.n.scale == 0 &&
         gemm_sm90_output_tiles(problem, c) * split <= 2 * target.sm_count && steps >= 4 * split;
}

// kSplits, and the factors that fill one or two waves.
llvm::SmallVector<int, 10> split_factors(const ContractionProblem& problem, const Target& target,
                                         const GemmSm90Config& c) {
  constexpr i64 kMostSplits = 16;
  llvm::SmallVector<int, 10> factors(std::begin(kSplits), std::end(kSplits));
  const i64 tiles = std::max<i64>(gemm_sm90_output_tiles(problem, c), 1);
  const i64 sms = target.ctas_at_once(c.cluster_ctas(), 1);
  for (const i64 waves : {1, 2}) {
    const int factor = static_cast<int>(waves * sms / tiles);
    if (factor > 1 && factor <= kMostSplits && !llvm::is_contained(factors, factor)) {
      factors.push_back(factor);
    }
  }
  return factors;
}

// Row tiles of a band. Requests of a GPC's SMs for the same lines at about the same time leave L2
// once, and an H200 places 16 neighbouring CTAs in a GPC: 4 x 4 tiles share more lines, and fewer
// pages of A and D, than 8 x 2. But each band sweeps B: what does not stay in L2 is read half as
// often by bands of 8 (RESULTS sm90-126).
//
// A cluster of two multicasts one operand and asks for two tiles of the other. Neighbouring
// clusters share those: M clusters in bands of two go along N, N clusters along M, where what each
// band reads again stays in L2 (RESULTS sm90-149).
i32 choose_swizzle(const GemmSm90Config& c, const Target& target) {
  const GemmSm90Schedule& s = c.schedule;
  if (c.ragged.kind == Ragged::kKGrouped && s.cluster_m > 1) return kSquareSwizzle;
  if (s.cluster_k != 0 || c.ragged.kind != Ragged::kNone) return kWideSwizzle;
  const i64 tiles_m = ceil_div(c.space.m.size, c.cluster_tile_m());
  const i64 tiles_n = ceil_div(c.space.n.size, c.cluster_tile_n());
  const i64 row_bytes = c.total_k() * c.space.element_bytes();
  const bool a_stays = c.space.m.size * row_bytes <= target.l2_bytes / 3;
  const bool b_stays = c.space.n.size * c.num_accumulators() * row_bytes <= target.l2_bytes / 3;
  if (s.cluster_m == 2 && s.cluster_n == 1) return b_stays ? kPairSwizzle : kWideSwizzle;
  if (s.cluster_m == 1 && s.cluster_n == 2 && c.space.m.scale == 0 && a_stays)
    return static_cast<i32>(std::max<i64>(tiles_m, 1));
  // With few tiles, or few along M or N, there are no blocks to choose.
  constexpr i64 kMinAlong = 8;
  constexpr i64 kMinWaves = 2;
  if (s.cluster_m > 1 || std::min(tiles_m, tiles_n) < kMinAlong) return kWideSwizzle;
  i64 tiles = tiles_m * tiles_n * s.cluster_n;
  for (const Extent& extent : c.space.batch.at) tiles *= extent.size;
  return tiles >= kMinWaves * target.sm_count && b_stays ? kSquareSwizzle : kWideSwizzle;
}

// Which operands take cp.async fallback loads, of how many bytes each.
std::string fallback_text(const GemmSm90Config& c) {
  std::string text;
  const auto add = [&](const char* name, const Sm90Operand& matrix) {
    if (matrix.by_cp_async)
      text += fmt::format(", {} by cp.async of {}", name, matrix.memory.copy_bytes);
  };
  add("A", c.a);
  add("B", c.b);
  if (c.dual) add("B2", c.b2);
  return text.empty() ? "" : text + " bytes";
}

std::string describe(const GemmSm90Config& c, bool transposed) {
  const GemmSm90Schedule& s = c.schedule;
  std::string clusters;
  if (s.cluster_m > 1 && s.cluster_n > 1) {
    clusters = fmt::format(", clusters of {} x {}", s.cluster_m, s.cluster_n);
  } else if (s.cluster_m > 1) {
    clusters = fmt::format(", M clusters of {}", s.cluster_m);
  } else if (s.cluster_n > 1) {
    clusters = fmt::format(", N clusters of {}", s.cluster_n);
  }
  if (s.cluster_k > 1) clusters += fmt::format(", cluster split-K {}", s.cluster_k);
  if (s.sum_slices > 1) clusters += fmt::format(", sums of {} k-slices", s.sum_slices);
  if (s.cluster_k > 0) clusters += s.ctas_per_sm > 1 ? ", 2 CTAs per SM" : ", 1 CTA per SM";
  return fmt::format(
      "tile {}x{}x{}{}, {}, {}{}, {} KiB shared{}{}{}", c.tile.block_m, c.tile.block_n, c.block_k(),
      transposed ? " of the transposed product" : "",
      counted(s.consumers, s.ping_pong ? "ping-pong warpgroup" : "cooperative warpgroup"),
      counted(c.tile.stages, "stage"), clusters, c.smem_bytes() / 1024,
      s.split_k > 1 ? fmt::format(", split-K {}", s.split_k) : "", fallback_text(c),
      c.segments > 1 ? fmt::format(", {} K segments", c.segments) : "");
}

void fit_stages(GemmSm90Config& c, const Target& target) {
  c.tile.stages = 0;
  const bool persistent = c.schedule.cluster_k == 0;
  const i64 fixed =
      persistent ? c.smem_bytes() : 64 + i64{c.schedule.cluster_k - 1} * c.partials_bytes();
  const i64 most = persistent ? kMaxPersistentStages : kMaxStages;
  const i64 stages = (smem_limit(target, c) - fixed) / (c.stage_bytes() + 8 * c.stage_barriers());
  c.tile.stages = static_cast<i32>(std::clamp<i64>(stages, 0, most));
}

}  // namespace

GemmSm90Config with_shape(const GemmSm90Config& base, const GemmSm90Shape& shape,
                          const Target& target) {
  GemmSm90Config c = base;
  GemmSm90Tile& tile = c.tile;
  GemmSm90Schedule& schedule = c.schedule;
  tile.block_m = shape.block_m;
  tile.block_n = base.dual ? shape.block_n / 2 : shape.block_n;
  schedule.consumers = shape.consumers;
  schedule.ping_pong = shape.ping_pong;
  schedule.cluster_m = shape.cluster_m;
  schedule.cluster_n = shape.cluster_n;
  schedule.cluster_k = shape.cluster_k;
  schedule.ctas_per_sm = shape.ctas_per_sm;
  schedule.tile_swizzle = choose_swizzle(c, target);
  // Boxes of A along M are lines of 64 rows either way.
  if (tile.a_rows != 0) {
    tile.a_rows = std::max(tile.a_rows, tile.block_m - c.num_accumulators() * tile.block_n);
  }
  const bool whole_rows = !c.a.k_major || c.ragged.kind != Ragged::kNone || schedule.cluster_n > 1;
  if (whole_rows || tile.a_rows >= tile.block_m) tile.a_rows = 0;
  // More threads add the sums where each takes fewer columns.
  if (schedule.cluster_k != 0) {
    c.epilogue.in_registers = false;
    c.epilogue.matrices = 0;
    c.epilogue.vec = 4;
  }
  fit_stages(c, target);
  return c;
}

void fit_persistent(GemmSm90Config& config, const Target& target) {
  config.schedule.tile_swizzle = choose_swizzle(config, target);
  fit_stages(config, target);
}

std::string tile_name(const GemmSm90Config& c, bool transposed) {
  const GemmSm90Schedule& s = c.schedule;
  return fmt::format("{}x{}x{}{}{}s{}{}{}{}{}{}{}", c.tile.block_m, c.tile.block_n, c.block_k(),
                     s.ping_pong ? "p" : "g", s.consumers, c.tile.stages,
                     s.cluster_m > 1 ? fmt::format("c{}", s.cluster_m) : "",
                     s.cluster_n > 1 ? fmt::format("n{}", s.cluster_n) : "",
                     s.cluster_k > 0 ? fmt::format("k{}", s.cluster_k) : "",
                     s.cluster_k > 0 && s.ctas_per_sm == 1 ? "w" : "",
                     s.sum_slices > 1 ? fmt::format("z{}", s.sum_slices) : "",
                     transposed ? "t" : "");
}

Candidate gemm_sm90_candidate(const GemmSm90Config& config, const ContractionProblem& problem,
                              const Target& target) {
  Candidate candidate;
  candidate.id = {"gemm_sm90", tile_name(config, problem.transposed), config.schedule.split_k};
  candidate.config = config;
  candidate.min_ctas = config.schedule.ctas_per_sm;
  candidate.predicted = predict_gemm_sm90(problem, target, config);
  candidate.text = describe(config, problem.transposed);
  candidate.rejected = reject(target, config);
  // A batch-invariant order is that of D's own rows: transposed MMAs are not proven to give its
  // bits.
  // The order of the sums of squares depends on the tile.
  if (config.schedule.split_k == 1 && !problem.transposed && !config.row_squares) {
    candidate.sums = {SumOrder::Kind::kAscendingWgmma,
                      config.k_slices() * config.schedule.sum_slices};
  }
  return candidate;
}

std::vector<Candidate> gemm_sm90_candidates(const GemmSm90Config& base,
                                            const ContractionProblem& problem, const Target& target,
                                            const TileRequest& request) {
  std::vector<Candidate> candidates;
  const auto add = [&](GemmSm90Config config, int split) {
    if (!request.tile.empty() && tile_name(config, problem.transposed) != request.tile) return;
    if (!wanted_split(problem, target, config, split, request)) return;
    config.schedule.split_k = split;
    // A split kernel stores its sums only: the reduction reads the epilogue's operands.
    if (split > 1 && config.epilogue.matrices > 0) {
      config.epilogue.matrices = 0;
      fit_stages(config, target);
    }
    candidates.push_back(gemm_sm90_candidate(config, problem, target));
  };
  const int slices = sum_slices(problem, request, base);
  GemmSm90Config few = base;
  few.tile.a_rows =
      static_cast<i32>(std::clamp<i64>(ceil_div(problem.size.m, 8) * 8, 8, kMaxBlockM));
  for (const GemmSm90Shape& shape :
       gemm_sm90_shapes_of(base, problem, target, !request.tile.empty())) {
    GemmSm90Config whole = with_shape(few, shape, target);
    whole.tile.stages = number_after(request.tile, 's', whole.tile.stages);
    if (shape.cluster_k == 0) whole.schedule.sum_slices = slices;
    for (const int split : split_factors(problem, target, whole)) add(whole, split);
  }
  return candidates;
}

}  // namespace catenary
