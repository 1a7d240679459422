// SPDX-License-Identifier: Apache-2.0
// Runs a case in the simulator: compiles its kernel with the host compiler, returns the output.
#pragma once

#include "compiler/compile/kernel_compiler.h"
#include "tests/instructions/cases.h"

namespace catenary::instructions {

// The compile job of a case, for both compilers.
CompileJob compile_job(const Case& from);

// compile_job() compiled by `compiler`, and loaded.
Expected<std::shared_ptr<const sim::Object>> compile_for_simulator(const KernelCompiler& compiler,
                                                                   const Case& from);

// The output's bytes. kSimulatorFault as simulate() says.
Expected<std::vector<u8>> run_in_simulator(const Case& from,
                                           std::shared_ptr<const sim::Object> object, u64 seed);

}  // namespace catenary::instructions
