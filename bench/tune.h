// SPDX-License-Identifier: Apache-2.0
// The tuner: of each contraction of a chain the cost model's choice and its best rivals, compiled
// on all cores, checked like any result, timed in one contest as parts of the whole chain.
#pragma once

#include "bench/measure/run_case.h"
#include "runtime/tuning/tuning_record.h"

namespace catenary::bench {

struct TuneOptions {
  TimingOptions timing;  // of one contraction's contest
  int top = 8;           // rivals by predicted time
  int samples = 64;      // compared with the reference, beside the corners
  u64 seed = 1;
};

// Nine rounds of batches of 1 ms.
TuneOptions default_tuning();

// A rival takes the cost model's place if it is faster by more than this: less is noise.
inline constexpr double kTuneMargin = 0.01;

// The winner among `candidates`, of which the first is the cost model's choice. Nothing was timed:
// 0.
size_t choose_winner(llvm::ArrayRef<TunedCandidate> candidates);

// A record for each contraction, in the order of the plan; who measured and when is the caller's to
// fill in. Contractions after the first run beside the winners before them. `progress` gets a
// line per contest. kUnsupported: the chain has a symbol, a scalar, several outputs, or no
// contraction. kMismatch: the cost model's choice is wrong.
Expected<std::vector<TuningRecord>> tune_chain(
    const Session& session, RandomPool& pool, const VerifiedChain& chain,
    const TuneOptions& options, const std::function<void(const std::string& line)>& progress);

}  // namespace catenary::bench
