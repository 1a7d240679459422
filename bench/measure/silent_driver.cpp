// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/silent_driver.h"

#include <cstring>

#include "runtime/driver/tensor_map.h"

namespace catenary::bench {
namespace {

using namespace cuda;  // NOLINT: the driver's names

// Null is no handle.
template <typename Handle>
Handle some() {
  return reinterpret_cast<Handle>(size_t{1});
}

Target& target() {
  static Target one;
  return one;
}

int attribute(int which) {
  switch (which) {
    case kDeviceCapabilityMajor:
      return target().compute_capability() / 10;
    case kDeviceCapabilityMinor:
      return target().compute_capability() % 10;
    case kDeviceSmCount:
      return target().sm_count;
    case kDeviceClockRate:
      return static_cast<int>(target().clock_ghz * 1e6);
    case kDeviceSmemPerSm:
      return static_cast<int>(target().smem_per_sm);
    case kDeviceSmemPerCta:
      return static_cast<int>(target().smem_per_cta);
    case kDeviceL2Bytes:
      return static_cast<int>(target().l2_bytes);
    default:
      return 0;
  }
}

void set_device_calls(Api& api) {
  api.init = [](unsigned) { return kSuccess; };
  api.driver_get_version = [](int* version) { return *version = kMinimumDriver, kSuccess; };
  api.get_error_name = [](Result, const char** text) { return *text = "none", kSuccess; };
  api.get_error_string = [](Result, const char** text) { return *text = "none", kSuccess; };
  api.device_get_count = [](int* count) { return *count = 1, kSuccess; };
  api.device_get = [](Device* device, int) { return *device = 0, kSuccess; };
  api.device_get_name = [](char* name, int bytes, Device) {
    return std::strncpy(name, target().name.c_str(), static_cast<size_t>(bytes)), kSuccess;
  };
  api.device_get_attribute = [](int* value, int which, Device) {
    return *value = attribute(which), kSuccess;
  };
  api.device_total_mem = [](size_t* bytes, Device) { return *bytes = 0, kSuccess; };
  api.device_primary_ctx_retain = [](Context* context, Device) {
    return *context = some<Context>(), kSuccess;
  };
  api.ctx_push_current = [](Context) { return kSuccess; };
  api.ctx_pop_current = [](Context*) { return kSuccess; };
}

void set_load_calls(Api& api) {
  api.library_load_data = [](Library* library, const void*, int*, void**, unsigned, int*, void**,
                             unsigned) { return *library = some<Library>(), kSuccess; };
  api.library_unload = [](Library) { return kSuccess; };
  api.library_get_kernel = [](Kernel* kernel, Library, const char*) {
    return *kernel = some<Kernel>(), kSuccess;
  };
  api.kernel_get_function = [](Function* function, Kernel) {
    return *function = some<Function>(), kSuccess;
  };
  api.func_load = [](Function) { return kSuccess; };
  api.func_set_attribute = [](Function, int, int) { return kSuccess; };
  api.tensor_map_encode_tiled = simulated_tensor_map_encode;
  api.stream_is_capturing = [](Stream, int* status) {
    return *status = kCaptureStatusNone, kSuccess;
  };
  api.thread_exchange_stream_capture_mode = [](int*) { return kSuccess; };
}

}  // namespace

Api silent_driver(const Target& device) {
  target() = device;
  Api api;
  set_device_calls(api);
  set_load_calls(api);
  return api;
}

}  // namespace catenary::bench
