// SPDX-License-Identifier: Apache-2.0
// The timing protocol. Contenders take turns in rounds: A B, A B. In its turn a contender is
// launched once untimed, so that the stream is busy, and then until a batch between two device
// events is full. Launches rotate through `copies` distinct sets of tensors. If the fastest
// contender is short, all of them are timed as CUDA graphs instead, so that the host's launch cost
// does not count. Knows no chain and no peer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tuner/session.h"
#include "tuner/statistics.h"

namespace catenary::tuner {

// Something to time: `launch(copy)` enqueues it on the session's stream over tensor set `copy`.
// It must be capturable once it has run.
struct Contender {
  std::string name;
  std::function<Error(int copy)> launch;
};

struct TimingOptions {
  int rounds = 15;
  double batch_us = 2000;      // minimum time of one batch
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

// The number of tensor sets in rotation: with `bytes` of inputs and weights each, more than twice
// the L2 in all, so that every launch finds its own evicted; within `budget_bytes` of memory for
// sets of `set_bytes`; from 2 to 128.
int rotation_copies(i64 bytes, i64 set_bytes, i64 l2_bytes, i64 budget_bytes);

// How many units of `unit` launches, `us` each, fill a batch: at least one.
i64 batch_units(double batch_us, double us, int unit);

}  // namespace catenary::tuner
