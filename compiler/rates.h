// SPDX-License-Identifier: Apache-2.0
// What a GPU was measured to do, as the cost model needs it: twelve rates. Per microsecond, unless
// said otherwise.
#pragma once

#include "compiler/target.h"

namespace catenary {

struct Rates {
  double dram = 0;           // bytes, all SMs together
  double l2 = 0;             // bytes that all SMs draw from L2
  double register_fill = 0;  // bytes of activations that one SM loads to registers beside a stream
  double latency_us = 0;     // of a load that nothing covers
  double mma = 0;            // flop of one SM by wgmma, 16-bit operands, boost clock
  double power = 0;          // flop of all SMs at the power limit, 16-bit operands
  double mma_sync = 0;       // share of `mma` that mma.sync reaches
  double cluster_us = 0;     // what a k-tile costs more in a cluster that multicasts
  double start_us = 0;       // of a kernel, with PDL
  double reduction_us = 0;   // of the second kernel of split-K
  double epilogue = 0;       // accumulators that one SM's epilogue handles
  double dsmem = 0;          // bytes of partials that one SM exchanges in a cluster split-K
};

// The row of the target's name, where it has as many SMs; else the H200's rates scaled by the
// target's published figures.
Rates rates_of(const Target& target);

}  // namespace catenary
