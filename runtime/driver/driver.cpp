// SPDX-License-Identifier: Apache-2.0
// Opens libcuda.so.1 once, resolves the entry points of driver.def by cuGetProcAddress, turns
// results into errors, keeps primary contexts. Or the simulator instead of libcuda. Knows no chain
// and no kernel.
#include "runtime/driver/driver.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "compiler/compile/environment.h"
#include "compiler/compile/shared_library.h"
#include "ir/counted.h"
#include "runtime/driver/api.h"
#include "runtime/driver/simulated_driver.h"
#include "runtime/driver/simulator_advice.h"

namespace catenary::cuda {
namespace {

using GetProcAddress = Result (*)(const char* name, void** pointer, int version,
                                  unsigned long long flags, int* found);

// Set by a fork handler, so that every launch() can check it by one load.
std::atomic<bool> process_forked{false};
std::atomic<const Driver*> overriding_driver{nullptr};
std::atomic<bool> cuda_given{false};  // Driver::get() has returned CUDA's driver
std::atomic<bool> simulator_asked_for{false};

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] { process_forked.store(true, std::memory_order_relaxed); });
  });
}

Expected<Api> resolve(GetProcAddress get) {
  Api api;
  void* pointer = nullptr;
  int found = 0;
#define CATENARY_DRIVER(member, name, version, parameters)                          \
  pointer = nullptr;                                                                \
  if (get(#name, &pointer, version, 0, &found) == kSuccess && pointer != nullptr) { \
    api.member = reinterpret_cast<decltype(Api::member)>(pointer);                  \
  } else if (version <= kMinimumDriver) {                                           \
    return make_error(ErrorCode::kDriverMissing,                                    \
                      "the CUDA driver (libcuda.so.1) lacks " #name                 \
                      ": install a driver for CUDA {}.{} or newer",                 \
                      kMinimumDriver / 1000, kMinimumDriver % 1000 / 10);           \
  }
#include "runtime/driver/driver.def"
#undef CATENARY_DRIVER
  return api;
}

bool is_sticky(Result result) {
  switch (result) {
    case 214:  // uncorrectable ECC
    case 220:  // uncorrectable NVLink
    case 226:  // contained error
    case 700:  // illegal address
    case 702:  // launch timeout
    case 709:  // context is destroyed
    case 710:  // device assert
    case 721:  // tensor memory leak
      return true;
    default:
      // Stack, instruction, alignment, address space, program counter, launch.
      return result >= 714 && result <= 719;
  }
}

}  // namespace

struct Driver::Contexts {
  std::mutex mutex;
  std::vector<std::atomic<Context>> primary;  // by ordinal; null: not retained yet
};

Driver::Driver() : contexts_(std::make_unique<Contexts>()) {}
Driver::~Driver() = default;

bool Driver::forked() { return process_forked.load(std::memory_order_relaxed); }

Expected<std::unique_ptr<Driver>> Driver::open() {
  SharedLibrary library("libcuda.so.1");
  if (!library.is_open()) {
    return make_error(ErrorCode::kDriverMissing,
                      "no CUDA driver: libcuda.so.1 was not found on the loader's path ({}); "
                      "install the NVIDIA driver or add its folder to LD_LIBRARY_PATH{}",
                      library.problem(), kSimulatorAdvice);
  }
  GetProcAddress get = nullptr;
  library.need("cuGetProcAddress_v2", get);
  if (get == nullptr) {
    return make_error(ErrorCode::kDriverMissing,
                      "the CUDA driver (libcuda.so.1) is older than CUDA 12.0: it lacks "
                      "cuGetProcAddress_v2; install a newer driver");
  }
  Expected<Api> api = resolve(get);
  if (!api) return api.takeError();
  return over(*api);
}

Expected<std::unique_ptr<Driver>> Driver::open_simulator() {
  Expected<Api> api = simulator_api();
  if (!api) return api.takeError();
  Expected<std::unique_ptr<Driver>> driver = over(*api);
  if (driver) (*driver)->simulated_ = true;
  return driver;
}

