// SPDX-License-Identifier: Apache-2.0
// The smaller modes of the suite, one function each. Each returns the first thing that is wrong as
// an error (kMismatch where a result is), and leaves the device as it found it.
#pragma once

#include "tests/gpu/suite.h"

namespace catenary::gpu_suite {

// Every chain of sanitizer_cases() once, each tensor an allocation of its own, nothing read back:
// for compute-sanitizer, which does the judging.
Error run_sanitizer_set(Suite& suite);

// Graph capture and 50 replays, programmatic launches, loading during capture.
Error run_capture(Suite& suite);

// Launch edges: graphs of 100 kernels with programmatic edges give, replay after replay, the bytes
// of plain launches, also behind a kernel that triggers early and then stalls, and where a launch
// writes what the stalled one still has to read.
Error run_edges(Suite& suite);

// Wrong arguments, machine code for another architecture, two threads with one executable.
Error run_errors(Suite& suite);

// The kernels of tests/instructions, against their expectations and the simulator.
Error run_instructions(Suite& suite);

// Tensors of more than 2^31 elements as A, B and D; sampled.
Error run_big(Suite& suite);

}  // namespace catenary::gpu_suite
