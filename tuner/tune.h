// SPDX-License-Identifier: Apache-2.0
// The tuner: for each contraction of a chain, the cost model's choice and its best rivals are
// compiled on all cores, verified, and timed in one contest as parts of the whole chain.
#pragma once

#include "runtime/tuning/tuning_record.h"
#include "tuner/setup.h"

namespace catenary::tuner {

struct TuneOptions {
  TimingOptions timing;  // of one contraction's contest
  int top = 8;           // rivals by predicted time
  int samples = 64;      // compared with the reference, in addition to the corners
  u64 seed = 1;
};

// Nine rounds of batches of 1 ms.
TuneOptions default_tuning();

// A rival replaces the cost model's choice if it is faster by more than this: less is noise.
inline constexpr double kTuneMargin = 0.01;

// The index of the winner. The first candidate is the cost model's choice, which wins if nothing
// was timed.
size_t choose_winner(llvm::ArrayRef<TunedCandidate> candidates);

// Called before each step of a contest, its compilation and its timing: what competes ("kernel: its
// config"), and how many steps of all are done.
using TuneProgress = std::function<void(const std::string& contest, i64 done, i64 all)>;

// A record for each contraction, in the order of the plan. The caller fills in who measured and
// when. Later contractions are timed with the winners of earlier ones. kUnsupported: the chain has
// a symbol, a scalar, an output in place, or no contraction. kMismatch: the cost model's choice is
// wrong.
Expected<std::vector<TuningRecord>> tune_chain(const Session& session, RandomPool& pool,
                                               const VerifiedChain& chain,
                                               const TuneOptions& options,
                                               const TuneProgress& progress);

}  // namespace catenary::tuner
