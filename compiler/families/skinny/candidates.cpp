// SPDX-License-Identifier: Apache-2.0
// The candidate list, and what each needs of a target.
#include "compiler/families/skinny/candidates.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>
#include <optional>

#include "compiler/families/skinny/cost.h"
#include "ir/counted.h"

namespace catenary {
namespace {

struct Shape {
  int warps_k, warps_n, row_tiles = 1, cluster_k = 1, n_slices = 0;
};
constexpr Shape kShapes[] = {{16, 1},      {8, 1},        {8, 2},       {4, 1},       {4, 4},
                             {4, 2},       {16, 1, 1, 2}, {8, 1, 1, 2}, {8, 1, 1, 4}, {8, 1, 1, 8},
                             {8, 1, 2, 1}, {8, 1, 2, 2},  {8, 1, 2, 4}};
constexpr int kSplits[] = {1, 2, 4, 8};

// The most K blocks of one warp, in shared memory or in registers; fewer fit.
constexpr int kMostBlocks = 64;

// The most row tiles of a warp: accumulators are registers.
constexpr int kMostRowTiles = 8;

// CTAs of a cluster, on every GPU that has clusters.
constexpr int kMostCluster = 8;

// 16 warps leave 64 registers each: enough for four rows of X, not for eight (RESULTS skinny-115).
constexpr i64 kMostRowsOf16Warps = 4;

// Shared memory that a CTA takes beside its own.
constexpr i64 kReservedSmem = 1024;

// Do all warps have equally many whole blocks?
bool warps_are_alike(const SkinnyConfig& c) {
  return c.k_chunks() % (i64{8} * c.k_slices() * c.tile.warps_k) == 0;
}

// Those of the sums of squares (kernels/row_squares.cuh).
int squares_registers(const SkinnyConfig& c) {
  const int tiles = c.tile.columns / 8;
  if (!c.row_squares) return 0;
  return c.squares_by_mma() ? std::max(tiles, 2) * 4 : tiles + 4;
}

// What registers hold beside X, W and sums: addresses, the epilogue's operands (measured: 20 to
// 26). More where warps have unlike counts of blocks and over eight rows of X: 8 x 1 warps with 16
// rows spilled 32 bytes at 78 registers. More over chunks of 16 ragged rows: 8 x 1 warps spilled
// 132 bytes at 80 registers and none at 128, 4 x 1 warps with six blocks 8 bytes at 128. More with
// a gain and cp.async: 8 x 1 warps with a norm spilled 12 bytes at 128 registers.
int estimated_registers(const SkinnyConfig& c) {
  const int tiles = c.tile.columns / 8;
  const int part = static_cast<int>(ceil_div(c.warp_blocks(), c.loads.x_chunks));
  const int rest = warps_are_alike(c) || c.tile.columns == 8 ? 24 : 32;
  const bool chunked = c.ragged.kind != Ragged::kNone && tiles > 1;
  const int chunks = !chunked ? 0 : c.threads() > 128 ? 32 : 52;
  const int squares = squares_registers(c);
  const int both = c.row_squares && tiles > 1 ? 8 : 0;  // a gain beside squares
  const int gain = c.gain.used ? part * 8 + (c.loads.bulk ? 0 : 16) + both : 0;
  // The rows of a chunk as they are in memory become X one after another; vectors and values of the
  // program for two blocks.
  const int formed = !c.formed.used ? 0
                                    : 52 + (c.formed.sums + c.formed.rows) * tiles +
                                          part * c.loads.x_columns * (c.x_words() / 4 - 1);
  return rest + chunks + squares + gain + formed + part * c.loads.x_columns +
         c.tile.row_tiles * (c.loads.register_blocks * 16 + tiles * 4);
}

// Columns of X that registers hold at one time where X has more than kSkinnyRows.
constexpr i32 kColumnsAtATime = 16;

// Half of the ragged groups have more rows than the mean, and a second chunk waits for its X again.
i32 columns_of(const SkinnyProblem& problem) {
  const bool ragged = problem.base.ragged.kind != Ragged::kNone;
  if (!ragged && problem.m > kSkinnyRows)
    return static_cast<i32>(ceil_div(problem.m, kColumnsAtATime) * kColumnsAtATime);
  const i64 columns = ceil_div(ragged ? 2 * problem.m : problem.m, 8) * 8;
  return static_cast<i32>(std::clamp<i64>(columns, 8, ragged ? kSkinnyRaggedRows : kSkinnyRows));
}

// CTAs per SM, at least two so that one streams while another ends; 0: W does not fit. Registers or
// shared memory run out before the threads of an SM do (1536 on some GPUs).
int resident_ctas(const Target& target, const SkinnyConfig& c) {
  const i64 by_smem = target.smem_per_sm / (c.smem_bytes() + kReservedSmem);
  const i64 by_registers = 65536 / (i64{c.threads()} * estimated_registers(c));
  const i64 ctas = std::min({by_smem, by_registers, i64{4}});
  return ctas >= 2 && estimated_registers(c) <= 255 ? static_cast<int>(ctas) : 0;
}

// Loads by cp.async.bulk, which complete on mbarriers, need sm_90; only sm_90 has been measured.
bool copies_in_bulk(const Target& target) { return target.compute_capability() == 90; }

// The most shared blocks of a warp with which two CTAs fit an SM.
i64 most_shared_blocks(const Target& target, const SkinnyConfig& c) {
  const i64 slice = (target.smem_per_sm / 2 - kReservedSmem) / (c.tile.warps_k * c.tile.warps_n);
  return std::max<i64>((slice / c.slice_rows() - 16) / 128, 0);
}

// Elsewhere shared memory is less on most GPUs: what does not fit waits in registers, and X comes
// in smaller parts if those are short. No copy waits for another: a group is what a part of X
// reads. Not measured.
void fit_async(const Target& target, SkinnyConfig& c) {
  SkinnyLoads& loads = c.loads;
  const i32 most = c.warp_blocks();
  loads.bulk = false;
  loads.shared_blocks =
      static_cast<i32>(std::min<i64>(loads.shared_blocks, most_shared_blocks(target, c)));
  loads.register_blocks = std::min(most - loads.shared_blocks, kMostBlocks);
  while (loads.x_chunks < c.warp_blocks() && resident_ctas(target, c) == 0) {
    loads.x_chunks = std::min(c.warp_blocks(), loads.x_chunks * 2);
  }
  const i64 part = ceil_div(most, loads.x_chunks);
  loads.copy_groups = static_cast<i32>(std::max<i64>(ceil_div(loads.shared_blocks, part), 1));
}

// A chunk of X is more registers with its gain: blocks of W that do not fit beside both wait in
// shared memory. Not measured.
void fit_gain(const Target& target, SkinnyConfig& c) {
  while (c.gain.used && c.loads.register_blocks > 1 && resident_ctas(target, c) == 0) {
    --c.loads.register_blocks;
    ++c.loads.shared_blocks;
  }
}

// Rows that stay in registers need not be loaded again for each pass. With 128 registers of rows,
// kernels spilled on sm_80.
void fit_formed(const Target& target, SkinnyConfig& c) {
  constexpr i32 kMostHeld = 96;
  if (!c.formed.used) return;
  SkinnyConfig held = c;
  held.loads.x_chunks = 1;
  while (held.loads.register_blocks > 1 && resident_ctas(target, held) == 0) {
    --held.loads.register_blocks;
    ++held.loads.shared_blocks;
  }
  const i32 registers = c.warp_blocks() * c.loads.x_columns * c.x_words() / 4;
  if (registers <= kMostHeld && resident_ctas(target, held) > 0) {
    c = held;
    return;
  }
  while (c.loads.x_chunks < c.warp_blocks() && resident_ctas(target, c) == 0) {
    if (c.loads.register_blocks > 1) {
      --c.loads.register_blocks;
      ++c.loads.shared_blocks;
    } else {
      c.loads.x_chunks = std::min(c.warp_blocks(), c.loads.x_chunks * 2);
    }
  }
}

// A vector of D for each thread, and at least one for each slice of N.
void fit_vectors(SkinnyConfig& c) {
  const auto fit_slices = [&] {
    c.schedule.n_slices = static_cast<i32>(std::min<i64>(c.schedule.n_slices, c.n_vectors()));
  };
  fit_slices();
  while (c.vectors() > c.threads() && c.vec < 8) {
    c.vec *= 2;
    fit_slices();
  }
}

// As many row tiles as the rows of a slice of N take.
void fit_row_tiles(SkinnyConfig& c) {
  if (c.schedule.n_slices == 0) return;
  c.tile.row_tiles = static_cast<i32>(ceil_div(i64{c.rows()} * c.num_accumulators(), 16));
}

// The config of a shape; nothing: a warp's slice of K has more blocks than the template can hold.
std::optional<SkinnyConfig> shaped(const SkinnyProblem& problem, const Target& target, Shape shape,
                                   int split) {
  SkinnyConfig c = problem.base;
  SkinnyTile& tile = c.tile;
  SkinnyLoads& loads = c.loads;
  tile.warps_k = shape.warps_k;
  tile.warps_n = shape.warps_n;
  tile.row_tiles = shape.row_tiles;
  c.schedule = {.split_k = split, .cluster_k = shape.cluster_k, .n_slices = shape.n_slices};
  tile.columns = columns_of(problem);
  loads.x_columns = tile.columns > kSkinnyRows ? kColumnsAtATime : tile.columns;
  fit_vectors(c);
  fit_row_tiles(c);
  const i64 most = ceil_div(c.most_slice_blocks(), tile.warps_k);
  if (most > 2 * kMostBlocks) return std::nullopt;
  // Registers are free until X arrives, and what they hold leaves L1 to X: of 16 rows, with a
  // second or third block of eight in them, 6.5 and 5.6 us (K=4096 N=2048, overlapped).
  // Over ragged rows the third spilled.
  const bool two = most < 4 || tile.columns != 16 || c.ragged.kind != Ragged::kNone;
  const i64 registers = shape.warps_k == 16 || tile.row_tiles > 1 ? 1 : two ? 2 : 3;
  loads.register_blocks = static_cast<i32>(std::min(most, registers));
  loads.shared_blocks = static_cast<i32>(most) - loads.register_blocks;
  const bool many = tile.columns > (tile.row_tiles > 1 ? 16 : 8);
  const i64 part = many ? 1 : shape.warps_k == 16 || tile.row_tiles > 1 ? 2 : 4;
  loads.x_chunks = static_cast<i32>(ceil_div(most, part));
  fit_gain(target, c);
  fit_formed(target, c);
  // The same case, us: 4 rows 4.18 with two groups, 4.44 with four; 8 rows 4.85 and 4.48; one group
  // 4.55 with one row, where two are 4.01.
  // Few bytes need no pacing, and a group's wait is a latency (N=K=512, 8 rows, plain: 3.9 us).
  loads.copy_groups = loads.shared_blocks < 3 ? 1 : problem.m <= 4 ? 2 : 4;
  if (!copies_in_bulk(target)) fit_async(target, c);
  return c;
}

// Clusters of CTAs that share K, instead of kernels that split it.
bool shares_k(const SkinnyProblem& problem, const Target& target, int split) {
  return copies_in_bulk(target) && split == 1 && problem.base.ragged.kind == Ragged::kNone;
}

// The suffix "x8t2c4n66" of a name: x_columns, row_tiles, cluster_k and n_slices, where not the
// default. Row tiles follow from slices of N.
bool read_suffix(llvm::StringRef text, SkinnyConfig& c) {
  const auto take = [&](char letter, i32& value) {
    if (!text.startswith(llvm::StringRef(&letter, 1))) return true;
    text = text.drop_front();
    return !text.consumeInteger(10, value);
  };
  return take('x', c.loads.x_columns) && take('t', c.tile.row_tiles) &&
         take('c', c.schedule.cluster_k) && take('n', c.schedule.n_slices) &&
         (text.empty() || text == "a");
}

bool is_power(i32 value, i32 most) {
  return value > 0 && value <= most && std::has_single_bit(static_cast<u32>(value));
}

// A forced name may be any shape that the template takes, not only those listed. With the suffix
// "a", loads by cp.async, it is for every target.
bool read_name(const std::string& name, const Target& target, SkinnyConfig& c) {
  SkinnyTile& tile = c.tile;
  SkinnyLoads& loads = c.loads;
  int length = 0;
  const int read = std::sscanf(name.c_str(), "skinny%dx%ds%dr%dg%dp%d%n", &tile.warps_k,
                               &tile.warps_n, &loads.shared_blocks, &loads.register_blocks,
                               &loads.copy_groups, &loads.x_chunks, &length);
  if (read != 6 || !read_suffix(llvm::StringRef(name).drop_front(length), c)) return false;
  loads.bulk = name.back() != 'a';
  const auto within = [](int value, int lo, int hi) { return value >= lo && value <= hi; };
  const bool groups = loads.bulk ? is_power(loads.copy_groups, 16)
                                 : within(loads.copy_groups, 1, std::max(loads.shared_blocks, 1));
  const i32 n_slices = c.schedule.n_slices;
  if (n_slices < 0 || (n_slices > 0 && tile.row_tiles != 1)) return false;
  fit_vectors(c);
  fit_row_tiles(c);
  const bool rows =
      n_slices == 0 ? is_power(tile.row_tiles, 4) && is_power(c.schedule.cluster_k, kMostCluster)
                    : tile.warps_n == 1 && within(tile.row_tiles, 1, kMostRowTiles);
  const bool cluster = c.schedule.cluster_k == 1 || (loads.bulk && c.ragged.kind == Ragged::kNone);
  return (copies_in_bulk(target) || !loads.bulk) && groups && cluster &&
         within(c.schedule.cluster_k, 1, kMostCluster) && rows && loads.x_columns >= 8 &&
         loads.x_columns % 8 == 0 && tile.columns % loads.x_columns == 0 &&
         within(tile.warps_k, 1, 32) && within(tile.warps_n, 1, 32) && c.threads() <= 1024 &&
         within(loads.shared_blocks, 0, kMostBlocks) &&
         within(loads.register_blocks, 0, kMostBlocks) &&
         within(loads.x_chunks, 1, c.warp_blocks()) && tile_name(c) == name;
}

// Do the warps' slices hold K, with a block for every warp, and the threads all of D?
bool holds(const SkinnyConfig& c) {
  // Three columns of sums: beside tests for the last block they spilled, whatever the estimate; in
  // clusters of eight 512x28672 took 18.7 / 15.4 us with 17 rows, gemm_sm90 14.3 / 14.0.
  // More columns are not held at a time.
  if (c.tile.columns > 16 && !warps_are_alike(c)) return false;
  if (c.tile.columns == kSkinnyRows && c.schedule.cluster_k == 8) return false;
  return c.most_slice_blocks() <= i64{c.tile.warps_k} * c.warp_blocks() &&
         ceil_div(c.least_slice_chunks(), 8) >= c.tile.warps_k && c.vectors() <= c.threads() &&
         c.schedule.n_slices <= c.n_vectors();
}

std::string describe(const SkinnyConfig& c, int ctas) {
  const std::string rows =
      c.schedule.n_slices == 0
          ? fmt::format("{} rows of W", c.rows())
          : fmt::format("{} slices of N with at most {} rows of W", c.n_tiles(), c.rows());
  return fmt::format(
      "{}, {} x {} warps, {} bytes of K per warp in shared memory and {} in registers, {} KiB "
      "shared{}, {} per SM{}{}{}",
      rows, c.tile.warps_k, c.tile.warps_n, c.loads.shared_blocks * 128,
      c.loads.register_blocks * 128, c.smem_bytes() / 1024, c.loads.bulk ? "" : ", by cp.async",
      counted(ctas, "CTA"),
      c.schedule.split_k > 1 ? fmt::format(", split-K {}", c.schedule.split_k) : "",
      c.schedule.cluster_k > 1 ? fmt::format(", cluster split-K {}", c.schedule.cluster_k) : "",
      c.ragged.kind != Ragged::kNone ? fmt::format(", {} ragged rows at a time", c.tile.columns)
                                     : "");
}

// Nothing: the config does not hold the problem, or the target not the config.
std::optional<Candidate> as_candidate(const SkinnyProblem& problem, const Target& target,
                                      const SkinnyConfig& config) {
  if (!holds(config)) return std::nullopt;
  const int min_ctas = resident_ctas(target, config);
  if (min_ctas == 0) return std::nullopt;
  return Candidate{{"skinny", tile_name(config), config.schedule.split_k},
                   config,
                   min_ctas,
                   predict_skinny(problem, target, config, min_ctas),
                   describe(config, min_ctas),
                   "",
                   SumOrder()};
}

// N in slices, for as many CTAs as the SMs or a multiple of that, or as clusters fit at once: the
// fastest choice with even shares. Side by side, every part ends in a slice of its own.
std::optional<Candidate> even_candidate(const SkinnyProblem& problem, const Target& target,
                                        int warps_k, int cluster_k) {
  constexpr int kTriedRounds = 16;
  constexpr int kLeastRows = 8;                           // X of 8 rows is as many bytes
  const i64 held = target.smem_per_sm * target.sm_count;  // at once
  std::optional<Candidate> best;
  if (problem.batch == 0) return best;  // there is nothing to divide
  const int least = static_cast<int>(problem.weight_bytes / (problem.batch * held));
  const auto attempt = [&](i64 ctas) {
    const i64 slices =
        std::min(ctas / problem.batch / cluster_k - (problem.parts - 1), problem.base.n_vectors());
    if (slices < 1) return;
    const Shape shape{warps_k, 1, 1, cluster_k, static_cast<int>(slices)};
    const auto config = shaped(problem, target, shape, 1);
    if (!config || config->tile.row_tiles > kMostRowTiles || config->slice_rows() < kLeastRows ||
        busiest_share(*config, problem.batch, target.sm_count) > kEvenShare)
      return;
    auto candidate = as_candidate(problem, target, *config);
    if (candidate && (!best || candidate->predicted.us < best->predicted.us))
      best = std::move(candidate);
  };
  for (int per_sm = std::max(least, 1); per_sm < least + kTriedRounds; ++per_sm) {
    const i64 even = i64{per_sm} * target.sm_count;
    const i64 at_once = target.ctas_at_once(cluster_k, per_sm);
    attempt(even);
    if (at_once != even) attempt(at_once);
  }
  return best;
}

// One for each number of warps and CTAs that divide K. Clusters of more than two are placed badly
// and exchange more (RESULTS sm90-108, skinny-105): they must be predicted to gain. Those of three,
// five, six and seven leave SMs empty (RESULTS model-17).
std::vector<Candidate> even_candidates(const SkinnyProblem& problem, const Target& target) {
  constexpr double kLargeClusterGain = 1.03;
  std::vector<Candidate> candidates;
  const auto best_us = [&] {
    double us = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates) us = std::min(us, candidate.predicted.us);
    return us;
  };
  for (int cluster_k = 1; cluster_k <= kMostCluster; cluster_k *= 2) {
    if (cluster_k > 1 && !shares_k(problem, target, 1)) break;
    const double limit = best_us() / (cluster_k > 2 ? kLargeClusterGain : 0);
    for (const int warps_k : {16, 8, 4, 2}) {
      if (warps_k == 16 && problem.m > kMostRowsOf16Warps) continue;
      auto candidate = even_candidate(problem, target, warps_k, cluster_k);
      if (candidate && candidate->predicted.us < limit) candidates.push_back(std::move(*candidate));
    }
  }
  return candidates;
}

// Predictions of shares are no better than this: where an even candidate is as fast within it, no
// uneven one is said to be faster.
void prefer_even(const SkinnyProblem& problem, const Target& target,
                 std::vector<Candidate>& candidates) {
  constexpr double kPrecision = 1.15;
  const auto is_even = [&](const Candidate& candidate) {
    const auto& config = candidate.config.get<SkinnyConfig>();
    return config.schedule.split_k == 1 &&
           busiest_share(config, problem.batch, target.sm_count) <= kEvenShare;
  };
  double even_us = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) {
    if (is_even(candidate)) even_us = std::min(even_us, candidate.predicted.us);
  }
  for (Candidate& candidate : candidates) {
    double& us = candidate.predicted.us;
    if (!is_even(candidate) && us * kPrecision > even_us) us = std::max(us, even_us);
  }
  llvm::stable_sort(candidates, [&](const Candidate& a, const Candidate& b) {
    return is_even(a) && !is_even(b);
  });
}

}  // namespace

