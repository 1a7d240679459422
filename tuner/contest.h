// SPDX-License-Identifier: Apache-2.0
// The contest between candidates: each is compiled, verified over poisoned outputs, and timed in
// turns with all others. A candidate that fails has a note instead of a time.
#pragma once

#include "tuner/bound_chain.h"
#include "tuner/candidates.h"
#include "tuner/check.h"

namespace catenary::tuner {

// One candidate in a contest.
struct Entrant {
  Candidate candidate;
  PlanOptions plan;  // what it is compiled with
  std::shared_ptr<const CompiledChain> compiled;
  int registers = 0;  // of its first kernel
  std::optional<Spread> us;
  std::optional<Spread> pdl_us;  // by PDL launches
  bool verified = false;
  std::string note;  // why there is no time
};

// Compiles `chain` by the entrant's plan options. Thread-safe. A failure is in the note.
void compile_entrant(const Session& session, const Chain& chain, Entrant& entrant);

// What all entrants run on.
struct ContestData {
  const Tensors& tensors;
  llvm::ArrayRef<Samples> samples;  // of every output
  int copies = 1;
};

// Poisons copy 0 of the outputs, launches on it and waits.
Error run_poisoned(const Session& session, const ContestData& data, const Contender& contender);

// Verifies every compiled entrant, then times those that are right, and `others`, in turns. With
// `pdl` each entrant is verified and timed by PDL launches as well. Returns the times of `others`.
// An error is a broken context, or a contest that cannot be timed.
Expected<std::vector<Timing>> run_contest(const Session& session,
                                          llvm::MutableArrayRef<Entrant> entrants,
                                          llvm::ArrayRef<Contender> others, const ContestData& data,
                                          const TimingOptions& timing, bool pdl);

}  // namespace catenary::tuner
