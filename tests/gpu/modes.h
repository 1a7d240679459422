// SPDX-License-Identifier: Apache-2.0
// The smaller modes of the suite, one function each. Each returns its first failure as an error
// (kMismatch for a wrong result) and restores the device's state.
#pragma once

#include "tests/gpu/suite.h"

namespace catenary::gpu_suite {

// Runs every chain of sanitizer_cases() once, with a separate allocation per tensor; results are
// not read. For compute-sanitizer, which finds the errors.
Error run_sanitizer_set(Suite& suite);

// Graph capture and 50 replays, launches with PDL, loading during capture.
Error run_capture(Suite& suite);

// PDL: every replay of graphs of 100 kernels with programmatic edges gives the bytes of launches
// without PDL, also after a kernel that triggers early and then stalls, and if a launch overwrites
// the input of the stalled one.
Error run_edges(Suite& suite);

// Batch-invariant chains: rows have the same bits for every M, position and size of groups.
Error run_invariant(Suite& suite);

// Wrong arguments, machine code for another architecture, two threads with one executable.
Error run_errors(Suite& suite);

// The kernels of tests/instructions, against their expectations and the simulator.
Error run_instructions(Suite& suite);

// Tensors of more than 2^31 elements as A, B and D; sampled.
Error run_big(Suite& suite);

}  // namespace catenary::gpu_suite