double busiest_share(const SkinnyConfig& c, i64 batch, int sm_count) {
  const i64 ctas = batch * c.n_tiles() * c.k_slices();
  const double most = static_cast<double>(std::min<i64>(c.rows(), c.space.n.size)) *
                      static_cast<double>(c.most_slice_chunks());
  const double mean = static_cast<double>(batch * c.space.n.size * c.k_chunks()) / sm_count;
  return static_cast<double>(ceil_div(ctas, sm_count)) * most / mean;
}

std::string tile_name(const SkinnyConfig& c) {
  const SkinnyTile& tile = c.tile;
  const SkinnyLoads& loads = c.loads;
  std::string suffix;
  if (loads.x_columns < tile.columns) suffix += fmt::format("x{}", loads.x_columns);
  const i32 n_slices = c.schedule.n_slices;
  if (tile.row_tiles > 1 && n_slices == 0) suffix += fmt::format("t{}", tile.row_tiles);
  if (c.schedule.cluster_k > 1) suffix += fmt::format("c{}", c.schedule.cluster_k);
  if (n_slices > 0) suffix += fmt::format("n{}", n_slices);
  return fmt::format("skinny{}x{}s{}r{}g{}p{}{}{}", tile.warps_k, tile.warps_n, loads.shared_blocks,
                     loads.register_blocks, loads.copy_groups, loads.x_chunks, suffix,
                     loads.bulk ? "" : "a");
}

