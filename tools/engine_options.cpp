// SPDX-License-Identifier: Apache-2.0
#include "tools/engine_options.h"

#include <fmt/format.h>

#include <cstdio>

#include "compiler/compile/environment.h"
#include "compiler/compile/helper/nvrtc_helper.h"
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
  if (environment("CATENARY_HELPER").empty()) options.helper.use = HelperUse::kPreferred;
  options.progress = &Progress::tell_innermost;
  return options;
}

void add_batch_invariant(CLI::App& command, bool& option) {
  command.add_flag("--batch-invariant", option,
                   "Plan so that the bits of a row depend neither on the number of rows nor on "
                   "other rows");
}

void add_algebraic_norms(CLI::App& command, bool& option) {
  command.add_flag("--algebraic-norms", option,
                   "Treat chains as if they had the word algebraic_norms: roundings of normalised "
                   "rows before a product may be dropped");
}

Expected<const KernelCompiler*> nvrtc() {
  const EngineOptions options = engine_options(/*use_cache=*/true);
  return find_nvrtc(options.helper, options.cache.warn);
}

TuningStore tuning_store() {
  CacheOptions cache_options = tools::cache_options(true);
  TuningOptions options;
  options.warn = cache_options.warn;
  const CubinCache cache(std::move(cache_options));
  return TuningStore(std::move(options), cache.directory());
}

}  // namespace catenary::tools
