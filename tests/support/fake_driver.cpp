// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_driver.h"

#include <cstdlib>
#include <cstring>

#include "runtime/driver/tensor_map.h"

namespace catenary::testing {
namespace {

using cuda::Result;

std::vector<std::string>& kernels() {
  static std::vector<std::string> names;
  return names;
}

void note(std::string call) { fake().calls.push_back(std::move(call)); }

int attribute(int which) {
  switch (which) {
    case cuda::kDeviceCapabilityMajor:
      return fake().capability / 10;
    case cuda::kDeviceCapabilityMinor:
      return fake().capability % 10;
    case cuda::kDeviceSmCount:
      return fake().sm_count;
    case cuda::kDeviceClockRate:
      return 1980000;
    case cuda::kDeviceSmemPerSm:
      return 228 * 1024;
    case cuda::kDeviceSmemPerCta:
      return fake().smem_per_cta;
    case cuda::kDeviceL2Bytes:
      return 60 << 20;
    default:
      return 0;
  }
}

Result launch(const cuda::LaunchConfig* config, cuda::Function function, void** parameters,
              void**) {
  FakeDriver& driver = fake();
  if (driver.fail_launch == static_cast<int>(driver.launches.size())) return driver.launch_result;
  FakeLaunch seen;
  seen.kernel = kernels()[reinterpret_cast<size_t>(function) - 1];
  seen.grid = config->grid_x * config->grid_y * config->grid_z;
  seen.block = config->block_x * config->block_y * config->block_z;
  seen.smem = config->shared_mem_bytes;
  seen.stream = config->stream;
  seen.context_current = driver.pushed > 0;
  for (unsigned i = 0; i < config->num_attributes; ++i) {
    const cuda::LaunchAttribute& attribute = config->attributes[i];
    seen.pdl |= attribute.id == cuda::kAttributeProgrammaticStreamSerialization &&
                attribute.value.programmatic_stream_serialization_allowed == 1;
    if (attribute.id == cuda::kAttributeClusterDimension) seen.cluster = attribute.value.cluster.x;
  }
  const auto* image = static_cast<const unsigned char*>(parameters[0]);
  seen.image.assign(image, image + driver.image_bytes);
  driver.launches.push_back(std::move(seen));
  return 0;
}

void set_device_calls(cuda::Api& api) {
  api.init = [](unsigned) { return fake().init_result; };
  api.driver_get_version = [](int* version) { return *version = fake().version, 0; };
  api.get_error_name = [](Result, const char** text) { return *text = "CUDA_ERROR_FAKE", 0; };
  api.get_error_string = [](Result, const char** text) { return *text = "fake text", 0; };
  api.device_get_count = [](int* count) { return *count = fake().devices, 0; };
  api.device_get = [](cuda::Device* device, int ordinal) { return *device = ordinal, 0; };
  api.device_get_name = [](char* name, int bytes, cuda::Device) {
    return std::strncpy(name, fake().name.c_str(), bytes), 0;
  };
  api.device_get_attribute = [](int* value, int which, cuda::Device) {
    return *value = attribute(which), 0;
  };
  api.device_total_mem = [](size_t* bytes, cuda::Device) { return *bytes = size_t{1} << 37, 0; };
  api.device_primary_ctx_retain = [](cuda::Context* context, cuda::Device device) {
    ++fake().retained;
    *context = reinterpret_cast<cuda::Context>(size_t{100} + device);
    return 0;
  };
  api.ctx_push_current = [](cuda::Context context) {
    note("push " + std::to_string(reinterpret_cast<size_t>(context)));
    return ++fake().pushed, 0;
  };
  api.ctx_pop_current = [](cuda::Context*) { return --fake().pushed, 0; };
  api.ctx_get_current = [](cuda::Context* context) {
    *context = fake().pushed > 0 ? reinterpret_cast<cuda::Context>(size_t{100}) : nullptr;
    return 0;
  };
}

void set_memory_calls(cuda::Api& api) {
  api.mem_alloc = [](cuda::DevicePtr* pointer, size_t bytes) {
    if (fake().alloc_result != 0) return fake().alloc_result;
    ++fake().allocated;
    *pointer = reinterpret_cast<cuda::DevicePtr>(std::malloc(bytes));
    return 0;
  };
  api.mem_free = [](cuda::DevicePtr pointer) {
    --fake().allocated;
    return std::free(reinterpret_cast<void*>(pointer)), 0;
  };
  api.memcpy_htod = [](cuda::DevicePtr to, const void* from, size_t bytes) {
    return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
  };
  api.memcpy_dtoh = [](void* to, cuda::DevicePtr from, size_t bytes) {
    return std::memcpy(to, reinterpret_cast<void*>(from), bytes), 0;
  };
  api.ctx_synchronize = [] { return 0; };
  api.stream_synchronize = [](cuda::Stream) { return 0; };
  api.memset_d8 = [](cuda::DevicePtr to, unsigned char byte, size_t bytes) {
    return std::memset(reinterpret_cast<void*>(to), byte, bytes), 0;
  };
}

void set_kernel_calls(cuda::Api& api) {
  api.library_load_data = [](cuda::Library* library, const void*, int*, void**, unsigned, int*,
                             void**, unsigned) {
    fake().loaded_relaxed &= fake().capture_mode == cuda::kCaptureModeRelaxed;
    note("load");
    *library = reinterpret_cast<cuda::Library>(size_t{1});
    return fake().load_result;
  };
  api.library_unload = [](cuda::Library) { return note("unload"), 0; };
  api.library_get_kernel = [](cuda::Kernel* kernel, cuda::Library, const char* name) {
    kernels().push_back(name);
    *kernel = reinterpret_cast<cuda::Kernel>(kernels().size());
    return fake().get_kernel_result;
  };
  api.kernel_get_function = [](cuda::Function* function, cuda::Kernel kernel) {
    return *function = reinterpret_cast<cuda::Function>(kernel), 0;
  };
  api.func_load = [](cuda::Function function) {
    return note("func_load " + kernels()[reinterpret_cast<size_t>(function) - 1]), 0;
  };
  api.func_set_attribute = [](cuda::Function, int which, int value) {
    return note("attribute " + std::to_string(which) + "=" + std::to_string(value)), 0;
  };
  api.occupancy_max_active_clusters = [](int* clusters, cuda::Function,
                                         const cuda::LaunchConfig* config) {
    note("clusters of " + std::to_string(config->attributes[0].value.cluster.x));
    return *clusters = fake().clusters, fake().clusters_result;
  };
  api.launch_kernel_ex = launch;
  api.tensor_map_encode_tiled = cuda::simulated_tensor_map_encode;
  api.stream_is_capturing = [](cuda::Stream stream, int* status) {
    *status = stream == fake().capturing_stream ? fake().capture_status : 0;
    return fake().capture_result;
  };
  api.thread_exchange_stream_capture_mode = [](int* mode) {
    return std::swap(*mode, fake().capture_mode), 0;
  };
}

}  // namespace

FakeDriver& fake() {
  static FakeDriver driver;
  return driver;
}

cuda::Api fake_api() {
  fake() = FakeDriver();
  kernels().clear();
  cuda::Api api;
  set_device_calls(api);
  set_memory_calls(api);
  set_kernel_calls(api);
  return api;
}

}  // namespace catenary::testing
