// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/suite.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

#include "compiler/compile/host_compiler.h"
#include "compiler/compile/nvrtc.h"
#include "ir/json.h"
#include "ir/random/random.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/driver/simulated_driver.h"
#include "tests/support/fake_driver.h"

namespace catenary::gpu_suite {

namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16] = {};
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

template <typename Count>
llvm::json::Object counts(const std::map<std::string, Count>& map) {
  llvm::json::Object object;
  for (const auto& [name, count] : map) object[name] = count;
  return object;
}

// JSON strings must be UTF-8.
std::string clean(const std::string& text) { return llvm::json::fixUTF8(text); }

}  // namespace

cuda::Api stand_in_api() {
  using namespace cuda;
  Api api = testing::fake_api();
  testing::fake().devices = 1;
  const auto copy = [](auto to, auto from, size_t bytes) {
    if (bytes > 0) std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return kSuccess;
  };
  static const auto copy_bytes = copy;
  // A device's allocations are aligned to 256 bytes and more.
  api.mem_alloc = [](DevicePtr* pointer, size_t bytes) {
    *pointer = reinterpret_cast<DevicePtr>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
    return *pointer == 0 ? 2 : kSuccess;
  };
  api.mem_free = [](DevicePtr pointer) {
    std::free(reinterpret_cast<void*>(pointer));
    return kSuccess;
  };
  api.memcpy_htod_async = [](DevicePtr to, const void* from, size_t bytes, Stream) {
    return copy_bytes(to, const_cast<void*>(from), bytes);
  };
  api.memcpy_dtoh_async = [](void* to, DevicePtr from, size_t bytes, Stream) {
    return copy_bytes(to, from, bytes);
  };
  api.memcpy_dtod_async = [](DevicePtr to, DevicePtr from, size_t bytes, Stream) {
    return copy_bytes(to, from, bytes);
  };
  api.memset_d8_async = [](DevicePtr to, unsigned char byte, size_t bytes, Stream) {
    std::memset(reinterpret_cast<void*>(to), byte, bytes);
    return kSuccess;
  };
  api.stream_create = [](Stream* stream, unsigned) {
    *stream = reinterpret_cast<Stream>(size_t{8});
    return kSuccess;
  };
  api.stream_destroy = [](Stream) { return kSuccess; };
  api.stream_synchronize = [](Stream) { return kSuccess; };
  api.ctx_synchronize = [] { return kSuccess; };
  return api;
}

Expected<std::unique_ptr<Suite>> Suite::open(SuiteOptions options) {
  std::unique_ptr<Suite> suite(new Suite);
  suite->options_ = std::move(options);
  if (suite->options_.rehearse) {
    Expected<cuda::ScopedDriver> stand_in = cuda::ScopedDriver::over(stand_in_api());
    if (!stand_in) return stand_in.takeError();
    suite->stand_in_ = std::make_unique<cuda::ScopedDriver>(std::move(*stand_in));
  }
  if (suite->options_.simulator) {
    if (Error error = cuda::use_simulator()) return error;
  }
  Expected<const cuda::Driver*> driver = cuda::Driver::get();
  if (!driver) return driver.takeError();
  suite->driver_ = *driver;
  Expected<cuda::DeviceInfo> device = cuda::probe(0);
  if (!device) return device.takeError();
  suite->device_ = *device;
  suite->target_ = device->target;
  if (!suite->options_.target.empty()) {
    Expected<Target> row = find_target(suite->options_.target);
    if (!row) return row.takeError();
    suite->target_ = *row;
  }
  Expected<cuda::ScopedContext> context = cuda::ScopedContext::primary(0);
  if (!context) return context.takeError();
  suite->context_ = std::make_unique<cuda::ScopedContext>(std::move(*context));
  const cuda::Result result = suite->api().stream_create(&suite->stream_, cuda::kStreamNonBlocking);
  if (Error error = suite->check(result, "creating a stream")) return error;
  return suite;
}

Suite::~Suite() {
  if (stream_ != nullptr && !context_lost_) api().stream_destroy(stream_);
  context_.reset();
}

Error Suite::check(cuda::Result result, const std::string& what) const {
  if (result == cuda::kSuccess) return Error::success();
  return driver_->error(result, what);
}

CaseList Suite::cases() const {
  const bool twice = options_.against_simulator;
  return {options_.configs, options_.seed, !twice, twice || options_.simulator};
}

Error Suite::schedule(u64 seed) const {
  return simulated() ? cuda::set_simulator_seed(seed) : Error::success();
}

Error Suite::reschedule() { return schedule(schedule_ = mix64(schedule_ + options_.seed)); }

double Suite::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool Suite::out_of_time() const {
  return options_.time_limit > 0 && seconds() >= options_.time_limit;
}

bool Suite::should_stop() const {
  return context_lost_ || out_of_time() ||
         tally_.failures.size() >= static_cast<size_t>(kMaxFailures);
}

