// SPDX-License-Identifier: Apache-2.0
// Loading by cuLibrary*, see loaded_kernel.h.
#include "runtime/loaded_kernel.h"

#include "compiler/compile/host_compiler.h"

namespace catenary {

using cuda::Api;
using cuda::kSuccess;
using cuda::Result;

Expected<std::shared_ptr<const LoadedKernel>> LoadedKernel::load(const cuda::Driver& driver,
                                                                 const Cubin& cubin,
                                                                 i64 dynamic_smem) {
  const Api& api = driver.api();
  const RelaxedCapture relaxed(driver);
  std::shared_ptr<LoadedKernel> loaded(new LoadedKernel(driver));
  const auto failed = [&](Result result, const char* step) {
    return driver.error(
        result, fmt::format("{} of kernel {} ({})", step, cubin.symbol, arch_words(cubin.arch)));
  };

  Result result = api.library_load_data(&loaded->library_, cubin.image.data(), nullptr, nullptr, 0,
                                        nullptr, nullptr, 0);
  if (result != kSuccess) {
    loaded->library_ = nullptr;
    const int needed = cuda::oldest_driver_for(cubin.compiler_id);
    if (driver.simulated() || driver.version() >= needed) return failed(result, "loading");
    const ErrorReport report = take_report(failed(result, "loading"));
    return make_error(ErrorCode::kArchMismatch,
                      "{}; its machine code is of {} and needs driver {}.{}, and this one is "
                      "{}.{}: install a newer driver, or compile it by an older NVRTC",
                      report.message, message_text(cubin.compiler_id), needed / 1000,
                      needed % 1000 / 10, driver.version() / 1000, driver.version() % 1000 / 10);
  }
  cuda::Kernel kernel = nullptr;
  result = api.library_get_kernel(&kernel, loaded->library_, cubin.symbol.c_str());
  if (result != kSuccess) return failed(result, "looking up the entry");
  // The function belongs to the current (primary) context: a launch needs no current context.
  result = api.kernel_get_function(&loaded->function_, kernel);
  if (result != kSuccess) return failed(result, "getting the function");
  // By default the driver loads at the first launch, which may be captured.
  if (api.func_load != nullptr) {
    result = api.func_load(loaded->function_);
    if (result != kSuccess) return failed(result, "loading");
  }
  if (dynamic_smem > 0) {
    result = api.func_set_attribute(loaded->function_, cuda::kFuncMaxDynamicSharedSize,
                                    static_cast<int>(dynamic_smem));
    if (result != kSuccess) return failed(result, "raising the shared memory limit");
  }
  return loaded;
}

LoadedKernel::~LoadedKernel() {
  if (library_ == nullptr || cuda::Driver::forked()) return;
  const RelaxedCapture relaxed(driver_);
  driver_.api().library_unload(library_);
}

RelaxedCapture::RelaxedCapture(const cuda::Driver& driver) : driver_(driver) {
  exchanged_ = driver_.api().thread_exchange_stream_capture_mode(&mode_) == kSuccess;
}

RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) driver_.api().thread_exchange_stream_capture_mode(&mode_);
}

Error refuse_capture(const cuda::Driver& driver, cuda::Stream stream) {
  int status = cuda::kCaptureStatusNone;
  const Result result = driver.api().stream_is_capturing(stream, &status);
  if (result == kSuccess && status == cuda::kCaptureStatusNone) return Error::success();
  if (result == kSuccess || result == cuda::kErrorStreamCaptureImplicit) {
    return make_error(ErrorCode::kNotWarmedCapture,
                      "cannot compile or load while a stream is being captured: call prepare() "
                      "before capture");
  }
  return driver.error(result, "querying the capture status of the stream");
}

}  // namespace catenary
