// SPDX-License-Identifier: Apache-2.0
// What one chain runs on while it is measured: random tensors in rotation, and what its outputs
// should be.
#pragma once

#include "tuner/contest.h"

namespace catenary::tuner {

struct SetupOptions {
  std::vector<i32> ends;  // contents of an i32 parameter
  int copies = 0;         // sets of tensors in rotation; 0: as many as the L2 asks for
  int samples = 64;       // compared with the reference, in addition to the corners
  u64 seed = 1;
};

struct ChainSetup {
  VerifiedChain chain;
  int copies = 0;
  Tensors tensors;
  std::vector<Samples> samples;  // of every output

  ContestData data() const { return {tensors, samples, copies}; }
};

// kOutOfMemory if the sets do not fit in 0.6 of the device's memory.
Expected<ChainSetup> set_up_chain(const Session& session, RandomPool& pool, VerifiedChain chain,
                                  const SetupOptions& options);

// Parses and verifies.
Expected<VerifiedChain> verified_chain(const std::string& text);

}  // namespace catenary::tuner
