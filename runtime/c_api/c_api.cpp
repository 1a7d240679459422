// SPDX-License-Identifier: Apache-2.0
// C ABI: errors, text, engine, compiled chain. Converts and forwards only.
#include "runtime/c_api/c_api.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "compiler/compile/nvrtc_library.h"
#include "ir/counted.h"
#include "ir/log.h"
#include "ir/names.h"
#include "runtime/c_api/last_error.h"

namespace catenary::c_api {
namespace {

#define CATENARY_SAME(status, code) \
  static_assert(static_cast<int>(status) == static_cast<int>(ErrorCode::code))
CATENARY_SAME(CTN_OK, kOk);
CATENARY_SAME(CTN_INVALID_ARGUMENT, kInvalidArgument);
CATENARY_SAME(CTN_PARSE, kParse);
CATENARY_SAME(CTN_INVALID_CHAIN, kInvalidChain);
CATENARY_SAME(CTN_UNSUPPORTED, kUnsupported);
CATENARY_SAME(CTN_RESOURCE_LIMIT, kResourceLimit);
CATENARY_SAME(CTN_COMPILE_FAILED, kCompileFailed);
CATENARY_SAME(CTN_NVRTC_MISSING, kNvrtcMissing);
CATENARY_SAME(CTN_DRIVER_MISSING, kDriverMissing);
CATENARY_SAME(CTN_ARCH_MISMATCH, kArchMismatch);
CATENARY_SAME(CTN_CACHE_IO, kCacheIo);
CATENARY_SAME(CTN_CORRUPT_ARTIFACT, kCorruptArtifact);
CATENARY_SAME(CTN_NOT_WARMED_CAPTURE, kNotWarmedCapture);
CATENARY_SAME(CTN_CONTEXT_POISONED, kContextPoisoned);
CATENARY_SAME(CTN_OUT_OF_MEMORY, kOutOfMemory);
CATENARY_SAME(CTN_IO, kIo);
CATENARY_SAME(CTN_MISMATCH, kMismatch);
CATENARY_SAME(CTN_DRIVER, kDriver);
CATENARY_SAME(CTN_SIMULATOR_FAULT, kSimulatorFault);
CATENARY_SAME(CTN_HOST_COMPILER_MISSING, kHostCompilerMissing);
CATENARY_SAME(CTN_KERNEL_REJECTED, kKernelRejected);
CATENARY_SAME(CTN_PACK_MISS, kPackMiss);
CATENARY_SAME(CTN_COMPILE_TIMEOUT, kCompileTimeout);
CATENARY_SAME(CTN_COMPILER_ENDED, kCompilerEnded);
CATENARY_SAME(CTN_INTERNAL, kInternal);
#undef CATENARY_SAME

}  // namespace

ctn_status fail_out_of_memory() noexcept {
  set_out_of_memory();
  return CTN_OUT_OF_MEMORY;
}

ctn_status fail_text(ErrorCode code, const char* message) noexcept {
  try {
    if (set_last_error(message, {})) return static_cast<ctn_status>(code);
  } catch (...) {
  }
  return fail_out_of_memory();
}

ctn_status fail(Error error) noexcept {
  try {
    ErrorReport report = take_report(std::move(error));
    if (set_last_error(std::move(report.message), report.at)) {
      return static_cast<ctn_status>(report.code);
    }
  } catch (...) {
  }
  return fail_out_of_memory();
}

Error require(const void* pointer, const char* argument) {
  if (pointer != nullptr) return Error::success();
  return make_error(ErrorCode::kInvalidArgument, "{} is null: pass an address", argument);
}

char* copy_text(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

Error wrong_struct_size(const char* argument, size_t got, size_t want) {
  return make_error(
      ErrorCode::kInvalidArgument,
      "{}->struct_size is {}, and this library knows {} bytes: set it to the struct's "
      "sizeof and set unused fields to zero",
      argument, got, want);
}

Error check_format(ctn_format format) {
  if (format == CTN_TEXT || format == CTN_JSON) return Error::success();
  return make_error(ErrorCode::kInvalidArgument, "format is {}: use CTN_TEXT or CTN_JSON", format);
}

namespace {

constexpr int kMaxSplitK = 16;
// Bytes of the options in the first version of the header; later fields follow.
constexpr size_t kFirstEngineOptions = offsetof(ctn_engine_options, trace_file);

// Where the warnings of CTN_JIT_WARN and CATENARY_JIT=warn go if the user gave no `warn`.
void warn_on_stderr(const std::string& line) {
  std::fputs(fmt::format("catenary: warning: {}\n", line).c_str(), stderr);
}

Expected<LookupOptions> lookup_options(const ctn_engine_options& given) {
  LookupOptions options;
  if (given.jit != CTN_JIT_DEFAULT) options.jit = static_cast<JitMode>(given.jit - CTN_JIT_AUTO);
  options.trace = text_or_empty(given.trace_file);
  Expected<LookupOptions> lookup = with_environment(std::move(options));
  if (lookup && lookup->jit == JitMode::kWarn && given.warn == nullptr) {
    lookup->warn = warn_on_stderr;
  }
  return lookup;
}

EngineOptions engine_options(const ctn_engine_options& given, bool simulated) {
  EngineOptions options;
  const bool host =
      given.backend == CTN_BACKEND_DEVICE ? simulated : given.backend == CTN_BACKEND_SIMULATOR;
  options.backend = host ? Backend::kHost : Backend::kNvrtc;
  options.cache.directory = text_or_empty(given.cache_directory);
  options.cache.mode = static_cast<CacheMode>(given.cache_mode);
  if (given.warn != nullptr) {
    options.cache.warn = [warn = given.warn, user = given.user](const std::string& line) {
      warn(user, line.c_str());
    };
  }
  options.helper.use = static_cast<HelperUse>(given.helper);
  options.helper.program = text_or_empty(given.helper_program);
  options.helper.memory_bytes = given.helper_memory_bytes;
  options.helper.seconds = given.helper_seconds;
  options.nvrtc_build = text_or_empty(given.nvrtc_build);
  options.compile.line_info = given.line_info != 0;
  options.compile.allow_spills = given.allow_spills != 0;
  options.plan.fuse = given.unfused == 0;
  options.plan.split_k = given.split_k;
  options.plan.batch_invariant = given.batch_invariant != 0;
  options.plan.algebraic_norms = given.algebraic_norms != 0;
  options.plan.force_tile = text_or_empty(given.force_tile);
  return options;
}

size_t num_kernels(const ChainRecord& record) {
  size_t count = 0;
  for (const BucketRecord& bucket : record.buckets) count += bucket.kernels.size();
  return count;
}

Expected<const KernelRecord*> find_kernel(const ChainRecord& record, size_t index) {
  size_t left = index;
  for (const BucketRecord& bucket : record.buckets) {
    if (left < bucket.kernels.size()) return &bucket.kernels[left];
    left -= bucket.kernels.size();
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "index {} names no kernel: the compiled chain has {}, counted from 0", index,
                    counted(num_kernels(record), "kernel"));
}

}  // namespace
}  // namespace catenary::c_api

using namespace catenary;
using namespace catenary::c_api;

const char* ctn_version(void) { return CATENARY_VERSION; }

const char* ctn_status_name(ctn_status status) {
  return error_code_name(static_cast<ErrorCode>(status));
}

const char* ctn_last_error(void) { return last_error()->message.c_str(); }
int32_t ctn_last_error_line(void) { return last_error()->at.line; }
int32_t ctn_last_error_column(void) { return last_error()->at.column; }
void ctn_string_free(char* text) { std::free(text); }

ctn_status ctn_set_log(void (*callback)(void* user, ctn_log_level level, const char* line),
                       void* user, ctn_log_level level) {
  return guarded([&]() -> Error {
    if (level < CTN_LOG_OFF || level > CTN_LOG_DEBUG) {
      return make_error(ErrorCode::kInvalidArgument, "level is {}: use a value of ctn_log_level",
                        level);
    }
    set_log(callback, user, static_cast<LogLevel>(level));
    return Error::success();
  });
}

void ctn_reset_log(void) { reset_log(); }

namespace {

// A flag is 0 or 1: another number is that of a field whose memory was not set.
Error check_flags(const ctn_engine_options& given) {
  const std::pair<const char*, int32_t> flags[] = {{"line_info", given.line_info},
                                                   {"allow_spills", given.allow_spills},
                                                   {"unfused", given.unfused},
                                                   {"batch_invariant", given.batch_invariant},
                                                   {"algebraic_norms", given.algebraic_norms}};
  for (const auto& [name, flag] : flags) {
    if (flag == 0 || flag == 1) continue;
    return make_error(ErrorCode::kInvalidArgument, "options->{} is {}: use 0 or 1", name, flag);
  }
  return Error::success();
}

Error check_options(const ctn_engine_options& given) {
  if (Error error = check_flags(given)) return error;
  if (given.cache_mode < CTN_CACHE_READ_WRITE || given.cache_mode > CTN_CACHE_OFF) {
    return make_error(ErrorCode::kInvalidArgument,
                      "options->cache_mode is {}: use a value of ctn_cache_mode", given.cache_mode);
  }
  if (given.split_k < 0 || given.split_k > kMaxSplitK) {
    return make_error(ErrorCode::kInvalidArgument,
                      "options->split_k is {}: use 0 for the cost model's choice, or 1 to {}",
                      given.split_k, kMaxSplitK);
  }
  if (given.jit < CTN_JIT_DEFAULT || given.jit > CTN_JIT_OFF) {
    return make_error(ErrorCode::kInvalidArgument,
                      "options->jit is {}: use a value of ctn_jit_mode", given.jit);
  }
  if (given.helper < CTN_HELPER_ENVIRONMENT || given.helper > CTN_HELPER_REQUIRED) {
    return make_error(ErrorCode::kInvalidArgument,
                      "options->helper is {}: use a value of ctn_helper", given.helper);
  }
  if (given.backend < CTN_BACKEND_DEVICE || given.backend > CTN_BACKEND_SIMULATOR) {
    return make_error(ErrorCode::kInvalidArgument,
                      "options->backend is {}: use a value of ctn_backend", given.backend);
  }
  if (given.helper_memory_bytes < 0 || given.helper_seconds < 0 ||
      given.helper_seconds > kMaxHelperSeconds) {
    return make_error(ErrorCode::kInvalidArgument,
                      "options->helper_memory_bytes is {} and helper_seconds is {}: use 0 for the "
                      "defaults, or a positive number, of seconds at most {}",
                      given.helper_memory_bytes, given.helper_seconds, kMaxHelperSeconds);
  }
  return Error::success();
}

}  // namespace

ctn_status ctn_nvrtc_add_folder(const char* folder) {
  return guarded([&]() -> Error {
    if (Error error = require(folder, "folder")) return error;
    const std::string text = folder;
    // A helper process gets the folders separated by colons.
    if (text.empty() || text.find(':') != std::string::npos) {
      return make_error(ErrorCode::kInvalidArgument,
                        "folder is {}: pass the path of a folder, without a colon", quoted(text));
    }
    add_nvrtc_folder(text);
    return Error::success();
  });
}

ctn_status ctn_engine_create(const ctn_engine_options* options, ctn_engine** engine) {
  return guarded([&]() -> Error {
    if (Error error = require(engine, "engine")) return error;
    ctn_engine_options given{};
    if (options != nullptr) {
      if (Error error = read_struct(options, "options", given, kFirstEngineOptions)) {
        return error;
      }
    }
    if (Error error = check_options(given)) return error;
    // By default kernels are compiled for the device of this process: CUDA's, or the simulator.
    Expected<bool> simulated = cuda::simulator_chosen();
    if (!simulated) return simulated.takeError();
    Expected<LookupOptions> lookup = lookup_options(given);
    if (!lookup) return lookup.takeError();
    EngineOptions made = engine_options(given, *simulated);
    made.lookup = std::move(*lookup);
    *engine = new ctn_engine{Engine(std::move(made))};
    return Error::success();
  });
}

void ctn_engine_destroy(ctn_engine* engine) { delete engine; }

ctn_status ctn_engine_compile(ctn_engine* engine, const ctn_chain* chain, const char* target,
                              ctn_compiled** compiled) {
  return guarded([&]() -> Error {
    if (Error error =
            require(engine, "engine", chain, "chain", target, "target", compiled, "compiled")) {
      return error;
    }
    Expected<Target> found = find_target(target);
    if (!found) return found.takeError();
    auto result = engine->engine.obtain(ordered(*chain), *found);
    if (!result) return result.takeError();
    *compiled = new ctn_compiled{std::move(*result)};
    return Error::success();
  });
}

ctn_status ctn_engine_load(ctn_engine* engine, const ctn_compiled* compiled, int32_t device,
                           void* stream, ctn_executable** executable) {
  return guarded([&]() -> Error {
    if (Error error = require(engine, "engine", compiled, "compiled", executable, "executable")) {
      return error;
    }
    auto result = engine->engine.load(compiled->record, device, static_cast<cuda::Stream>(stream));
    if (!result) return result.takeError();
    *executable = new ctn_executable{std::move(*result)};
    return Error::success();
  });
}

ctn_status ctn_engine_prepare(ctn_engine* engine, const ctn_chain* chain, int32_t device,
                              void* stream, ctn_executable** executable) {
  return guarded([&]() -> Error {
    if (Error error = require(engine, "engine", chain, "chain", executable, "executable")) {
      return error;
    }
    auto result =
        engine->engine.prepare(ordered(*chain), device, static_cast<cuda::Stream>(stream));
    if (!result) return result.takeError();
    *executable = new ctn_executable{std::move(*result)};
    return Error::success();
  });
}

void ctn_compiled_destroy(ctn_compiled* compiled) { delete compiled; }

ctn_status ctn_compiled_explain(const ctn_compiled* compiled, ctn_format format, char** text) {
  return guarded([&]() -> Error {
    if (Error error = require(compiled, "compiled", text, "text")) return error;
    if (Error error = check_format(format)) return error;
    Expected<std::string> result = compiled->record->texts->explain(format == CTN_JSON);
    if (!result) return result.takeError();
    *text = copy_text(*result);
    return Error::success();
  });
}

ctn_status ctn_compiled_kernel_count(const ctn_compiled* compiled, size_t* count) {
  return guarded([&]() -> Error {
    if (Error error = require(compiled, "compiled", count, "count")) return error;
    *count = num_kernels(*compiled->record);
    return Error::success();
  });
}

ctn_status ctn_compiled_kernel(const ctn_compiled* compiled, size_t index, ctn_kernel* kernel) {
  return guarded([&]() -> Error {
    ctn_kernel facts{};
    if (Error error = require(compiled, "compiled")) return error;
    if (Error error = read_struct(kernel, "kernel", facts)) return error;
    Expected<const KernelRecord*> found = find_kernel(*compiled->record, index);
    if (!found) return found.takeError();
    const Cubin& cubin = *(*found)->cubin;
    facts.name = cubin.symbol.c_str();
    facts.arch = cubin.arch.c_str();
    facts.cubin = cubin.image.data();
    facts.cubin_bytes = cubin.image.size();
    facts.threads = (*found)->threads;
    facts.registers = cubin.resources.registers;
    facts.smem_bytes = (*found)->smem_bytes;
    *kernel = facts;
    return Error::success();
  });
}

ctn_status ctn_compiled_kernel_source(const ctn_compiled* compiled, size_t index, char** text) {
  return guarded([&]() -> Error {
    if (Error error = require(compiled, "compiled", text, "text")) return error;
    Expected<const KernelRecord*> found = find_kernel(*compiled->record, index);
    if (!found) return found.takeError();
    Expected<std::string> source = compiled->record->texts->source(index);
    if (!source) return source.takeError();
    *text = copy_text(*source);
    return Error::success();
  });
}
