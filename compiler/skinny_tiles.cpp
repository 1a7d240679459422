// SPDX-License-Identifier: Apache-2.0
// The cost model. The kernel is a stream: W from DRAM, and beside it X, which every CTA reads whole
// from L2 through the same ports:
//
//   stream   W / DRAM rate + CTAs x (its X) / rate of L2
//   rounds   CTAs beyond those that are resident wait for a place: the last round may be partial
//   ends     the first bytes' way, the products, the sum over the warps, the epilogue; under
//            programmatic launches the next kernel's stream covers most of it
//
// Ragged rows are a batch of as many such problems as groups may have rows, each of their mean. No
// measurement stands behind that yet.
#include "compiler/skinny_tiles.h"

#include <algorithm>
#include <cstdio>

#include "compiler/gemm_tiles.h"
#include "compiler/plan_family.h"

namespace catenary {
namespace {

struct Shape {
  int warps_k, warps_n;
};
constexpr Shape kShapes[] = {{16, 1}, {8, 1}, {8, 2}, {4, 1}, {4, 4}, {4, 2}};
constexpr int kSplits[] = {1, 2, 4, 8};

// Of one warp, in shared memory or in registers; what fits is less.
constexpr int kMostBlocks = 64;

// Shared memory that a CTA takes beside its own.
constexpr i64 kReservedSmem = 1024;

// The constants below are fits to the mean of plain and overlapped launches on an H200, us (N x K,
// plain / overlapped; one run each):
//
//   rows of X     1             8             16
//   2048 x 4096   6.01 / 4.01   6.78 / 4.48   7.65 / 5.61
//   4096 x 4096   9.87 / 8.10   11.1 / 8.73   12.3 / 9.86
//   28672 x 4096  56.8 / 55.0   64.1 / 60.5   74.1 / 67.5
//   8192 x 8192   37.5 / 35.1 with K split in 2;  4096 x 14336  34.9 / 32.6 split in 4

// L2 -> SM beside the stream, as a multiple of the DRAM rate.
constexpr double kXRate = 2.7;

// The same where no run tells: what an SM draws from L2, as in gemm_tiles.cpp.
double sm_gbs(const Target& target) { return 32.0 * target.clock_ghz; }

// A kernel's own ends, not covered by its neighbours, and what a K split adds.
constexpr double kEndsUs = 0.3;
constexpr double kSplitUs = 2.0;

// What registers hold beside X, W and sums: addresses, the epilogue's operands (measured 20 to 26;
// more where warps have unlike counts of blocks: 4 x 4 warps with 16 rows spilled 64 bytes; more
// over chunks of 16 ragged rows: 8 x 1 warps spilled 132 bytes of 80 registers, none of 128).
int estimated_registers(const SkinnyConfig& c) {
  const int tiles = c.columns / 8;
  const int part = static_cast<int>(ceil_div(c.warp_blocks(), c.x_parts));
  const int rest = c.blocks % (c.split_k * c.warps_k) == 0 ? 24 : 28;
  const int chunks = c.ragged != Ragged::kNone && tiles > 1 ? 32 : 0;
  return rest + chunks + part * tiles * 8 + c.register_blocks * 16 + tiles * 4;
}

// Half of the ragged groups have more rows than the mean, and a second chunk waits for its X again.
i32 columns_of(const SkinnyProblem& problem) {
  const i64 most = problem.base.ragged == Ragged::kNone ? problem.m : 2 * problem.m;
  return static_cast<i32>(std::clamp<i64>(ceil_div(most, 8) * 8, 8, kSkinnyRows));
}

// CTAs per SM, at least two so that one streams while another ends; 0: W does not fit. Registers or
// shared memory run out before the threads of an SM do (1536 on some GPUs).
int resident_ctas(const Target& target, const SkinnyConfig& c) {
  const i64 by_smem = target.smem_per_sm / (c.smem_bytes() + kReservedSmem);
  const i64 by_registers = 65536 / (i64{c.threads()} * estimated_registers(c));
  const i64 ctas = std::min({by_smem, by_registers, i64{4}});
  return ctas >= 2 && estimated_registers(c) <= 255 ? static_cast<int>(ctas) : 0;
}

// Bulk copies and mbarriers are those of sm_90, which the measurements are of.
bool copies_in_bulk(const Target& target) { return target.compute_capability() == 90; }

// A warp's shared blocks of which two CTAs fit an SM.
i64 most_shared_blocks(const Target& target, const SkinnyConfig& c) {
  const i64 slice = (target.smem_per_sm / 2 - kReservedSmem) / (c.warps_k * c.warps_n);
  return std::max<i64>((slice / 16 - 16) / 128, 0);
}

// Elsewhere shared memory is less on most GPUs: what does not fit waits in registers, and X comes
// in smaller parts if those are short. No copy waits for another: a group is what a part of X
// reads. Not measured.
void fit_async(const Target& target, SkinnyConfig& c) {
  const i32 most = c.warp_blocks();
  c.bulk = false;
  c.shared_blocks = static_cast<i32>(std::min<i64>(c.shared_blocks, most_shared_blocks(target, c)));
  c.register_blocks = std::min(most - c.shared_blocks, kMostBlocks);
  while (c.x_parts < c.warp_blocks() && resident_ctas(target, c) == 0) {
    c.x_parts = std::min(c.warp_blocks(), c.x_parts * 2);
  }
  const i64 part = ceil_div(most, c.x_parts);
  c.groups = static_cast<i32>(std::max<i64>(ceil_div(c.shared_blocks, part), 1));
}

SkinnyConfig shaped(const SkinnyProblem& problem, const Target& target, Shape shape, int split) {
  SkinnyConfig c = problem.base;
  c.warps_k = shape.warps_k;
  c.warps_n = shape.warps_n;
  c.split_k = split;
  c.columns = columns_of(problem);
  const i64 most = ceil_div(ceil_div(c.blocks, split), c.warps_k);
  // Registers are free until X arrives, and what they hold leaves L1 to X: of 16 rows, with a
  // second or third block of eight in them, 6.5 and 5.6 us (K=4096 N=2048, overlapped).
  // Over ragged rows the third spilled.
  const bool two = most < 4 || c.columns == 8 || c.ragged != Ragged::kNone;
  const i64 registers = shape.warps_k == 16 ? 1 : two ? 2 : 3;
  c.register_blocks = static_cast<i32>(std::min(most, registers));
  c.shared_blocks = static_cast<i32>(most) - c.register_blocks;
  // The same case, us: 4 rows 4.18 with two groups, 4.44 with four; 8 rows 4.85 and 4.48; one group
  // 4.55 with one row, where two are 4.01.
  // Few bytes need no pacing, and a group's wait is a latency (N=K=512, 8 rows, plain: 3.9 us).
  c.groups = c.shared_blocks < 3 ? 1 : problem.m <= 4 ? 2 : 4;
  const i64 part = c.columns > 8 ? 1 : shape.warps_k == 16 ? 2 : 4;
  c.x_parts = static_cast<i32>(ceil_div(most, part));
  if (!copies_in_bulk(target)) fit_async(target, c);
  return c;
}

// The stream's time as a multiple of what DRAM takes. CTAs come in rounds of two per SM.
double rounds_factor(const Target& target, const SkinnyConfig& c, i64 ctas) {
  const double rounds = static_cast<double>(ctas) / (2.0 * target.sm_count);
  // An SM that has none in the last round idles.
  if (c.bulk) return rounds <= 1 ? 1 : std::ceil(rounds) / rounds;
  if (ctas == 0) return 1;
  // Elsewhere an SM can draw several times its share of DRAM's rate from L2: the last round is
  // slower where the SMs that have a CTA are too few.
  const i64 last = (ctas - 1) % (i64{2} * target.sm_count) + 1;
  const double busy = static_cast<double>(std::min<i64>(last, target.sm_count));
  const double slower = std::max(target.dram_gbs * kDramEfficiency / (busy * sm_gbs(target)), 1.0);
  return 1 + (slower - 1) * last / ctas;
}

void predict(const SkinnyProblem& problem, const Target& target, SkinnyCandidate& candidate) {
  const SkinnyConfig& c = candidate.config;
  const double gbs = target.dram_gbs * kDramEfficiency * 1e3;
  const i64 ctas = problem.batch * ceil_div(c.n.size, c.rows()) * c.split_k;
  const double x_bytes =
      static_cast<double>(ctas) * problem.m * ceil_div(c.blocks, c.split_k) * 128;
  const double x_gbs = c.bulk ? kXRate * target.dram_gbs : sm_gbs(target) * target.sm_count;
  const double stream = problem.weight_bytes / gbs + x_bytes / (x_gbs * 1e3);

  Prediction& p = candidate.predicted;
  p.bytes = problem.weight_bytes + problem.epilogue_bytes;
  p.flops = 2.0 * problem.batch * problem.m * c.n.size * c.blocks * 128 /
                (c.math == MathMode::kTF32 ? 4 : 2) * c.sums() +
            problem.epilogue_flops;
  p.memory_us = p.bytes / gbs;
  p.math_us = stream * rounds_factor(target, c, ctas) + kEndsUs;
  p.launch_us = kLaunchUs;
  p.waves = static_cast<double>(ctas) / (2.0 * target.sm_count);
  if (c.split_k > 1) {
    const double partial =
        8.0 * c.split_k * c.sums() * problem.batch * problem.m * c.n.size / (2 * gbs);
    p.math_us += partial;
    p.launch_us += kLaunchUs + kSplitUs;
  }
  p.us = std::max(p.memory_us, p.math_us) + p.launch_us;
}

// A forced name may be any shape that the template takes, not only those listed; by cp.async on
// every target.
bool read_name(const std::string& name, const Target& target, SkinnyConfig& c) {
  const int read = std::sscanf(name.c_str(), "skinny%dx%ds%dr%dg%dp%d", &c.warps_k, &c.warps_n,
                               &c.shared_blocks, &c.register_blocks, &c.groups, &c.x_parts);
  c.bulk = name.empty() || name.back() != 'a';
  const auto within = [](int value, int lo, int hi) { return value >= lo && value <= hi; };
  const bool groups = c.bulk ? within(c.groups, 1, 16) && 16 % c.groups == 0
                             : within(c.groups, 1, std::max(c.shared_blocks, 1));
  return read == 6 && (copies_in_bulk(target) || !c.bulk) && groups && within(c.warps_k, 1, 32) &&
         within(c.warps_n, 1, 32) && c.threads() <= 1024 &&
         within(c.shared_blocks, 0, kMostBlocks) && within(c.register_blocks, 0, kMostBlocks) &&
         within(c.x_parts, 1, c.warp_blocks()) && tile_name(c) == name;
}

// Do the warps' slices hold K, with a block for every warp, and the threads all of D?
bool holds(const SkinnyConfig& c) {
  return ceil_div(c.blocks, c.split_k) <= i64{c.warps_k} * c.warp_blocks() &&
         c.blocks / c.split_k >= c.warps_k && c.rows() / c.vec * c.columns <= c.threads();
}

}  // namespace

std::string tile_name(const SkinnyConfig& c) {
  return fmt::format("skinny{}x{}s{}r{}g{}p{}{}", c.warps_k, c.warps_n, c.shared_blocks,
                     c.register_blocks, c.groups, c.x_parts, c.bulk ? "" : "a");
}

std::vector<SkinnyCandidate> rank_skinny_candidates(const SkinnyProblem& problem,
                                                    const Target& target,
                                                    const PlanOptions& options) {
  std::vector<SkinnyCandidate> ranked;
  const auto add = [&](const SkinnyConfig& config) {
    SkinnyCandidate candidate;
    candidate.config = config;
    if (!holds(config)) return;
    candidate.min_ctas = resident_ctas(target, config);
    if (candidate.min_ctas == 0) return;
    // Many rounds of small slices stream badly: 221 us for 28672x14336, K split in 8, where the
    // copy rate gives 192.
    const i64 ctas = problem.batch * ceil_div(config.n.size, config.rows()) * config.split_k;
    const bool rounds = ctas > i64{4} * target.sm_count;
    if (options.force_tile.empty() && rounds && config.split_k > 1 && config.shared_blocks < 3)
      return;
    predict(problem, target, candidate);
    ranked.push_back(std::move(candidate));
  };
  for (const int split : kSplits) {
    if (options.split_k > 0 && split != options.split_k) continue;
    if (problem.base.ragged != Ragged::kNone && split > 1) continue;
    for (const Shape shape : kShapes) {
      // 16 warps leave 64 registers each: enough for four rows of X (4.18 us; eight: 4.52, and 4.48
      // with eight warps).
      if (shape.warps_k == 16 && problem.m > 4) continue;
      if (options.force_tile.empty()) add(shaped(problem, target, shape, split));
    }
    SkinnyConfig forced = shaped(problem, target, kShapes[0], split);
    if (read_name(options.force_tile, target, forced)) add(forced);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.predicted.us < b.predicted.us; });
  return ranked;
}

}  // namespace catenary