Expected<std::unique_ptr<Driver>> Driver::over(const Api& api) {
  std::unique_ptr<Driver> driver(new Driver);
  driver->api_ = std::make_unique<const Api>(api);
  if (const Result result = api.init(0); result != kSuccess) {
    const ErrorReport report = take_report(driver->error(result, "cuInit"));
    return make_error(ErrorCode::kDriverMissing, "the CUDA driver does not start: {}",
                      report.message);
  }
  watch_forks();
  if (api.driver_get_version(&driver->version_) != kSuccess) driver->version_ = 0;
  const Result result = api.device_get_count(&driver->device_count_);
  if (result != kSuccess || driver->device_count_ == 0) {
    return make_error(ErrorCode::kDriverMissing,
                      "the CUDA driver ({}.{}) sees no device: check nvidia-smi and "
                      "CUDA_VISIBLE_DEVICES{}",
                      driver->version_ / 1000, driver->version_ % 1000 / 10, kSimulatorAdvice);
  }
  driver->contexts_->primary = std::vector<std::atomic<Context>>(driver->device_count_);
  return driver;
}

Expected<const Driver*> Driver::get() {
  if (forked()) {
    return make_error(
        ErrorCode::kDriver,
        "this process was forked after the CUDA driver was opened, and CUDA does not "
        "survive fork(): start workers by exec or spawn, or open it in the child only");
  }
  if (const Driver* driver = overriding_driver.load()) return driver;
  Expected<bool> simulated = simulator_chosen();
  if (!simulated) return simulated.takeError();
  struct Opened {
    std::unique_ptr<Driver> driver;
    ErrorReport problem;
    explicit Opened(Expected<std::unique_ptr<Driver>> result) {
      if (result) {
        driver = std::move(*result);
      } else {
        problem = take_report(result.takeError());
      }
    }
    Expected<const Driver*> get() const {
      if (driver) return driver.get();
      return make_error_text(problem.code, problem.message);
    }
  };
  // Never destroyed: a static object of the program may own a kernel and unload it later.
  if (*simulated) {
    static const Opened& simulator = *new Opened(open_simulator());
    return simulator.get();
  }
  static const Opened& opened = *new Opened(open());
  if (opened.driver) cuda_given = true;
  return opened.get();
}

Error use_simulator() {
  if (!cuda_given) {
    simulator_asked_for = true;
    return Error::success();
  }
  return make_error(
      ErrorCode::kInvalidArgument,
      "the CUDA driver is already in use and cannot be replaced by the simulator: call "
      "use_simulator() first, or set CATENARY_DEVICE=sim");
}

Expected<bool> simulator_chosen() {
  if (simulator_asked_for) return true;
  const std::string name = environment("CATENARY_DEVICE");
  if (name == "sim") return true;
  if (name.empty() || name == "cuda") return false;
  return make_error(ErrorCode::kInvalidArgument, "CATENARY_DEVICE is '{}': set it to sim or cuda",
                    name);
}

Error Driver::error(Result result, const std::string& what) const {
  if (simulated_) {
    if (const auto said = take_simulator_report(result)) {
      return make_error(said->code, "{} failed: {}", what, said->message);
    }
  }
  const char* name = nullptr;
  const char* text = nullptr;
  if (api_->get_error_name(result, &name) != kSuccess || name == nullptr) name = "unknown error";
  if (api_->get_error_string(result, &text) != kSuccess || text == nullptr) text = "no text";
  const std::string fact = fmt::format("{} failed: {} {} ({})", what, name, result, text);
  if (is_sticky(result)) {
    return make_error(ErrorCode::kContextPoisoned,
                      "{}; an earlier kernel or device fault made the context unusable until the "
                      "process ends: restart the process",
                      fact);
  }
  if (result == kErrorOutOfMemory) {
    return make_error(ErrorCode::kOutOfMemory, "{}; free device memory or make the problem smaller",
                      fact);
  }
  if (result == kErrorNoBinaryForGpu || result == kErrorUnsupportedPtxVersion) {
    return make_error(ErrorCode::kArchMismatch, "{}; compile for this device's architecture", fact);
  }
  if (result >= 900 && result <= 908) {
    return make_error(ErrorCode::kNotWarmedCapture,
                      "{}; a stream is being captured: call prepare() before capture", fact);
  }
  return make_error(ErrorCode::kDriver, "{}", fact);
}

