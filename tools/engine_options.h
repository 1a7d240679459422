// SPDX-License-Identifier: Apache-2.0
// The engine as the command runs it.
#pragma once

#include "runtime/engine.h"

namespace catenary::tools {

// Cache warnings go to stderr. `use_cache` false: neither reads nor writes it.
EngineOptions engine_options(bool use_cache);

// The same for the cache alone.
CacheOptions cache_options(bool use_cache);

// The tuning records that such an engine reads.
TuningStore tuning_store();

}  // namespace catenary::tools
