// SPDX-License-Identifier: Apache-2.0
// Device memory and streams for programs that have none of their own. Optional: a launch takes any
// device address and any stream. Part of catenary.hpp. Objects are move-only; one object is not
// thread-safe.
#ifndef CATENARY_DEVICE_HPP
#define CATENARY_DEVICE_HPP

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "Catenary's C++ headers need C++20: compile with -std=c++20 (C: include catenary/catenary.h)"
#else

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "catenary/error.hpp"

namespace ctn {

// The number of devices that this process sees; 0 without a usable driver.
inline int device_count() {
  std::int32_t count = 0;
  const ctn_status status = ctn_device_count(&count);
  if (status != CTN_DRIVER_MISSING) check(status);
  return count;
}

// Makes the simulator the device of this process; CTN_INVALID_ARGUMENT: a GPU is in use.
inline void use_simulator() { check(ctn_device_use_simulator()); }

// Whether the simulator is the device of this process.
inline bool is_simulator() {
  std::int32_t simulator = 0;
  check(ctn_device_is_simulator(&simulator));
  return simulator != 0;
}

// Device memory, aligned to 256 bytes, freed by the destructor.
class Buffer {
 public:
  // `bytes` bytes whose contents are not set; 0 is allowed.
  Buffer(int device, std::size_t bytes) : device_(device), bytes_(bytes) {
    check(ctn_device_alloc(device, bytes, &address_));
  }
  // Copies `data` to the device.
  template <typename T>
  Buffer(int device, const std::vector<T>& data) : Buffer(device, data.size() * sizeof(T)) {
    upload(data.data());
  }
  Buffer(Buffer&& other) noexcept
      : device_(other.device_),
        bytes_(std::exchange(other.bytes_, 0)),
        address_(std::exchange(other.address_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~Buffer() { ctn_device_free(device_, address_); }

  void* get() const { return address_; }        // the device address
  std::size_t bytes() const { return bytes_; }  // the size

  // Copy all bytes, in order with launches on a ctn::Stream; complete on return.
  void upload(const void* from) { check(ctn_device_upload(device_, address_, from, bytes_)); }
  void download(void* to) const { check(ctn_device_download(device_, to, address_, bytes_)); }

 private:
  int device_;
  std::size_t bytes_;
  void* address_ = nullptr;
};

// A stream, destroyed by the destructor; its kernels run to their end.
class Stream {
 public:
  // A stream of device `device`, ordered with its default stream.
  explicit Stream(int device) : device_(device) { check(ctn_stream_create(device, &stream_)); }
  Stream(Stream&& other) noexcept
      : device_(other.device_), stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() { ctn_stream_destroy(device_, stream_); }

  void* get() const { return stream_; }  // a CUstream
  // Waits for all work of the stream.
  void synchronize() const { check(ctn_stream_synchronize(device_, stream_)); }

 private:
  int device_;
  void* stream_ = nullptr;
};

}  // namespace ctn

#endif  // C++20
#endif  // CATENARY_DEVICE_HPP
