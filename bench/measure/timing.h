// SPDX-License-Identifier: Apache-2.0
// The timing protocol. Contenders take turns, A B A B, in rounds; in its turn a contender is
// launched once untimed, so that the queue never runs dry, and then often enough to fill a batch
// between two device events. Launches rotate through `copies` distinct sets of tensors. Where the
// fastest contender is short, all of them are timed as CUDA graphs of 100 launches instead, so that
// the host's launch cost does not count. Knows no chain and no peer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/measure/session.h"
#include "bench/measure/statistics.h"

namespace catenary::bench {

// Something to time: `launch(copy)` enqueues it on the session's stream over tensor set `copy`.
// Must be capturable once it has run.
struct Contender {
  std::string name;
  std::function<Error(int copy)> launch;
};

struct TimingOptions {
  int rounds = 15;
  double batch_us = 2000;      // least time of one batch
  double graph_below_us = 30;  // all contenders run as graphs if the fastest is below this
  int graph_launches = 100;
  int copies = 1;
};

struct Timing {
  Spread us;  // per launch, over the rounds
  bool graph = false;
  i64 launches = 0;  // per round
};

// Times `contenders` against each other. The first error of the driver or of a launch ends it.
Expected<std::vector<Timing>> time_contenders(const Session& session,
                                              llvm::ArrayRef<Contender> contenders,
                                              const TimingOptions& options);

// How many sets of tensors, `bytes` of inputs and weights each, a rotation needs so that each
// launch finds its own evicted: more than twice the L2 in all, within `budget_bytes` of memory for
// sets of `set_bytes`; at least 2 and at most 128.
int rotation_copies(i64 bytes, i64 set_bytes, i64 l2_bytes, i64 budget_bytes);

// Launches of `us` each, in units of `unit`, that fill a batch: at least one unit.
i64 batch_units(double batch_us, double us, int unit);

}  // namespace catenary::bench