int oldest_driver_for(std::string_view compiler_id) {
  llvm::StringRef text(compiler_id.data(), compiler_id.size());
  int major = 0;
  if (!text.consume_front("nvrtc ") || text.split('.').first.getAsInteger(10, major) ||
      major > 999) {
    return kMinimumDriver;
  }
  return std::max(kMinimumDriver, major * 1000);
}

Expected<Context> Driver::primary_context(int ordinal) const {
  if (ordinal < 0 || ordinal >= device_count_) {
    return make_error(ErrorCode::kInvalidArgument,
                      "device {} does not exist: this process sees {}, numbered from 0", ordinal,
                      counted(device_count_, "device"));
  }
  std::atomic<Context>& known = contexts_->primary[ordinal];
  if (Context context = known.load(std::memory_order_acquire)) return context;
  const std::lock_guard lock(contexts_->mutex);
  if (Context context = known.load(std::memory_order_relaxed)) return context;
  Context context = nullptr;
  Device device = 0;
  Result result = api_->device_get(&device, ordinal);
  if (result == kSuccess) result = api_->device_primary_ctx_retain(&context, device);
  if (result != kSuccess) {
    return error(result, fmt::format("opening the primary context of device {}", ordinal));
  }
  known.store(context, std::memory_order_release);
  return context;
}

Expected<ScopedContext> ScopedContext::primary(int ordinal) {
  Expected<const Driver*> driver = Driver::get();
  if (!driver) return driver.takeError();
  Expected<Context> context = (*driver)->primary_context(ordinal);
  if (!context) return context.takeError();
  return push(**driver, *context);
}

Expected<ScopedContext> ScopedContext::unless_current(const Driver& driver, Context context) {
  Context current = nullptr;
  if (driver.api().ctx_get_current(&current) == kSuccess && current == context) {
    return ScopedContext();
  }
  return push(driver, context);
}

Expected<ScopedContext> ScopedContext::push(const Driver& driver, Context context) {
  if (const Result result = driver.api().ctx_push_current(context); result != kSuccess) {
    return driver.error(result, "making the device's primary context current");
  }
  ScopedContext scope;
  scope.active_ = true;
  return scope;
}

ScopedContext::ScopedContext(ScopedContext&& other) noexcept
    : active_(std::exchange(other.active_, false)) {}

ScopedContext::~ScopedContext() {
  if (!active_ || Driver::forked()) return;
  Expected<const Driver*> driver = Driver::get();
  if (!driver) {
    llvm::consumeError(driver.takeError());
    return;
  }
  Context popped = nullptr;
  (*driver)->api().ctx_pop_current(&popped);
}

ScopedDriver::ScopedDriver(std::unique_ptr<const Driver> driver)
    : driver_(std::move(driver)), before_(overriding_driver.exchange(driver_.get())) {}

Expected<ScopedDriver> ScopedDriver::over(const Api& api) {
  Expected<std::unique_ptr<Driver>> driver = Driver::over(api);
  if (!driver) return driver.takeError();
  return ScopedDriver(std::move(*driver));
}

Expected<ScopedDriver> ScopedDriver::simulator() {
  Expected<std::unique_ptr<Driver>> driver = Driver::open_simulator();
  if (!driver) return driver.takeError();
  return ScopedDriver(std::move(*driver));
}

ScopedDriver::~ScopedDriver() {
  if (driver_) overriding_driver.store(before_);
}

}  // namespace catenary::cuda
