// SPDX-License-Identifier: Apache-2.0
// The cost model. A CTA has an SM to itself and works through its tiles; a step of K takes the
// largest of these times:
//
//   products   2 BM BN BK sums / (tensor rate of an SM x efficiency of the instruction)
//   copies     by threads: their clocks for each line of a stage
//   traffic    bytes that the SM draws from L2 for a stage / its rate
//   latency    kLatencyUs / stages: the ring covers so many steps of waiting
//
// and the epilogue of a tile stands between the products of cooperative warpgroups, while those of
// ping-pong hide it as far as it is shorter than a tile's products. DRAM bounds the whole from
// below.
//
// CTAs with one tile each, two to an SM (cluster_k), take the largest of
//
//   DRAM       as above
//   L2         bytes that all CTAs draw / the rate of L2 to all SMs together
//   an SM      its CTAs' steps of K, each as above
//
// and then the sums' way over the cluster. With one to an SM (streams), DRAM and L2 at better
// rates, and fixed ends.
#include "compiler/families/gemm_sm90/cost.h"

#include <algorithm>
#include <cmath>

#include "compiler/families/gemm_sm90/candidates.h"

namespace catenary {
namespace {

// The constants below are a fit to 1,346 tiles of 186 shapes timed on an H200 (`bench --sweep
// gemm`): the error of a prediction is 11%. First choices, gemm_sm80's among them, were 1.6% slower
// than the best tile that was timed, 14% at worst (201 shapes, plain launches, at 18c6a92). What
// long kernels, streams and pairs of CTAs cost comes from the runs named beside it, and was not
// part of that fit.

// Waiting time of a step on its copies when nothing else covers it; what starts and ends a kernel
// (launch, barriers, the first maps, the last stores); what a step costs beside its products.
constexpr double kLatencyUs = 0.99;
constexpr double kStartUs = 2.4;
constexpr double kStepClocks = 51.0;

// L2 -> SM: the bytes per clock that an SM draws while all do, more than of distinct lines: the SMs
// ask for the same ones at about the same time. Where a matrix's rows do not start on lines of 128
// bytes, each row of a box is a part of two.
constexpr double kL2BytesPerClockPerSm = 57.0;
constexpr double kLineBytes = 128.0;
constexpr double kSplitLinesTraffic = 1.8;
constexpr double kSplitLinesDram = 1.9;

// The part of the copy rate that the ring reaches where DRAM bounds it: 28.4 us for 7168x7168
// weights with 48 rows, where the copy rate gives 24.1. Rows of a box beyond the matrix cost
// requests too: with 32 rows 36.3 us and more, with 48 29.8 (H200; six stages). Eight ragged groups
// of 64 rows together, 14336x4096 weights each: tiles of 64 rows 233 us, of 128 rows 340.
constexpr double kStreamEfficiency = 0.88;
constexpr double kEmptyRowsEfficiency = 0.70;
constexpr i64 kFullBoxRows = 48;

// Longer kernels run into the power limit (1.5 GHz instead of 1.75), with 16-bit operands: L2,
// whose clock stays, gives more per clock of the SMs, what saves traffic costs next to nothing, and
// wide cooperative tiles lose what they gain elsewhere. H200, us: 8192x16384x4096 by 128x256
// cooperative 1,630, by 128x128 ping-pong in clusters 1,580; with gelu_tanh 4096x4096x4096 199 and
// 187; gated 8192x16384x4096 3,360 and 3,210, four experts' 16384x14336x4096 5,960 and 5,700, in
// clusters 5,670. But 8192x4096x4096 in tf32 702 and 755.
constexpr double kHotUs = 150.0;
constexpr double kHotCost = 1.06;
constexpr double kHotL2 = 1.15;
constexpr double kHotClusterCost = 1.01;
constexpr double kHotRaggedClusterCost = 1.04;

// CTAs of persistent tiles ask for the same lines at about the same time while they are in step: of
// square blocks of tiles more is shared (`band_rows`), behind long epilogues less, as often as
// there is one (counters of 2560x12x3072x1024: 70 million sectors leave L2 for the SMs, with bias
// and silu 80; 257 and 290 us, in clusters of two 256 and 270).
constexpr double kSquareSwizzleL2BytesPerClockPerSm = 66.0;
constexpr double kLongEpilogueFlops = 8.0;  // of one element of D
constexpr double kDriftSteps = 4.0;
// Groups of ragged terms begin and end at different steps, and CTAs may stay out of step. Experts'
// wgrad, H200, us, without clusters and in clusters of two: even, skewed and odd groups 2,818 to
// 2,870 and 2,825 to 2,846, some empty 3,265 and 2,790 (a run each). Of the 30 GB that reach the
// SMs 21, 22 and, some empty, 27 leave L2 without clusters.
constexpr double kRaggedTermsDrift = 1.15;

// One 64 x 64 tile has too few bytes on their way for a stream from DRAM; two to an SM have not
// (28672x4096 weights with 32 rows: 92 us, and 61).
constexpr double kSmallStreamCost = 1.5;

// Threads that copy an operand, clocks of the SM for a line of 128 bytes, by the bytes of their
// pieces (128x256 tiles, H200: 8192x4096x4095 bf16 1,930 us, 4096x4096x4098 497, 4100 459; elements
// are rotated behind the copy). 16 bytes: an estimate.
constexpr double kChunkClocks = 2.5;     // 16 bytes
constexpr double kPieceClocks = 7.0;     // 8 or 4
constexpr double kElementClocks = 17.5;  // 2
// TF32 by 4 bytes, rounded on the way (8192x4096x4095 f32 2,620 us).
constexpr double kRoundedPieceClocks = 10.0;

// A K split's second kernel. Of few rows the mean of plain and overlapped launches; with 64x64
// tiles, one to an SM, the first kernel reads W as a stream does, slower where it leaves SMs idle.
// H200, plain / overlapped us: 512x28672 in 16 parts 13.3 / 11.0 (17 rows), 13.7 / 11.6 (32), 14.9
// / 12.6 (64); 1024x14336 in 8 12.8 / 10.5 (32), 13.4 / 11.0 (64); 1024x28672 in 8 20.2 / 17.8
// (32), 21.3 / 18.8 (64). 32 rows of 512x28672 in 12 parts 13.7 / 11.7, in 16 by tiles of 128
// columns 14.3 / 14.9; those for 64 rows of 4096x14336 in 4 39.3 / 34.9.
constexpr i64 kFewRows = 64;
constexpr double kFixUpUs = 3.4;
constexpr double kFixUpOfFewUs = 1.2;
constexpr double kSplitEfficiency = 0.92;
constexpr double kIdleSmsCost = 0.45;

// Two CTAs that share B wait for each other.
constexpr double kClusterCost = 1.09;

// Few rows: L2 -> all SMs together, bytes per us (H200, 17 to 64 rows: X that every CTA reads again
// costs as W does; 2048x28672 with 64 rows and 64 columns a CTA, 235 MB: 37 us; 512x28672, 59 MB:
// 10 us without the fix-up).
constexpr double kL2BytesPerUs = 5.7e6;

// CTAs in pairs: what one SM draws of a stream; a kernel's start and end, alone and in a cluster;
// what each CTA of that adds, and the rate at which its SM sends and adds sums. Means of plain and
// overlapped launches (H200, us): 2048x4096 weights, 64, 32, 16 rows, clusters of 4: 8.1, 7.0, 6.8;
// 4096x2048, clusters of 2, 64 and 32 rows 7.7, 6.9; 2048x2048, clusters of 4, 5.8, 5.1. With a
// ring of three or four stages 11.8 and 10.0 where six take 8.1; with five, 7168x4096 and 17 rows,
// 18.1 where a stream takes 17.0.
constexpr double kStreamBytesPerClockPerSm = 33.5;
constexpr double kPairLatencyUs = 0.3;
constexpr double kPairStartUs = 1.7;
constexpr double kPartsStartUs = 0.9;
constexpr double kPartUs = 0.15;
constexpr double kClusterBytesPerClock = 40.0;
// Of 32 columns in clusters of two whose ring goes round once more, L2 gives more: 2048x2048, 64
// rows, 5.6 / 4.6 us, by 64 columns in clusters of four 6.1 / 4.6; 1024x2048, 128 rows, 5.1 / 4.4
// and 5.8 / 4.4. With 4096 terms 8.1 / 7.8 and 8.4 / 6.9.
constexpr double kNarrowPairL2BytesPerUs = 8.0e6;
// More CTAs than SMs leave the next kernel's no room: 7168x4096, 17 rows, 64 columns 18.2, and the
// stream of 112 columns 18.5 plain, 15.4 overlapped.
constexpr double kNoRoomUs = 1.2;
// Rings of many rounds let the next kernel in at their end: 7168x2048, 32 rows, 11.1 plain and 10.8
// overlapped, where the stream of 112 columns takes 11.5 and 9.2.
constexpr double kNoOverlapUs = 0.8;
// 32 columns in clusters of eight: 1024x7168, 32 rows, 9.4 / 8.0 where 64 columns take 8.1 / 6.6;
// 512x28672 15.3 / 15.0.
constexpr double kNarrowPartsUs = 1.4;
constexpr int kShallowRing = 6;
constexpr double kShallowRingCost = 1.3;

// CTAs of one tile each, one to an SM, which keep a deep ring: the same rate from L2, bytes per us,
// the part of the copy rate, and what a kernel's ends add to the mean of plain and overlapped
// launches: more with narrow tiles, or else with the sum over two CTAs. H200, plain / overlapped
// us, and the copy rate's: 112 columns 60.9 / 57.5, 54.9 (14336x8192, 64 rows); 224 columns 18.1 /
// 14.8, 13.7 (28672x1024, 32 rows); 56 columns 8.9 / 7.3, 3.4 (7168x1024, 32 rows) and 19.4 / 17.8,
// 13.7 (7168x4096); 128 columns, two CTAs 38.3 / 34.3, 31.4 (8192x8192, 64 rows), 112 columns, two
// CTAs 11.9 / 9.4, 6.9 (7168x2048, 48 rows).
constexpr double kStreamL2BytesPerUs = 7.6e6;
constexpr double kStreamOfOneEfficiency = 0.96;
constexpr double kStreamEndsUs = 1.3;
constexpr double kNarrowStreamUs = 2.5;
constexpr int kNarrowStream = 96;
constexpr double kStreamSumUs = 1.7;

// A tile's epilogue: clocks per sum of the SM (shared memory twice, arithmetic, stores).
constexpr double kEpilogueClocksPerSum = 0.081;

// The part of the dense rate that wgmma keeps, and what narrow instructions lose: m64nN reads 2 KB
// of A and 32 N bytes of B in N / 2 clocks, at 128 bytes a clock, of which the copies take a part.
double wgmma_efficiency(int n) {
  const double clocks = n / 2.0;
  const double reads = (2048 + 32.0 * n) / 128;
  return 0.905 * std::min(1.0, 0.796 * clocks / reads);
}

// Two times that run beside each other: the longer one, and more where both are near.
double together(double a, double b) {
  constexpr double kSharpness = 8.3;
  return std::pow(std::pow(a, kSharpness) + std::pow(b, kSharpness), 1 / kSharpness);
}

// Groups that can have rows; without ragged rows all are one.
i64 filled_groups(const ContractionProblem& problem, const GemmSm90Config& c) {
  return c.ragged == Ragged::kMGrouped ? std::clamp<i64>(problem.size.m, 1, c.num_groups) : 1;
}

// A ragged group ends in a partial row tile, half of it empty as sizes happen to be, and takes one
// at least.
i64 row_tiles(const ContractionProblem& problem, const GemmSm90Config& c) {
  if (c.ragged != Ragged::kMGrouped) return ceil_div(problem.size.m, c.cluster_tile_m());
  const i64 groups = filled_groups(problem, c);
  const double whole =
      static_cast<double>(problem.size.m) / static_cast<double>(groups) / c.cluster_tile_m();
  return static_cast<i64>(std::ceil(static_cast<double>(groups) * std::max(whole + 0.5, 1.0)));
}

i64 output_tiles(const ContractionProblem& problem, const GemmSm90Config& c) {
  const i64 tiles_m = row_tiles(problem, c) * c.cluster_m;
  return problem.size.batch * tiles_m * ceil_div(problem.size.n, c.block_n) * c.split_k;
}

// Clocks that threads take to copy what they do of a stage.
double copy_clocks(const GemmSm90Config& c) {
  const auto clocks = [&](const Sm90Operand& matrix, i32 lines) {
    if (!matrix.by_cp_async) return 0.0;
    const i32 bytes = matrix.memory.copy_bytes;
    const bool rounded = c.math == MathMode::kTF32 && bytes == 4;
    const double piece = rounded ? kRoundedPieceClocks : kPieceClocks;
    return lines * (bytes == 16 ? kChunkClocks : bytes > 2 ? piece : kElementClocks);
  };
  const i32 lines_b = c.tile_b_bytes() / c.kRowBytes;
  return clocks(c.a, c.a_box_rows()) + clocks(c.b, lines_b) + (c.dual ? clocks(c.b2, lines_b) : 0);
}

// A step's products, or the copies by threads where those take longer.
double products_us(const Target& target, const GemmSm90Config& c) {
  const double rate =
      math_tflops(target, c.math) * 1e6 / target.sm_count * wgmma_efficiency(c.block_n);
  const double clock = target.clock_ghz * 1e3;
  return std::max(
      2.0 * c.block_m * c.block_n * c.block_k() * c.num_accumulators() / rate + kStepClocks / clock,
      copy_clocks(c) / clock);
}

bool splits_lines(const MatrixOperand& o, const GemmSm90Config& c) {
  const i64 pitch = (o.k_major ? o.stride_row : o.stride_k) * c.element_bytes();
  return pitch % static_cast<i64>(kLineBytes) != 0;
}

double tile_a_traffic(const ContractionProblem& problem, const GemmSm90Config& c) {
  return c.tile_a_bytes() * (splits_lines(problem.a[0].memory, c) ? kSplitLinesTraffic : 1.0);
}
double tile_b_traffic(const ContractionProblem& problem, const GemmSm90Config& c) {
  return c.num_accumulators() * c.tile_b_bytes() *
         (splits_lines(problem.b[0].memory, c) ? kSplitLinesTraffic : 1.0);
}

// A K split of few rows: CTAs with a part of one tile each, as those of a stream.
bool splits_few_rows(const ContractionProblem& problem, const GemmSm90Config& c) {
  return c.split_k > 1 && problem.size.m <= kFewRows && c.ragged == Ragged::kNone;
}

// What all CTAs draw from L2.
double drawn_bytes(const ContractionProblem& problem, const GemmSm90Config& c) {
  const double steps = static_cast<double>(ceil_div(problem.size.k, c.block_k()));
  const double tiles = static_cast<double>(output_tiles(problem, c) / c.split_k);
  return tiles * steps * (tile_a_traffic(problem, c) + tile_b_traffic(problem, c));
}

// Persistent tiles: the bytes per clock that an SM draws from L2.
double l2_rate(const GemmSm90Config& c) {
  return c.cluster_m == 1 && c.tile_swizzle == kSquareSwizzle ? kSquareSwizzleL2BytesPerClockPerSm
                                                              : kL2BytesPerClockPerSm;
}

// What CTAs that get out of step draw more. Cooperative ones all pause for an epilogue.
double drift(const ContractionProblem& problem, const GemmSm90Config& c, double steps) {
  if (!c.ping_pong || c.cluster_m > 1) return 1.0;
  if (c.ragged == Ragged::kKGrouped) return kRaggedTermsDrift;
  const double results = static_cast<double>(problem.size.batch * problem.size.m * problem.size.n);
  if (problem.size.epilogue_flops <= kLongEpilogueFlops * results) return 1.0;
  return 1.0 + kDriftSteps / std::max(steps, kDriftSteps);
}

double cluster_cost(const GemmSm90Config& c, bool hot) {
  if (!hot) return kClusterCost;
  return c.ragged == Ragged::kMGrouped ? kHotRaggedClusterCost : kHotClusterCost;
}

// Persistent CTAs: `p` has bytes, flops and memory_us.
void predict_persistent(const ContractionProblem& problem, const Target& target,
                        const GemmSm90Config& c, Prediction& p) {
  const double clock = target.clock_ghz * 1e3;  // per microsecond
  const double sms = target.sm_count / c.cluster_m * c.cluster_m;
  const i64 tiles = output_tiles(problem, c);
  const double rounds = std::ceil(static_cast<double>(tiles) / sms);
  const double steps =
      static_cast<double>(ceil_div(ceil_div(problem.size.k, c.block_k()), c.split_k));
  const double stage = tile_a_traffic(problem, c) + tile_b_traffic(problem, c) / c.cluster_m;
  const double products = products_us(target, c);
  const bool hot = rounds * steps * products > kHotUs && c.math != MathMode::kTF32;
  const double rate_l2 = l2_rate(c) * (hot ? kHotL2 : 1.0);
  const double traffic = stage * drift(problem, c, steps) / (rate_l2 * clock);
  double cost = c.cluster_m > 1 ? cluster_cost(c, hot) : 1.0;
  if (hot && !c.ping_pong) cost *= kHotCost;
  const bool streams = problem.size.m <= kFewRows && c.ragged == Ragged::kNone;
  if (streams && c.split_k == 1 && c.block_m * c.block_n * c.num_accumulators() == 64 * 64)
    cost *= kSmallStreamCost;
  const double step = together(products, std::max(traffic, kLatencyUs / c.stages)) * cost;
  const double mainloop = std::max(steps, 1.0) * step;
  // All SMs write at once, each at its share of DRAM.
  const double tile_bytes =
      static_cast<double>(problem.size.epilogue_bytes) / std::max<i64>(tiles, 1);
  const double epilogue =
      std::max(1.0 * c.block_m * c.block_n * c.num_accumulators() * kEpilogueClocksPerSum / clock,
               tile_bytes / (target.dram_gbs * kDramEfficiency * 1e3 / sms));
  const double between = c.ping_pong ? std::max(epilogue - mainloop, 0.0) : epilogue;
  // With one row tile no CTAs share W in L2.
  const bool one_row = c.ragged == Ragged::kNone && problem.size.m <= c.block_m;
  const double rate = splits_few_rows(problem, c) ? kStreamL2BytesPerUs : kL2BytesPerUs;
  const double drawn = one_row ? drawn_bytes(problem, c) / rate : 0;
  p.math_us = kStartUs + std::max(rounds * mainloop, drawn) + rounds * between +
              (c.ping_pong ? epilogue : 0.0) +
              problem.size.epilogue_flops / (target.f32_tflops * 1e6);
  p.waves = static_cast<double>(tiles) / sms;
}

// CTAs with one tile each, two to an SM: the same.
void predict_pairs(const ContractionProblem& problem, const Target& target, const GemmSm90Config& c,
                   Prediction& p) {
  const double clock = target.clock_ghz * 1e3;
  const double ctas = static_cast<double>(output_tiles(problem, c) * c.cluster_k);
  const double per_sm = std::ceil(ctas / target.sm_count);
  const double steps =
      static_cast<double>(ceil_div(ceil_div(problem.size.k, c.block_k()), c.k_slices()));
  const double stage = tile_a_traffic(problem, c) + tile_b_traffic(problem, c);
  const double traffic = stage / (kStreamBytesPerClockPerSm * clock);
  const double latency = kPairLatencyUs / c.stages / std::min(per_sm, 2.0);
  const double mainloop = per_sm * steps * std::max({products_us(target, c), traffic, latency});
  const double sums =
      per_sm * c.a_box_rows() * c.partials_row_bytes() / (kClusterBytesPerClock * clock);
  const double start = c.cluster_k > 1 ? kPartsStartUs + kPartUs * c.cluster_k : kPairStartUs;
  const bool narrow = c.cluster_k == 8 && c.num_accumulators() * c.block_n <= 32;
  const double room = (per_sm > 1 ? kNoRoomUs : 0) +
                      (c.cluster_k == 1 && steps > 3 * c.stages ? kNoOverlapUs : 0) +
                      (narrow ? kNarrowPartsUs : 0);
  const double ends =
      start + sums + room + problem.size.epilogue_bytes / (target.dram_gbs * kDramEfficiency * 1e3);
  const double shallow = steps > c.stages && c.stages < kShallowRing ? kShallowRingCost : 1.0;
  const bool two_rounds = steps > c.stages && steps <= 2 * c.stages;
  const bool narrow_pair = c.cluster_k == 2 && c.num_accumulators() * c.block_n == 32 && two_rounds;
  const double rate = narrow_pair ? kNarrowPairL2BytesPerUs : kL2BytesPerUs;
  p.math_us = shallow * std::max({mainloop, drawn_bytes(problem, c) / rate,
                                  p.memory_us / kStreamEfficiency}) +
              ends + problem.size.epilogue_flops / (target.f32_tflops * 1e6);
  p.waves = ctas / (2.0 * target.sm_count);
}

// CTAs with one tile each, one to an SM: `p` has memory_us.
void predict_streams(const ContractionProblem& problem, const Target& target,
                     const GemmSm90Config& c, Prediction& p) {
  const double ctas = static_cast<double>(output_tiles(problem, c) * c.cluster_k);
  const double rounds = std::ceil(ctas / target.sm_count);
  const double steps =
      static_cast<double>(ceil_div(ceil_div(problem.size.k, c.block_k()), c.k_slices()));
  const double drawn = drawn_bytes(problem, c) / kStreamL2BytesPerUs;
  const double products = rounds * steps * products_us(target, c);
  const double stream = p.memory_us * rounds / kStreamOfOneEfficiency;
  const bool narrow = c.num_accumulators() * c.block_n < kNarrowStream;
  const double more = narrow ? kNarrowStreamUs : c.cluster_k > 1 ? kStreamSumUs : 0;
  p.math_us = std::max({products, drawn, stream}) + kStreamEndsUs + more +
              problem.size.epilogue_flops / (target.f32_tflops * 1e6);
  p.waves = ctas / target.sm_count;
}

}  // namespace

i64 gemm_sm90_output_tiles(const ContractionProblem& problem, const GemmSm90Config& c) {
  return output_tiles(problem, c);
}

Prediction predict_gemm_sm90(const ContractionProblem& problem, const Target& target,
                             const GemmSm90Config& c) {
  Prediction p;
  p.flops = 2.0 * problem.size.batch * problem.size.m * problem.size.n * problem.size.k *
                c.num_accumulators() +
            problem.size.epilogue_flops;
  p.bytes = problem.bytes();
  p.memory_us = p.bytes / (target.dram_gbs * kDramEfficiency * 1e3);
  if (c.cluster_k == 0) {
    predict_persistent(problem, target, c, p);
  } else if (c.ctas_per_sm == 1) {
    predict_streams(problem, target, c, p);
  } else {
    predict_pairs(problem, target, c, p);
  }
  p.floor_us =
      std::max(p.bytes / (target.dram_gbs * 1e3), p.flops / (math_tflops(target, c.math) * 1e6));
  p.launch_us = kLaunchUs;
  if (c.split_k > 1) {
    // Partial sums are written and read once, mostly in L2, by one more kernel.
    const double partial = 8.0 * c.split_k * c.num_accumulators() * problem.size.batch *
                           problem.size.m * problem.size.n;
    p.launch_us +=
        (splits_few_rows(problem, c) ? kFixUpOfFewUs : kFixUpUs) +
        partial / (0.5 * kL2BytesPerClockPerSm * target.clock_ghz * 1e3 * target.sm_count);
  }
  if (c.cluster_k != 0) {
    p.us = p.math_us + p.launch_us;
    return p;
  }
  // A box of a ragged group's tile holds rows of the next groups too.
  const i64 box = c.ragged == Ragged::kMGrouped ? c.block_m / 64 : 1;
  const bool full_boxes = problem.size.m >= kFullBoxRows * box || c.a_rows != 0;
  double stream = full_boxes ? kStreamEfficiency : kEmptyRowsEfficiency;
  const double busy = static_cast<double>(output_tiles(problem, c)) / target.sm_count;
  if (splits_few_rows(problem, c) && c.block_m * c.block_n * c.num_accumulators() == 64 * 64 &&
      busy <= 1) {
    stream = kSplitEfficiency * (1 - kIdleSmsCost * (1 - busy));
  }
  if (splits_lines(problem.a[0].memory, c) || splits_lines(problem.b[0].memory, c))
    stream /= kSplitLinesDram;
  p.us = std::max(p.memory_us / stream + kStartUs, p.math_us) + p.launch_us;
  return p;
}

}  // namespace catenary