std::vector<Candidate> skinny_candidates(const SkinnyProblem& problem, const Target& target,
                                         const TileRequest& request) {
  std::vector<Candidate> candidates;
  const auto add = [&](const SkinnyConfig& config) {
    auto candidate = as_candidate(problem, target, config);
    if (!candidate) return;
    // Many waves of small slices stream badly: 221 us for 28672x14336 with split-K 8, where the
    // copy rate gives 192.
    const i64 ctas = problem.batch * config.n_tiles() * config.k_slices();
    const bool small_slices = config.schedule.split_k > 1 && config.loads.shared_blocks < 3;
    if (request.tile.empty() && small_slices && ctas > i64{4} * target.sm_count) return;
    candidates.push_back(std::move(*candidate));
  };
  for (const int split : kSplits) {
    if (request.split_k > 0 && split != request.split_k) continue;
    // The second kernel of split-K has no X to sum the squares of.
    const bool whole_sums = problem.base.ragged.kind != Ragged::kNone || problem.base.row_squares ||
                            problem.base.formed.sums > 0;
    if (whole_sums && split > 1) continue;
    for (const Shape shape : kShapes) {
      if (shape.warps_k == 16 && problem.m > kMostRowsOf16Warps) continue;
      if (shape.cluster_k > 1 && !shares_k(problem, target, split)) continue;
      if (!request.tile.empty()) continue;
      if (const auto config = shaped(problem, target, shape, split)) add(*config);
    }
    // With 16 warps, ragged rows and slices of N spilled 16 bytes of 64 registers.
    if (request.tile.empty() && split == 1 && problem.base.ragged.kind == Ragged::kNone) {
      for (Candidate& candidate : even_candidates(problem, target))
        candidates.push_back(std::move(candidate));
    }
    SkinnyConfig forced = problem.base;
    forced.schedule.split_k = split;
    forced.tile.columns = forced.loads.x_columns = columns_of(problem);
    if (read_name(request.tile, target, forced)) add(forced);
  }
  if (request.tile.empty() && problem.base.ragged.kind == Ragged::kNone)
    prefer_even(problem, target, candidates);
  return candidates;
}

std::optional<Candidate> skinny_candidate_like(const SkinnyProblem& problem, const Target& target,
                                               const SkinnyConfig& shared) {
  SkinnyConfig config = problem.base;
  const bool w_is_weight = config.loads.w_is_weight;
  config.tile = shared.tile;
  config.loads = shared.loads;
  config.loads.w_is_weight = w_is_weight;
  config.schedule = shared.schedule;
  // As many rows in a CTA as the joint weight's have: its slices are enough for those of all parts.
  if (shared.schedule.n_slices > 0) {
    config.schedule.n_slices = static_cast<i32>(ceil_div(config.space.n.size, shared.rows()));
  }
  fit_vectors(config);
  return as_candidate(problem, target, config);
}

}  // namespace catenary
