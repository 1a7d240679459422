// SPDX-License-Identifier: Apache-2.0
// C ABI: device memory and streams of a device's primary context, for programs that have none of
// their own. Knows no chain; the rest of the library does not use it.
#include "runtime/c_api/c_api.h"
#include "runtime/driver/api.h"

namespace catenary::c_api {
namespace {

using cuda::Api;
using cuda::DevicePtr;
using cuda::Driver;
using cuda::Result;

DevicePtr device_ptr(const void* address) { return reinterpret_cast<DevicePtr>(address); }

// Runs `call`, which returns a driver's Result, with the primary context of the device current.
template <typename Call>
Error on_device(int ordinal, const std::string& what, const Call& call) {
  Expected<cuda::ScopedContext> scope = cuda::ScopedContext::primary(ordinal);
  if (!scope) return scope.takeError();
  Expected<const Driver*> driver = Driver::get();
  if (!driver) return driver.takeError();
  const Result result = call((*driver)->api());
  if (result == cuda::kSuccess) return Error::success();
  return (*driver)->error(result, what);
}

}  // namespace
}  // namespace catenary::c_api

using namespace catenary;
using namespace catenary::c_api;

ctn_status ctn_device_count(int32_t* count) {
  return guarded([&]() -> Error {
    if (Error error = require(count, "count")) return error;
    Expected<const Driver*> driver = Driver::get();
    if (!driver) return driver.takeError();
    *count = (*driver)->device_count();
    return Error::success();
  });
}

ctn_status ctn_device_use_simulator(void) {
  return guarded([] { return cuda::use_simulator(); });
}

ctn_status ctn_device_is_simulator(int32_t* simulator) {
  return guarded([&]() -> Error {
    if (Error error = require(simulator, "simulator")) return error;
    Expected<bool> chosen = cuda::simulator_chosen();
    if (!chosen) return chosen.takeError();
    *simulator = *chosen ? 1 : 0;
    return Error::success();
  });
}

ctn_status ctn_device_alloc(int32_t device, size_t bytes, void** address) {
  return guarded([&]() -> Error {
    if (Error error = require(address, "address")) return error;
    DevicePtr pointer = 0;
    if (Error error = on_device(device, fmt::format("allocating {} bytes of device memory", bytes),
                                [&](const Api& api) {
                                  return bytes == 0 ? cuda::kSuccess
                                                    : api.mem_alloc(&pointer, bytes);
                                })) {
      return error;
    }
    *address = reinterpret_cast<void*>(pointer);
    return Error::success();
  });
}

void ctn_device_free(int32_t device, void* address) {
  if (address == nullptr) return;
  quietly([&] {
    return on_device(device, "freeing device memory",
                     [&](const Api& api) { return api.mem_free(device_ptr(address)); });
  });
}

ctn_status ctn_device_upload(int32_t device, void* to, const void* from, size_t bytes) {
  return guarded([&]() -> Error {
    if (bytes == 0) return Error::success();
    if (Error error = require(to, "to", from, "from")) return error;
    return on_device(device, fmt::format("copying {} bytes to the device", bytes),
                     [&](const Api& api) {
                       const Result copied = api.memcpy_htod(device_ptr(to), from, bytes);
                       // The copy may return once pageable memory is staged, and only the default
                       // stream and blocking ones are ordered after it.
                       return copied == cuda::kSuccess ? api.stream_synchronize(nullptr) : copied;
                     });
  });
}

ctn_status ctn_device_download(int32_t device, void* to, const void* from, size_t bytes) {
  return guarded([&]() -> Error {
    if (bytes == 0) return Error::success();
    if (Error error = require(to, "to", from, "from")) return error;
    return on_device(
        device, fmt::format("copying {} bytes from the device", bytes), [&](const Api& api) {
          // A copy is not ordered after launches on non-blocking streams.
          const Result waited = api.ctx_synchronize();
          return waited == cuda::kSuccess ? api.memcpy_dtoh(to, device_ptr(from), bytes) : waited;
        });
  });
}

ctn_status ctn_stream_create(int32_t device, void** stream) {
  return guarded([&]() -> Error {
    if (Error error = require(stream, "stream")) return error;
    cuda::Stream created = nullptr;
    // Flags 0, a blocking stream: copies on the default stream and its launches are ordered.
    if (Error error = on_device(device, "creating a stream",
                                [&](const Api& api) { return api.stream_create(&created, 0); })) {
      return error;
    }
    *stream = created;
    return Error::success();
  });
}

ctn_status ctn_stream_synchronize(int32_t device, void* stream) {
  return guarded([&] {
    return on_device(device, "waiting for a stream", [&](const Api& api) {
      return api.stream_synchronize(static_cast<cuda::Stream>(stream));
    });
  });
}

void ctn_stream_destroy(int32_t device, void* stream) {
  if (stream == nullptr) return;
  quietly([&] {
    return on_device(device, "destroying a stream", [&](const Api& api) {
      return api.stream_destroy(static_cast<cuda::Stream>(stream));
    });
  });
}
