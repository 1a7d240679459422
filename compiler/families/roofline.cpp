// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/roofline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace catenary {
namespace {

// Latencies of a CTA that starts after another has ended: launch, first load, drain.
constexpr double kStartLatencies = 3;

// CTAs of a cluster wait for each other before the first load and after the last store (RESULTS
// model-11).
constexpr double kClusterLatencies = 0.5;

// The exponents are those of RESULTS model-1 (3) and model-5 (6).
double norm(double exponent, std::initializer_list<double> times) {
  const double most = std::max(times);
  if (most <= 0) return 0;
  double sum = 0;
  for (const double us : times) sum += std::pow(us / most, exponent);
  return most * std::pow(sum, 1 / exponent);
}

// K-tiles and epilogues of the busiest SM.
double sm_us(const Counts& c, const Target& target, const Rates& rates, double epilogue) {
  if (c.streams) return c.units_per_sm * c.stream_clocks / (target.clock_ghz * 1e3);
  const double rate = rates.mma * c.math_share * (c.mma_sync ? rates.mma_sync : 1.0);
  const double clocks = std::max(c.smem_clocks, c.issue_clocks);
  const double k_tile = std::max(c.mma_flop / rate, clocks / (target.clock_ghz * 1e3)) +
                        c.cluster_waits * rates.cluster_us;
  const double mainloop = c.k_tiles * k_tile;
  // Two ping-pong warpgroups alternate: one has its epilogue while the other has its mainloop.
  const double unit = c.ping_pong ? std::max(mainloop, (mainloop + epilogue) / 2) : mainloop;
  const double resident = c.persistent ? 1 : c.resident;
  const double between = c.ping_pong ? 0 : (c.units_per_sm - 1) * epilogue / resident;
  return c.units_per_sm * unit + between;
}

// The same at the clock of the power limit. It does not rise while SMs wait for the last round or
// for an epilogue; in a single round it does (RESULTS model-17).
double power_us(const Counts& c, const Target& target, const Rates& rates, double epilogue) {
  const double mean = c.units / target.sm_count;
  const bool rounds = c.units_per_sm > 1;
  const double mainloop = c.k_tiles * c.mma_flop * target.sm_count / (rates.power * c.math_share);
  const double resident = c.persistent ? 1 : c.resident;
  const double between = c.ping_pong ? 0 : (c.units_per_sm - 1) * epilogue / resident;
  return (rounds ? c.units_per_sm : mean) * mainloop + std::max(between, 0.0);
}

double latency_us(const Counts& c, const Rates& rates, double rounds) {
  if (c.streams) {
    return rates.latency_us *
           (1 + (c.early_weights ? c.round_waits : kStartLatencies) * (rounds - 1));
  }
  return rates.latency_us * rounds * c.k_tiles / c.stages;
}

// CTAs with MMAs that start after others have ended (RESULTS model-7).
double restart_us(const Counts& c, const Rates& rates, double rounds) {
  if (c.streams || c.persistent) return 0;
  return rates.latency_us * kStartLatencies * std::max(rounds - 1, 0.0);
}

// For a weight stream: rounds of CTAs after the first, places that are empty in the last one, SMs
// that read more than others (RESULTS model-10), lines of W that two CTAs read, and waits for X
// (RESULTS model-17). `busy`: time of the bytes or of the SMs. Places of a first round are empty
// where the SMs that have some take CTAs of the next kernel (RESULTS dequant-5, dequant-17).
double stream_us(const Counts& c, const Rates& rates, double dram, double busy) {
  constexpr double kRound = 0.2;        // latencies
  constexpr double kEmptyPlaces = 0.2;  // of the time of the bytes that they could have read
  constexpr double kUneven = 0.02;
  constexpr double kSplitLines = 0.11;
  constexpr double kMostEmpty = 0.8;  // of the places that CTAs have
  if (!c.streams || !c.early_weights) return 0;
  const double exact = c.units_per_sm / c.resident;
  const double rounds = std::ceil(exact - 1e-9);
  const double empty = rounds / exact - 1;
  const double lost = c.empty_places > 0 ? c.empty_places * busy * std::min(empty, kMostEmpty)
                      : exact > 1        ? kEmptyPlaces * dram * empty
                                         : 0;
  const double lines = c.splits_lines ? kSplitLines : 0;
  return rates.latency_us * (kRound * std::max(rounds - 1, 0.0) + c.stream_waits) + lost +
         dram * (kUneven * (c.busiest_share - 1) + lines);
}

}  // namespace