void Suite::fail(Failure failure) {
  fmt::print("FAILED {} (seed {})\n  {}\n", failure.name, failure.seed, failure.problem);
  if (!failure.plan.empty()) fmt::print("  plan: {}\n", failure.plan);
  if (!failure.chain.empty()) fmt::print("{}\n", failure.chain);
  std::fflush(stdout);
  tally_.failures.push_back(std::move(failure));
}

void Suite::fail(const std::string& name, Error error) {
  const ErrorReport report = take_report(std::move(error));
  if (report.code == ErrorCode::kContextPoisoned) lose_context();
  fail(Failure{options_.seed, name,
               fmt::format("{}: {}", error_code_name(report.code), report.message), "", ""});
}

void Suite::progress(const std::string& line, bool always) {
  const auto now = std::chrono::steady_clock::now();
  if (!always && now - last_line_ < std::chrono::seconds(3)) return;
  last_line_ = now;
  fmt::print("[{:6.1f} s] {}\n", seconds(), line);
  std::fflush(stdout);
}

EngineOptions Suite::engine_options(const PlanOptions& plan) const {
  EngineOptions options;
  if (simulated()) options.backend = Backend::kHost;
  options.plan = plan;
  options.cache.directory = options_.cache;
  options.cache.mode = options_.cache.empty() ? CacheMode::kOff : CacheMode::kReadWrite;
  return options;
}

Expected<std::string> Suite::compiler_id() const {
  if (simulated()) {
    Expected<const HostCompiler*> compiler = HostCompiler::get();
    if (!compiler) return compiler.takeError();
    return (*compiler)->compiler_id();
  }
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) return nvrtc.takeError();
  return (*nvrtc)->compiler_id();
}

namespace {

llvm::json::Object simulator_record(const SimulatorTally& simulator) {
  return llvm::json::Object{{"configs", simulator.configs},
                            {"equal_configs", simulator.equal_configs},
                            {"exact_elements", simulator.exact_elements},
                            {"exact_equal", simulator.exact_equal},
                            {"real_elements", simulator.real_elements},
                            {"real_equal", simulator.real_equal},
                            {"max_ulp", counts(simulator.max_ulp)},
                            {"worst_share_of_allowed_error", simulator.worst_share},
                            {"worst_case", clean(simulator.worst_case)}};
}

}  // namespace

std::string Suite::record_text() const {
  llvm::json::Array failures;
  for (const Failure& failure : tally_.failures) {
    failures.push_back(llvm::json::Object{{"seed", fmt::to_string(failure.seed)},
                                          {"case", clean(failure.name)},
                                          {"problem", clean(failure.problem)},
                                          {"plan", clean(failure.plan)},
                                          {"chain", clean(failure.chain)}});
  }
  Expected<std::string> compiler = compiler_id();
  if (!compiler) {
    llvm::consumeError(compiler.takeError());
    compiler = std::string("none");
  }
  const Tally& t = tally_;
  llvm::json::Object record{
      {"device", clean(device_.name)},
      {"driver", version_text(driver_->version())},
      {"compiler", clean(*compiler)},
      {"arch", target_.arch},
      {"commit", clean(options_.commit)},
      {"date", today()},
      {"seed", static_cast<i64>(options_.seed)},
      {"configs", t.configs},
      {"passed", t.passed},
      {"failed", t.failed},
      {"skipped", t.skipped},
      {"exact", t.exact},
      {"real_data", t.real_data},
      {"runs", t.runs},
      {"launches", t.launches},
      {"elements", t.elements},
      {"vacuous_elements", t.vacuous},
      {"worst_error_ratio", t.worst_error_ratio},
      {"worst_case", clean(t.worst_case)},
      {"guard_bands", "4096 elements of random NaN on both sides of outputs and workspace"},
      {"poison", "0xff, 0x3f"},
      {"families", counts(t.families)},
      {"dtypes", counts(t.dtypes)},
      {"data", counts(t.data)},
      {"options", counts(t.options)},
      {"modes", counts(t.modes)},
      {"rehearsal", options_.rehearse},
      {"simulator", options_.simulator},
      {"complete", !out_of_time() && !context_lost_},
      {"seconds", seconds()},
      {"failures", std::move(failures)}};
  if (options_.against_simulator) record["against_simulator"] = simulator_record(t.simulator);
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::formatv("{0:2}", llvm::json::Value(std::move(record)));
  return out.str();
}

Error Suite::write_record() const {
  if (options_.record.empty()) return Error::success();
  std::ofstream file(options_.record, std::ios::binary | std::ios::trunc);
  file << record_text() << "\n";
  file.close();
  if (file) return Error::success();
  return make_error(ErrorCode::kIo, "record '{}' cannot be written: check the folder and its space",
                    options_.record);
}

}  // namespace catenary::gpu_suite
