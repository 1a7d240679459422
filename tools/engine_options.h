// SPDX-License-Identifier: Apache-2.0
// Options of the engine, the cache and the tuning store in this command.
#pragma once

#include <CLI/CLI.hpp>

#include "runtime/engine.h"

namespace catenary::tools {

// Warnings of the cache go to stderr; compiled kernels count for the innermost Progress. NVRTC runs
// in a helper process unless CATENARY_HELPER says otherwise. `use_cache` false: --no-cache.
EngineOptions engine_options(bool use_cache);

// --batch-invariant.
void add_batch_invariant(CLI::App& command, bool& option);

// --algebraic-norms, for ChainFile::algebraic_norms.
void add_algebraic_norms(CLI::App& command, bool& option);

// NVRTC as those options say. kNvrtcMissing.
Expected<const KernelCompiler*> nvrtc();

// The same for the cache.
CacheOptions cache_options(bool use_cache);

// The tuning records that an engine with these options reads.
TuningStore tuning_store();

}  // namespace catenary::tools