Prediction predict(const Counts& c, const Target& target, i64 bytes, double flops,
                   double floor_tflops, double epilogue_flops) {
  const Rates rates = rates_of(target);
  const double elementwise = epilogue_flops / (target.f32_tflops * 1e6);
  const double waits = c.epilogue_waits * rates.latency_us;
  const double work =
      c.accumulators / rates.epilogue + elementwise * target.sm_count / std::max(c.units, 1.0);
  // After the loads of a mainloop, a load takes twice as long (RESULTS train-3).
  const double epilogue = c.streams ? 0 : work + 2 * waits;
  const double last_epilogue = c.streams ? elementwise : work + waits;
  const double rounds = c.streams && c.early_weights ? std::max(c.units_per_sm / c.resident, 1.0)
                                                     : std::ceil(c.units_per_sm / c.resident);
  Prediction p;
  p.bytes = bytes;
  p.flops = flops;
  p.start_us = rates.start_us - c.hidden_start * rates.latency_us;
  p.sm_us = sm_us(c, target, rates, epilogue);
  p.l2_us = c.units * c.k_tiles * c.l2_bytes / rates.l2;
  p.power_us = power_us(c, target, rates, epilogue);
  p.latency_us = latency_us(c, rates, rounds);
  p.dram_us = static_cast<double>(bytes) / rates.dram;
  const double side_by_side = norm(6, {p.sm_us, p.l2_us, p.power_us});
  const double cluster =
      rates.latency_us * (c.exchange_waits + (c.cluster_waits > 0 ? kClusterLatencies : 0));
  p.tail_us = (c.early_weights ? 0 : rates.latency_us) + cluster + last_epilogue +
              restart_us(c, rates, rounds) +
              stream_us(c, rates, p.dram_us, std::max(p.dram_us, side_by_side)) +
              std::max(c.units / target.sm_count, 1.0) * c.register_bytes / rates.register_fill +
              c.units_per_sm * c.exchange_bytes / rates.dsmem + c.reread_bytes / rates.l2 +
              std::ceil(rounds - 1e-9) * c.round_us;
  if (c.partial_bytes > 0) p.reduction_us = rates.reduction_us + c.partial_bytes / rates.dram;
  p.waves = c.units / (c.resident * target.sm_count);
  p.floor_us =
      std::max(static_cast<double>(bytes) / (target.dram_gbs * 1e3), flops / (floor_tflops * 1e6));
  p.us = p.start_us + norm(3, {side_by_side, p.latency_us, p.dram_us}) + p.tail_us + p.reduction_us;
  return p;
}

Prediction predict_elementwise(const Target& target, i64 bytes, double flops, double threads,
                               double narrow) {
  constexpr double kFullSm = 512;
  constexpr double kThreadsPerSm = 2048;
  // Latencies of the start that the kernel before hides (RESULTS model-22).
  constexpr double kHiddenStart = 0.57;
  const Rates rates = rates_of(target);
  const double fill = std::min(1.0, threads / (kFullSm * target.sm_count));
  Prediction p;
  p.bytes = bytes;
  p.flops = flops;
  p.start_us = rates.start_us;
  if (target.compute_capability() >= 90) p.start_us -= kHiddenStart * rates.latency_us;
  p.sm_us = flops / (target.f32_tflops * 1e6);
  p.dram_us = narrow * static_cast<double>(bytes) / (rates.dram * std::max(fill, 1e-3));
  p.waves = threads / (kThreadsPerSm * target.sm_count);
  p.floor_us = std::max(static_cast<double>(bytes) / (target.dram_gbs * 1e3), p.sm_us);
  p.us = p.start_us + norm(3, {p.sm_us, p.dram_us});
  return p;
}

double line_share(i64 pitch) {
  constexpr i64 kLine = 128;
  return 2 - static_cast<double>(std::gcd(pitch == 0 ? kLine : pitch, kLine)) / kLine;
}

double copy_clocks(int bytes) {
  if (bytes >= 16) return 2.5;
  return bytes > 2 ? 7.0 : 17.5;
}

double grouped_row_tiles(double rows, double groups, double tile_rows) {
  if (groups <= 0 || rows <= 0) return 0;
  const double unlike = groups / (1 - std::exp(-tile_rows * groups / rows));
  const double equal = groups * std::ceil(rows / groups / tile_rows);
  return (equal + unlike) / 2;
}

}  // namespace catenary
