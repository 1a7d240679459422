// SPDX-License-Identifier: Apache-2.0
// `catenary doctor`: what this machine has and lacks for compiling and running chains.
#include <CLI/CLI.hpp>

#include <memory>

#include "compiler/compile/helper/options.h"
#include "compiler/compile/host_compiler.h"
#include "compiler/compile/templates.h"
#include "ir/counted.h"
#include "ir/temporary_folder.h"
#include "runtime/cache/cache.h"
#include "runtime/driver/driver.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/engine_options.h"
#include "tools/files.h"
#include "tools/folder_facts.h"
#include "tools/output.h"

namespace catenary::tools {
namespace {

constexpr const char* kKnownArchs[] = {"sm_80",   "sm_86",   "sm_87",   "sm_89",  "sm_90a",
                                       "sm_100a", "sm_103a", "sm_120a", "sm_121a"};

void print_row(const char* label, const std::string& text) { out("{:<10}{}\n", label, text); }

void print_build() {
  print_row("catenary", CATENARY_VERSION);
  json_result()["version"] = CATENARY_VERSION;
  json_result()["templates"] = std::string(templates_digest());
  print_row("built", fmt::format("g++ {}, templates {}", __VERSION__,
                                 std::string(templates_digest()).substr(0, 16)));
}

// Where NVRTC runs.
void print_helper() {
  Expected<HelperOptions> options = with_environment(engine_options(true).helper);
  if (options && options->use != HelperUse::kOff) {
    if (Expected<std::string> program = find_helper(*options)) {
      json_result()["helper"] = json_string(*program);
      print_row("", "in the helper process " + *program);
      return;
    } else {
      llvm::consumeError(program.takeError());
    }
  } else if (!options) {
    llvm::consumeError(options.takeError());
  }
  json_result()["helper"] = nullptr;
  print_row("", "in the process of the command");
}

// True if kernels can be compiled.
bool print_nvrtc(std::vector<std::string>& advice) {
  Expected<const KernelCompiler*> nvrtc = tools::nvrtc();
  if (!nvrtc) {
    print_row("NVRTC", "missing");
    json_result()["nvrtc"] = nullptr;
    advice.push_back(take_report(nvrtc.takeError()).message);
    return false;
  }
  std::string archs;
  llvm::json::Array list;
  for (const char* arch : kKnownArchs) {
    if (!(*nvrtc)->supports(arch)) continue;
    archs += fmt::format("{}{}", archs.empty() ? "" : ", ", arch);
    list.push_back(arch);
  }
  json_result()["nvrtc"] = llvm::json::Object{{"id", (*nvrtc)->compiler_id()},
                                              {"path", json_string((*nvrtc)->path())},
                                              {"archs", std::move(list)}};
  print_row("NVRTC", fmt::format("{} at {}", (*nvrtc)->compiler_id(), (*nvrtc)->path()));
  print_row("", "compiles for " + archs);
  print_helper();
  return true;
}

// Returns the device's member of --json.
llvm::json::Value print_device(int ordinal, std::vector<std::string>& advice) {
  Expected<cuda::DeviceInfo> info = cuda::probe(ordinal);
  if (!info) {
    print_row("device", fmt::format("{}: not usable", ordinal));
    advice.push_back(take_report(info.takeError()).message);
    return llvm::json::Object{{"ordinal", ordinal}, {"usable", false}};
  }
  print_row("device", fmt::format("{}: {}, {}, {} SMs, {} of memory; planned for as {}", ordinal,
                                  info->name, info->target.arch, info->target.sm_count,
                                  bytes_text(info->memory_bytes), info->target.name));
  return llvm::json::Object{{"ordinal", ordinal},
                            {"usable", true},
                            {"name", info->name},
                            {"arch", info->target.arch},
                            {"sm_count", info->target.sm_count},
                            {"memory_bytes", info->memory_bytes},
                            {"target", info->target.name}};
}

// True if kernels can run in the simulator.
bool print_host_compiler(std::vector<std::string>& advice) {
  Expected<const HostCompiler*> compiler = HostCompiler::get();
  if (!compiler) {
    print_row("simulator", "missing: no C++ compiler");
    json_result()["simulator"] = nullptr;
    advice.push_back(take_report(compiler.takeError()).message);
    return false;
  }
  json_result()["simulator"] = llvm::json::Object{{"compiler", (*compiler)->compiler_id()},
                                                  {"path", json_string((*compiler)->path())}};
  print_row("simulator", fmt::format("kernels compiled by {} at {}", (*compiler)->compiler_id(),
                                     (*compiler)->path()));
  return true;
}

void print_driver(bool simulates, std::vector<std::string>& advice) {
  Expected<const cuda::Driver*> driver = cuda::Driver::get();
  if (!driver) {
    print_row("driver", fmt::format("missing: chains compile, and run {}",
                                    simulates ? "in the simulator" : "by the reference only"));
    advice.push_back(take_report(driver.takeError()).message);
    json_result()["driver"] = nullptr;
    return;
  }
  json_result()["driver"] =
      llvm::json::Object{{"simulated", (*driver)->simulated()}, {"version", (*driver)->version()}};
  print_row("driver", (*driver)->simulated()
                          ? "the simulator (CATENARY_DEVICE=sim)"
                          : fmt::format("CUDA {}.{}", (*driver)->version() / 1000,
                                        (*driver)->version() % 1000 / 10));
  llvm::json::Array devices;
  for (int i = 0; i < (*driver)->device_count(); ++i) devices.push_back(print_device(i, advice));
  json_result()["devices"] = std::move(devices);
}

void print_cache(std::vector<std::string>& advice) {
  CacheOptions options = cache_options(true);
  std::vector<std::string> warnings;
  options.warn = [&warnings](const std::string& text) { warnings.push_back(text); };
  const CubinCache cache(std::move(options));
  for (const std::string& text : warnings) {
    if (text != cache.why_off()) advice.push_back(text);
  }
  if (cache.directory().empty()) {
    print_row("cache", "in memory only");
    json_result()["cache"] = nullptr;
    advice.push_back("compiled kernels are not kept on disk: " + cache.why_off());
    return;
  }
  auto entries = cache.list();
  if (!entries) {
    print_row("cache", fmt::format("{}: not usable", cache.directory()));
    advice.push_back(take_report(entries.takeError()).message);
    return;
  }
  i64 bytes = 0;
  int damaged = 0;
  for (const CacheEntryInfo& entry : *entries) {
    bytes += entry.bytes;
    damaged += entry.problem.empty() ? 0 : 1;
  }
  json_result()["cache"] = llvm::json::Object{{"directory", json_string(cache.directory())},
                                              {"entries", static_cast<i64>(entries->size())},
                                              {"bytes", bytes},
                                              {"damaged", damaged},
                                              {"facts", folder_facts(cache.directory())}};
  print_row("cache", fmt::format("{}: {}, {}", cache.directory(), counted(entries->size(), "entry"),
                                 bytes_text(bytes)));
  print_row("", folder_facts(cache.directory()));
  if (damaged > 0) {
    advice.push_back(
        fmt::format("{} cache entries are damaged: `catenary cache verify` names them", damaged));
  }
}

// The folders besides that of the cache.
void print_folders() {
  const TuningStore store = tuning_store();
  if (!store.directory().empty()) {
    json_result()["tuning"] = llvm::json::Object{{"directory", json_string(store.directory())},
                                                 {"facts", folder_facts(store.directory())}};
    print_row("tuning", fmt::format("{}: {}", store.directory(), folder_facts(store.directory())));
  }
  const std::string folder = temporary_folder();
  json_result()["temporary"] =
      llvm::json::Object{{"directory", json_string(folder)}, {"facts", folder_facts(folder)}};
  print_row("temporary", fmt::format("{}: {}", folder, folder_facts(folder)));
}

// A missing NVRTC is an error, a missing GPU is not: only launches need one.
int doctor() {
  std::vector<std::string> advice;
  print_build();
  const bool compiles = print_nvrtc(advice);
  print_driver(print_host_compiler(advice), advice);
  print_cache(advice);
  print_folders();
  for (const std::string& sentence : advice) out("\n- {}\n", sentence);
  llvm::json::Array sentences;
  for (const std::string& sentence : advice) sentences.push_back(json_string(sentence));
  json_result()["advice"] = std::move(sentences);
  if (advice.empty()) out("\nnothing is missing\n");
  return compiles ? 0 : exit_code(ErrorCode::kNvrtcMissing);
}

// For scripts.
int has_device() {
  Expected<const cuda::Driver*> driver = cuda::Driver::get();
  if (driver) {
    return (*driver)->simulated() ? catenary::exit_code(ErrorCode::kDriverMissing) : 0;
  }
  return catenary::exit_code(take_report(driver.takeError()).code);
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "doctor",
      "Print what this machine has for compiling and running chains, and what is missing");
  auto only_device = std::make_shared<bool>(false);
  command->add_flag("--has-device", *only_device,
                    "Print nothing; exit code 0 if there is a usable GPU, else 3");
  add_output_options(*command);
  command->callback(
      [&exit_code, only_device] { exit_code = *only_device ? has_device() : doctor(); });
}

}  // namespace catenary::tools
