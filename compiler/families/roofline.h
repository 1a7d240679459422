// SPDX-License-Identifier: Apache-2.0
// The cost model: families count, this file turns counts and a GPU's rates into microseconds.
//
//   us = start + norm3(norm6(sm, l2, power), latency, dram) + tail + reduction
//
//   sm         k-tiles and epilogues of the busiest SM, one after the other; of a stream, its
//              instructions
//   l2         bytes that all k-tiles draw from L2 / L2's rate
//   power      flop / the rate at the power limit
//   latency    loads that the pipeline's stages do not cover
//   dram       bytes, each operand once / DRAM's rate
//   normP      (a^P + b^P + ..)^(1/P): times of units that run side by side
//   tail       what nothing overlaps: the first load, the last epilogue, the cluster's exchange,
//              CTAs that start after others, places of a weight stream's last round without a CTA
//   reduction  the second kernel of split-K
#pragma once

#include "compiler/kernel_plan.h"
#include "compiler/rates.h"

namespace catenary {

// What one candidate does, at the symbol's upper bound. A unit is a CTA, or a work tile of
// persistent CTAs.
struct Counts {
  double units = 1;            // with splits and the CTAs of cluster split-K
  double units_per_sm = 1;     // of the busiest SM
  double busiest_share = 1;    // bytes from DRAM of the busiest SM over the mean of all
  double resident = 1;         // units that an SM works on at once
  bool persistent = false;     // an SM's units run without a start each
  double k_tiles = 1;          // of a unit
  double stages = 1;           // k-tiles in flight
  double mma_flop = 0;         // of a k-tile, padding included
  double smem_clocks = 0;      // clocks that a k-tile keeps shared memory or the load path busy
  double issue_clocks = 0;     // clocks that a k-tile keeps a warpgroup, or the way from L2, busy
  double l2_bytes = 0;         // of a k-tile
  double register_bytes = 0;   // activations that a unit loads to registers
  double accumulators = 0;     // of a unit's tile
  double epilogue_waits = 0;   // latencies that a unit's epilogue waits for its operands
  bool mma_sync = false;       // mma.sync, not wgmma
  bool streams = false;        // the weights are read once and no MMA limits
  double stream_clocks = 0;    // of a stream's unit: clocks in which an SM issues its instructions
  double stream_waits = 0;     // latencies that a stream waits for activations
  double round_waits = 1;      // of a stream: latencies of each round of CTAs after the first
  double empty_places = 0;     // of a stream's time, lost by places without a CTA, in a first round
                               // too; 0: those of later rounds, of the time of the bytes
  double hidden_start = 0;     // latencies of the start that the kernel before hides
  bool splits_lines = false;   // two CTAs of a stream read parts of one line of weights
  bool ping_pong = false;      // the epilogue overlaps the next mainloop
  double cluster_waits = 0;    // of a k-tile, for the other CTAs of a cluster that shares loads
  bool early_weights = false;  // weights are loaded before the dependency wait
  double round_us = 0;         // of each round of CTAs, which nothing overlaps
  double reread_bytes = 0;     // that all units of a stream load; L2 has no time for W then
  double exchange_bytes = 0;   // a unit's share of a cluster split-K
  double exchange_waits = 0;   // latencies of that exchange
  double partial_bytes = 0;    // of split-K, written and read; 0: none
  double math_share = 1;       // of the 16-bit tensor rate, for tf32, f32 and fp8
};

// `bytes` and `flops` of the whole kernel, each operand once; `floor_tflops`: the peak rate of its
// instruction; `epilogue_flops`: elementwise work.
Prediction predict(const Counts& counts, const Target& target, i64 bytes, double flops,
                   double floor_tflops, double epilogue_flops);

// A kernel without MMA, bound by memory or by the f32 units. `threads`: of the grid; fewer than 512
// an SM do not keep DRAM busy. `narrow`: by what factor its accesses are slower than DRAM.
Prediction predict_elementwise(const Target& target, i64 bytes, double flops, double threads,
                               double narrow = 1);

// Bytes of whole 128-byte lines for each byte of a 128-byte line of a tile, over rows `pitch` bytes
// apart: rows that do not start on a line touch two.
double line_share(i64 pitch);

// Clocks of an SM for one 128-byte line by cp.async in copies of `bytes` (RESULTS sm90-101).
double copy_clocks(int bytes);

// Expected row tiles of M-grouped rows: the mean of equal groups, and of `groups` sizes drawn with
// mean rows / groups, exponentially.
double grouped_row_tiles(double rows, double groups, double tile_rows);

}  // namespace catenary
