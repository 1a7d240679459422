// SPDX-License-Identifier: Apache-2.0
// A case in the simulator: its kernel compiled by the host's compiler, its output's bytes back.
#pragma once

#include "compiler/compile/kernel_compiler.h"
#include "tests/instructions/cases.h"

namespace catenary::instructions {

// What both compilers are given for a case.
CompileJob compile_job(const Case& from);

// compile_job() compiled by `compiler`, and loaded.
Expected<std::shared_ptr<const sim::Object>> compile_for_simulator(const KernelCompiler& compiler,
                                                                   const Case& from);

// The output's bytes. kSimulatorFault as simulate() says.
Expected<std::vector<u8>> run_in_simulator(const Case& from,
                                           std::shared_ptr<const sim::Object> object, u64 seed);

}  // namespace catenary::instructions
