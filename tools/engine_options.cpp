// SPDX-License-Identifier: Apache-2.0
#include "tools/engine_options.h"

#include <fmt/format.h>

#include <cstdio>

#include "tools/output.h"
#include "tools/progress.h"

namespace catenary::tools {

CacheOptions cache_options(bool use_cache) {
  CacheOptions options;
  if (!use_cache) {
    options.mode = CacheMode::kOff;
    options.directory = "off";  // not empty, so that CATENARY_CACHE does not override the mode
  }
  options.warn = [](const std::string& text) { err("catenary: warning: {}\n", text); };
  return options;
}

EngineOptions engine_options(bool use_cache) {
  EngineOptions options;
  options.cache = cache_options(use_cache);
  options.progress = &Progress::tell_innermost;
  return options;
}

TuningStore tuning_store() {
  CacheOptions cache_options = tools::cache_options(true);
  TuningOptions options;
  options.warn = cache_options.warn;
  const CubinCache cache(std::move(cache_options));
  return TuningStore(std::move(options), cache.directory());
}

}  // namespace catenary::tools
