// SPDX-License-Identifier: Apache-2.0
// Options of the engine, the cache and the tuning store in this command.
#pragma once

#include "runtime/engine.h"

namespace catenary::tools {

// Warnings of the cache go to stderr; compiled kernels count for the innermost Progress.
// `use_cache` false: --no-cache.
EngineOptions engine_options(bool use_cache);

// The same for the cache.
CacheOptions cache_options(bool use_cache);

// The tuning records that an engine with these options reads.
TuningStore tuning_store();

}  // namespace catenary::tools
