// SPDX-License-Identifier: Apache-2.0
// A peer ready to run: every GEMM by the fastest of all algorithms that cuBLASLt's heuristic
// returns for it, timed on this device.
#pragma once

#include "bench/cases/cases.h"
#include "bench/tuner.h"

namespace catenary::bench {

struct PeerOptions {
  int algorithms = 32;   // how many to ask for and time
  TimingOptions timing;  // of the contest between them
};

struct ReadyPeer {
  Contender contender;  // owns all that it runs on, but not the case's tensors
  std::string config;   // "algorithm 3 of 8" per distinct GEMM
};

// `tensors`: those of the case, by name. Scratch tensors have as many copies. kUnsupported if
// cuBLASLt has no algorithm that runs.
Expected<ReadyPeer> make_peer(const Session& session, const CublasLt& lt, const Peer& peer,
                              const Tensors& tensors, int copies, const PeerOptions& options);

// The same contest for one GEMM over given addresses: the fastest algorithm and its time.
struct BestAlgorithm {
  int algorithm = 0;
  Timing timing;
};
Expected<BestAlgorithm> best_algorithm(const Session& session, const LtMatmul& matmul,
                                       const std::function<Error(int algorithm, int copy)>& run,
                                       const TimingOptions& options);

}  // namespace catenary::bench
