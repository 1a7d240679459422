// SPDX-License-Identifier: Apache-2.0
// Device memory of the current context. For tools and tests: the library itself allocates no device
// memory.
#include "runtime/driver/api.h"

namespace catenary::cuda {
namespace {

Expected<const Driver*> in_range(i64 bytes, i64 offset, i64 size) {
  if (bytes < 0 || offset < 0 || offset > size || bytes > size - offset) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "a copy of {} bytes at offset {} leaves the buffer's {} bytes: stay inside it", bytes,
        offset, size);
  }
  return Driver::get();
}

}  // namespace

Expected<DeviceBuffer> DeviceBuffer::allocate(i64 bytes) {
  if (bytes < 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "cannot allocate {} bytes of device memory: give a size of 0 or more", bytes);
  }
  Expected<const Driver*> driver = Driver::get();
  if (!driver) return driver.takeError();
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  const Result result = (*driver)->api().mem_alloc(&buffer.pointer_, bytes);
  if (result != kSuccess) {
    buffer.pointer_ = 0;
    return (*driver)->error(result, fmt::format("allocating {} bytes of device memory", bytes));
  }
  buffer.bytes_ = bytes;
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : pointer_(std::exchange(other.pointer_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(pointer_, other.pointer_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (pointer_ == 0) return;
  Expected<const Driver*> driver = Driver::get();
  if (!driver) {
    llvm::consumeError(driver.takeError());
    return;
  }
  (*driver)->api().mem_free(pointer_);
}

Error DeviceBuffer::upload(const void* data, i64 bytes, i64 offset) {
  Expected<const Driver*> driver = in_range(bytes, offset, bytes_);
  if (!driver) return driver.takeError();
  if (bytes == 0) return Error::success();
  const Result result = (*driver)->api().memcpy_htod(pointer_ + offset, data, bytes);
  if (result == kSuccess) return Error::success();
  return (*driver)->error(result, fmt::format("copying {} bytes to the device", bytes));
}

Error DeviceBuffer::download(void* data, i64 bytes, i64 offset) const {
  Expected<const Driver*> driver = in_range(bytes, offset, bytes_);
  if (!driver) return driver.takeError();
  if (bytes == 0) return Error::success();
  const Result result = (*driver)->api().memcpy_dtoh(data, pointer_ + offset, bytes);
  if (result == kSuccess) return Error::success();
  return (*driver)->error(result, fmt::format("copying {} bytes from the device", bytes));
}

Error DeviceBuffer::fill(u8 byte) {
  Expected<const Driver*> driver = Driver::get();
  if (!driver) return driver.takeError();
  if (bytes_ == 0) return Error::success();
  const Result result = (*driver)->api().memset_d8(pointer_, byte, bytes_);
  if (result == kSuccess) return Error::success();
  return (*driver)->error(result, fmt::format("filling {} bytes of device memory", bytes_));
}

}  // namespace catenary::cuda
