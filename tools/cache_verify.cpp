// SPDX-License-Identifier: Apache-2.0
#include "tools/cache_verify.h"

#include "ir/counted.h"
#include "runtime/engine.h"
#include "tools/engine_options.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/targets.h"

namespace catenary::tools {
namespace {

struct Comparison {
  llvm::json::Array kernels;
  int equal = 0;
  int different = 0;
  int absent = 0;
};

// What the cache has of a kernel that was compiled without it; null: nothing.
std::shared_ptr<const Cubin> cached(CubinCache& cache, const KernelCompiler& compiler,
                                    const CompiledKernel& kernel, const std::string& arch) {
  const KeyFields fields{kernel.source.body, compiler.header_digest(), arch,
                         compiler.option_text(arch, CompileOptions()), compiler.compiler_id()};
  return cache.find(kernel_key(fields), key_record(fields));
}

Error compare_kernels(CubinCache& cache, const VerifiedChain& chain, const Target& target,
                      Comparison& comparison) {
  Engine engine(engine_options(/*use_cache=*/false));
  Expected<const KernelCompiler*> compiler = engine.compiler();
  if (!compiler) return compiler.takeError();
  const Progress progress(fmt::format("compiling for {}", target.arch));
  auto compiled = engine.compile(chain.chain(), target);
  if (!compiled) return compiled.takeError();
  for (const auto& bucket : (*compiled)->buckets) {
    for (const CompiledKernel& kernel : bucket) {
      const auto entry = cached(cache, **compiler, kernel, target.arch);
      const bool equal = entry && *entry == *kernel.cubin;
      ++(!entry ? comparison.absent : equal ? comparison.equal : comparison.different);
      const char* state = !entry ? "not in the cache" : equal ? "equal" : "DIFFERENT";
      out("{}  {:<9}  {}  {}\n", kernel.key.hex(), target.arch, kernel.source.symbol, state);
      comparison.kernels.push_back(llvm::json::Object{{"key", kernel.key.hex()},
                                                      {"arch", target.arch},
                                                      {"symbol", kernel.source.symbol},
                                                      {"cached", entry != nullptr},
                                                      {"equal", equal}});
    }
  }
  return Error::success();
}

}  // namespace

llvm::json::Value entry_json(const CacheEntryInfo& entry) {
  return llvm::json::Object{{"key", entry.key_hex},
                            {"path", json_string(entry.path)},
                            {"symbol", entry.symbol},
                            {"arch", entry.arch},
                            {"compiler", entry.compiler_id},
                            {"bytes", entry.bytes},
                            {"rejection", json_string(entry.rejection)},
                            {"problem", entry.problem}};
}

Error verify_entries(CubinCache& cache, bool remove) {
  auto entries = cache.list();
  if (!entries) return entries.takeError();
  std::vector<std::string> damaged;
  llvm::json::Array list;
  for (const CacheEntryInfo& entry : *entries) {
    if (entry.problem.empty()) continue;
    list.push_back(entry_json(entry));
    damaged.push_back(entry.key_hex);
    out("{}: {}\n", entry.path, entry.problem);
  }
  json_result()["entries"] = static_cast<i64>(entries->size());
  json_result()["damaged"] = std::move(list);
  if (damaged.empty()) {
    out("{} {} sound\n", counted(entries->size(), "entry"), entries->size() == 1 ? "is" : "are");
    return Error::success();
  }
  if (!remove) {
    return make_error(ErrorCode::kMismatch,
                      "{} of {} cache entries are damaged: they are compiled again when they are "
                      "needed, or `catenary cache verify --remove` removes them",
                      damaged.size(), entries->size());
  }
  Expected<int> removed = cache.remove(damaged);
  if (!removed) return removed.takeError();
  json_result()["removed"] = *removed;
  out("removed {} of {}\n", counted(*removed, "damaged entry"), entries->size());
  return Error::success();
}

Error recompile_entries(CubinCache& cache, const VerifiedChain& chain,
                        const std::vector<std::string>& archs) {
  if (cache.directory().empty()) {
    return make_error(ErrorCode::kCacheIo, "there is no disk cache: {}", cache.why_off());
  }
  Expected<std::vector<std::string>> names = target_names(archs);
  if (!names) return names.takeError();
  if (names->empty()) names->push_back("");  // the default target
  Comparison comparison;
  for (const std::string& arch : *names) {
    Expected<Target> target = choose_target(arch);
    if (!target) return target.takeError();
    if (Error error = compare_kernels(cache, chain, *target, comparison)) return error;
  }
  json_result()["kernels"] = std::move(comparison.kernels);
  if (comparison.different > 0) {
    return make_error(ErrorCode::kMismatch,
                      "{} of {} {}: `catenary cache clear` removes all entries; find out who "
                      "wrote {}",
                      comparison.different,
                      counted(comparison.different + comparison.equal, "kernel"),
                      comparison.different == 1 ? "differs from its cache entry"
                                                : "differ from their cache entries",
                      comparison.different == 1 ? "this one" : "these");
  }
  if (comparison.equal == 0) {
    return make_error(ErrorCode::kCacheIo,
                      "chain '{}' has {}, and {} has none of them: compile the chain for the "
                      "same --arch first",
                      chain.chain().name, counted(comparison.absent, "kernel"), cache.directory());
  }
  out("{} equal to {}\n",
      comparison.equal == 1 ? "1 kernel is" : fmt::format("{} kernels are", comparison.equal),
      comparison.equal == 1 ? "its entry" : "their entries");
  return Error::success();
}

}  // namespace catenary::tools
