// SPDX-License-Identifier: Apache-2.0
// The candidate list, what each needs of a target, and its counts for the cost model.
#include "compiler/families/skinny_dequant/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>

#include "compiler/families/dequant_operand.h"
#include "compiler/families/roofline.h"
#include "ir/counted.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

namespace catenary {
namespace {

// Shared memory that a CTA takes beside its own.
constexpr i64 kReservedSmem = 1024;

constexpr int kWarps[] = {8, 4, 16};
constexpr int kClusters[] = {1, 2, 4, 8};
constexpr int kMostStages = 8;

// Row tiles of a CTA, of each weight, so that its sums and X fit the registers.
int most_row_tiles(const SkinnyDequantConfig& c) {
  return (c.tile.columns <= 16 ? 4 : 2) / c.num_accumulators();
}

// Addresses, counters and the epilogue's operands take about 16 registers, and a fragment of q 16;
// the rest are sums, in part twice, X of a chunk, and scales and zeros of two, as they are and
// widened. Over ragged rows, what goes on from pass to pass. With a norm, its sums; with a gain, a
// fragment. Compiled kernels take 21 fewer to 5 more.
int estimated_registers(const SkinnyDequantConfig& c) {
  const int columns = c.tile.columns / 8;
  const int numbers =
      c.runs() * 2 * (c.chunk_columns() / c.scaled_columns()) * (c.w.has_zero ? 2 : 1);
  const int x = c.chunk_blocks() * 2 * columns * 4;
  const int open = columns * c.runs() == 1 ? 8 : columns * 4;
  const int squares =
      c.row_squares ? std::max(columns, 2) * 4 + (c.schedule.cluster_k > 1 ? 4 : 0) : 0;
  const int gain = c.gain.used ? 4 : 0;
  return 16 + squares + gain + c.runs() * columns * 6 + open + x +
         numbers * (c.has_row_scales() ? 1 : 5) + 16 + (c.has_groups() ? 32 : 0);
}

// CTAs per SM; 0: the config does not fit.
int resident_ctas(const Target& target, const SkinnyDequantConfig& c) {
  const i64 by_smem = target.smem_per_sm / (c.smem_bytes() + kReservedSmem);
  const i64 by_registers = 65536 / (i64{c.threads()} * estimated_registers(c));
  const i64 ctas = std::min({by_smem, by_registers, i64{2048} / c.threads(), i64{8}});
  return c.smem_bytes() <= target.smem_per_cta ? static_cast<int>(ctas) : 0;
}

// A vector of D for each thread.
void fit_vectors(SkinnyDequantConfig& c) {
  while (c.vectors() > c.threads() && c.vec < 16) c.vec *= 2;
}

// Every warp has a chunk of K, every slice of N a row tile, and every vector of D a thread.
bool holds(const SkinnyDequantConfig& c) {
  return c.k_chunks() / c.k_slices() >= c.tile.warps && c.vectors() <= c.threads() &&
         c.tile.columns % c.schedule.cluster_k == 0 && c.threads() <= 1024 && c.runs() <= 32 &&
         !(c.has_groups() && c.k_slices() > 1) && c.schedule.n_slices <= c.n_tiles() &&
         c.tile.row_tiles == ceil_div(c.n_tiles(), c.schedule.n_slices);
}

// Bytes of the SM that reads most over the mean of all, by the row tiles of its CTAs.
double busiest_share(const SkinnyDequantConfig& c, i64 batch, int sms) {
  const i64 ctas = batch * c.schedule.n_slices * c.k_slices();
  const double per_sm = static_cast<double>(ceil_div(ctas, sms)) * c.tile.row_tiles;
  return std::max(per_sm * sms / static_cast<double>(batch * c.n_tiles() * c.k_slices()), 1.0);
}

// Clocks in which the warps that an SM holds issue the instructions of a CTA: unpacking and MMAs of
// each row tile and chunk, scaling, and what a chunk and a stage cost (RESULTS dequant-17, -19).
double stream_clocks(const SkinnyDequantConfig& c, double active_warps) {
  constexpr double kWarpClocks = 4.7;  // from one instruction of a warp to the next
  constexpr double kMostIssued = 3.4;  // per clock of an SM
  constexpr double kChunk = 55;
  constexpr double kRun = 35;
  constexpr double kMma = 1.7;  // for each eight rows of X
  const double columns = c.tile.columns / 8.0;
  constexpr double kUnpack = 12;  // of the four registers of an MMA
  const double blocks = c.chunk_blocks();
  const double parts = c.has_row_scales() ? 0 : c.chunk_columns() / c.scaled_columns();
  const double row_tile =
      blocks * (4 * (kUnpack + kMma * columns) + 1) + parts * (6 + 10 * columns);
  const double squares = c.row_squares ? blocks * 4 * kMma * columns : 0;
  const double gain = c.gain.used ? blocks * 2 * (1 + 4 * columns) : 0;
  const double chunk =
      kChunk + blocks * 2 * columns + squares + gain + kRun * c.runs() / c.loads.stage_chunks;
  const double issued =
      c.tile.warps * static_cast<double>(c.warp_chunks()) * (c.runs() * row_tile + chunk);
  return issued / std::min(active_warps / kWarpClocks, kMostIssued);
}

// Half of the ragged groups have more rows than the mean, and a second pass reads q again.
i32 columns_of(const SkinnyDequantProblem& problem) {
  const i64 rows = problem.m * (problem.base.has_groups() ? 2 : 1);
  return static_cast<i32>(std::clamp<i64>(ceil_div(rows, 8) * 8, 8, kSkinnyDequantRows));
}

// Passes over q of one of the larger groups.
double passes(const SkinnyDequantProblem& problem, const SkinnyDequantConfig& c) {
  if (!c.has_groups()) return 1;
  return static_cast<double>(std::max<i64>(ceil_div(2 * problem.m, c.tile.columns), 1));
}

Prediction predict_dequant(const SkinnyDequantProblem& problem, const Target& target,
                           const SkinnyDequantConfig& c, int resident) {
  // A gain is as many bytes as a row of X.
  const double rows = static_cast<double>(problem.m) + (c.gain.used ? 1 : 0);
  const double k_blocks = static_cast<double>(ceil_div(c.k_blocks(), c.k_slices()));
  Counts counts;
  counts.streams = true;
  counts.units = static_cast<double>(problem.batch * c.schedule.n_slices * c.k_slices());
  counts.busiest_share = busiest_share(c, problem.batch, target.sm_count);
  counts.resident =
      static_cast<double>(target.ctas_at_once(c.schedule.cluster_k, resident)) / target.sm_count;
  counts.early_weights = c.loads.w_is_weight;
  const double even = counts.units / target.sm_count;
  counts.units_per_sm = counts.early_weights ? std::max(even, 1.0) : std::ceil(even);
  counts.k_tiles = counts.stages = k_blocks * passes(problem, c);
  // All CTAs read the same X, in short rows: RESULTS dequant-4. L2 has no time for q meanwhile
  // (RESULTS dequant-17). Their first X is a wait, their sums are another; more CTAs of a cluster
  // wait longer for each other (RESULTS dequant-10).
  // Each further fill of a warp's ring of X is a part of a wait (RESULTS dequant-19).
  constexpr double kSharedReads = 4;
  constexpr double kFillOfX = 0.2;
  const double fills = static_cast<double>(ceil_div(c.warp_chunks(), i64{c.loads.x_chunks}));
  counts.stream_waits = 0.7 + kFillOfX * (fills - 1);
  counts.round_waits = 6.5;
  counts.empty_places = 0.6;
  counts.exchange_waits = 0.1 * std::log2(c.schedule.cluster_k);
  counts.l2_bytes = c.runs() * c.tile_bytes() + kSharedReads * rows * 128;
  counts.reread_bytes = counts.units * counts.k_tiles * rows * 128;
  const double held = std::min<double>(resident, counts.units_per_sm);
  counts.stream_clocks = stream_clocks(c, held * c.tile.warps) * passes(problem, c);
  if (c.schedule.cluster_k > 1) {
    counts.exchange_bytes = static_cast<double>(c.tile.columns) * c.rows() * 4 *
                            c.num_accumulators() * (c.schedule.cluster_k - 1) /
                            c.schedule.cluster_k;
  }
  const double flops =
      2.0 * problem.batch * problem.m * c.space.n.size * c.space.k.size * c.num_accumulators() +
      problem.epilogue_flops;
  return predict(counts, target, problem.weight_bytes + problem.other_bytes, flops,
                 math_tflops(target, c.space.math), problem.epilogue_flops);
}

// A CTA's row tiles follow from slices of N, where the name has them, and else the slices from
// them.
bool read_name(const std::string& name, SkinnyDequantConfig& c) {
  int length = 0;
  const int read = std::sscanf(name.c_str(), "dequant%dt%ds%db%dx%db%d%n", &c.tile.warps,
                               &c.tile.row_tiles, &c.loads.stages, &c.loads.stage_chunks,
                               &c.loads.x_stages, &c.loads.x_chunks, &length);
  if (read != 6) return false;
  llvm::StringRef rest = llvm::StringRef(name).drop_front(static_cast<size_t>(length));
  const auto within = [](i64 value, i64 hi) { return value >= 1 && value <= hi; };
  if (!within(c.tile.row_tiles, 32)) return false;
  c.schedule.n_slices = ceil_div(c.n_tiles(), c.tile.row_tiles);
  if (rest.consume_front("c") && rest.consumeInteger(10, c.schedule.cluster_k)) return false;
  if (rest.consume_front("n") && rest.consumeInteger(10, c.schedule.n_slices)) return false;
  return within(c.tile.warps, 32) && within(c.loads.stages, 16) && within(c.loads.x_stages, 16) &&
         within(c.loads.stage_chunks, 64) && within(c.loads.x_chunks, 64) &&
         within(c.schedule.cluster_k, 8) && within(c.schedule.n_slices, c.n_tiles()) &&
         std::has_single_bit(static_cast<u32>(c.schedule.cluster_k)) && tile_name(c) == name;
}

std::string describe(const SkinnyDequantConfig& c, int ctas) {
  return fmt::format(
      "{} rows of W{}, {}, {} of {} columns each, {} KiB shared, {} per SM{}{}", c.rows(),
      c.dual ? " and of W2" : "", counted(c.tile.warps, "warp"), counted(c.loads.stages, "stage"),
      c.loads.stage_chunks * c.chunk_columns(), c.smem_bytes() / 1024, counted(ctas, "CTA"),
      c.schedule.cluster_k > 1 ? fmt::format(", cluster split-K {}", c.schedule.cluster_k) : "",
      c.has_groups() ? fmt::format(", {} ragged rows at a time", c.tile.columns) : "");
}

// Nothing: the config does not hold the problem, or the target not `least_ctas` of its CTAs per SM.
std::optional<Candidate> as_candidate(const SkinnyDequantProblem& problem, const Target& target,
                                      SkinnyDequantConfig c, int least_ctas) {
  fit_vectors(c);
  if (!holds(c)) return std::nullopt;
  const int ctas = resident_ctas(target, c);
  if (ctas < least_ctas) return std::nullopt;
  return Candidate{{"skinny_dequant", tile_name(c), 1},
                   c,
                   ctas,
                   predict_dequant(problem, target, c, ctas),
                   describe(c, ctas),
                   "",
                   SumOrder()};
}

// The ring of X: all of the warp's X where that is a small part of the shared memory of a CTA, with
// `ctas` of them to an SM; else two stages as long as that part holds.
void fit_x_ring(const Target& target, SkinnyDequantConfig& c, int ctas) {
  constexpr i64 kMostShare = 3;
  const i64 most = target.smem_per_sm / kMostShare / ctas / c.tile.warps;
  const i64 chunks = c.warp_chunks();
  const auto holds = [&](i64 stages, i64 count) {
    c.loads.x_stages = static_cast<i32>(stages);
    c.loads.x_chunks = static_cast<i32>(count);
    return stages * c.x_stage_bytes() <= most;
  };
  if (holds(1, chunks)) return;
  i64 count = std::bit_floor(static_cast<u64>(chunks));
  while (!holds(2, count) && count > 1) count /= 2;
}

// The deepest ring with which `ctas` CTAs fit an SM, and no deeper than the warp's slice of K. A
// stage of few row tiles has more chunks, so that a warp waits seldom.
std::optional<Candidate> deepest(const SkinnyDequantProblem& problem, const Target& target,
                                 SkinnyDequantConfig c, int runs, int ctas) {
  const i64 chunks = c.warp_chunks();
  c.loads.stage_chunks = static_cast<i32>(std::min<i64>(ceil_div(runs, c.runs()), chunks));
  const i64 most = std::min<i64>(ceil_div(chunks, c.loads.stage_chunks), kMostStages);
  fit_x_ring(target, c, ctas);
  // One stage only where it holds all: else nothing loads while it is read.
  for (c.loads.stages = static_cast<i32>(most); c.loads.stages >= std::min<i64>(most, 2);
       --c.loads.stages) {
    if (auto candidate = as_candidate(problem, target, c, ctas)) return candidate;
  }
  return std::nullopt;
}

// Numbers of slices of N to try. Some give each SM a whole number of CTAs, from `from` to
// kMostPerSm. The others follow from a number of row tiles, if each SM then has `from` CTAs or
// more.
std::vector<i64> slice_counts(const Target& target, const SkinnyDequantConfig& c, i64 batch,
                              i64 from) {
  constexpr i64 kMostPerSm = 12;
  const i64 shares = batch * c.schedule.cluster_k;
  const i64 least = from * target.sm_count / shares;
  const int most = most_row_tiles(c);
  std::vector<i64> counts;
  for (i64 per_sm = from; per_sm <= kMostPerSm; ++per_sm) {
    const i64 slices = std::max<i64>(per_sm * target.sm_count / shares, 1);
    const i64 tiles = ceil_div(c.n_tiles(), slices);
    // As many as these row tiles need: equal slices where N divides.
    const i64 equal = ceil_div(c.n_tiles(), tiles);
    if (tiles <= most)
      counts.push_back(equal * 8 < slices * 7 && slices <= c.n_tiles() ? slices : equal);
  }
  for (i64 tiles = 1; tiles <= most; ++tiles) {
    if (ceil_div(c.n_tiles(), tiles) >= least) counts.push_back(ceil_div(c.n_tiles(), tiles));
  }
  return counts;
}

// The candidates of one number of warps and CTAs along K, with stages of four and of eight runs.
// Two CTAs fit an SM, so that one streams while another ends; or more with shallower rings, up to
// kMostWarps, which hide each other's waits (RESULTS dequant-19).
std::vector<Candidate> sliced(const SkinnyDequantProblem& problem, const Target& target,
                              SkinnyDequantConfig c, i64 from) {
  constexpr int kMostWarps = 32;
  std::vector<Candidate> candidates;
  for (const i64 slices : slice_counts(target, c, problem.batch, from)) {
    c.schedule.n_slices = slices;
    c.tile.row_tiles = static_cast<i32>(ceil_div(c.n_tiles(), slices));
    for (const int runs : {4, 8}) {
      for (int ctas = 2; ctas <= kMostWarps / c.tile.warps; ++ctas) {
        if (auto candidate = deepest(problem, target, c, runs, ctas))
          candidates.push_back(std::move(*candidate));
      }
    }
  }
  return candidates;
}

}  // namespace

std::string tile_name(const SkinnyDequantConfig& c) {
  const SkinnyDequantSchedule& schedule = c.schedule;
  std::string name =
      fmt::format("dequant{}t{}s{}b{}x{}b{}", c.tile.warps, c.tile.row_tiles, c.loads.stages,
                  c.loads.stage_chunks, c.loads.x_stages, c.loads.x_chunks);
  if (schedule.cluster_k > 1) name += fmt::format("c{}", schedule.cluster_k);
  if (schedule.n_slices != ceil_div(c.n_tiles(), c.tile.row_tiles))
    name += fmt::format("n{}", schedule.n_slices);
  return name;
}

std::vector<Candidate> skinny_dequant_candidates(const SkinnyDequantProblem& problem,
                                                 const Target& target, const TileRequest& request) {
  std::vector<Candidate> candidates;
  if (request.split_k > 1) return candidates;
  SkinnyDequantConfig base = problem.base;
  base.tile.columns = columns_of(problem);
  if (!request.tile.empty()) {
    if (read_name(request.tile, base)) {
      if (auto candidate = as_candidate(problem, target, base, 1)) candidates.push_back(*candidate);
    }
    return candidates;
  }
  llvm::StringSet<> names;
  // Two CTAs per SM or more: with one, the SMs that get none first get two of the next kernel
  // (RESULTS dequant-5).
  const auto add = [&](int warps, int cluster, i64 from) {
    SkinnyDequantConfig c = base;
    c.tile.warps = warps;
    c.schedule.cluster_k = cluster;
    for (Candidate& candidate : sliced(problem, target, c, from)) {
      if (names.insert(candidate.id.tile).second) candidates.push_back(std::move(candidate));
    }
  };
  for (const int warps : kWarps) {
    for (const int cluster : kClusters) add(warps, cluster, 2);
  }
  // Small N, or a K with too few chunks.
  for (const int warps : {8, 4, 2, 1}) {
    if (candidates.empty()) add(warps, 1, 1);
  }
  return candidates;
}

std::optional<Candidate> skinny_dequant_candidate_like(const SkinnyDequantProblem& problem,
                                                       const Target& target,
                                                       const SkinnyDequantConfig& shared) {
  SkinnyDequantConfig c = problem.base;
  if (shared.runs() % c.num_accumulators() != 0) return std::nullopt;
  const bool w_is_weight = c.loads.w_is_weight;
  c.tile = shared.tile;
  c.loads = shared.loads;
  c.loads.w_is_weight = w_is_weight;
  c.schedule.cluster_k = shared.schedule.cluster_k;
  share_slices(c, shared);
  return as_candidate(problem, target, c, 1);
}

}  // namespace catenary
