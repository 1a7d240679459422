// SPDX-License-Identifier: Apache-2.0
// Device memory and streams of the C ABI and of C++, over a fake driver: its calls and their
// context, what is freed, and the errors.
#include <doctest/doctest.h>

#include <string>

#include "catenary/catenary.hpp"
#include "tests/support/fake_driver.h"

using catenary::cuda::Api;
using catenary::cuda::ScopedDriver;
using catenary::testing::fake;
using catenary::testing::fake_api;

namespace {

int streams = 0;
int synchronized = 0;
int waits = 0;  // for all work

ScopedDriver driver_with_streams() {
  streams = synchronized = waits = 0;
  Api api = fake_api();
  api.stream_create = [](catenary::cuda::Stream* stream, unsigned flags) {
    ++streams;
    *stream = reinterpret_cast<catenary::cuda::Stream>(size_t{4096} + flags);
    return 0;
  };
  api.stream_destroy = [](catenary::cuda::Stream) { return --streams, 0; };
  api.stream_synchronize = [](catenary::cuda::Stream) { return ++synchronized, 0; };
  api.ctx_synchronize = [] { return ++waits, 0; };
  auto driver = ScopedDriver::over(api);
  REQUIRE(static_cast<bool>(driver));
  return std::move(*driver);
}

std::string failure(ctn_status expected, ctn_status got) {
  CHECK(got == expected);
  return ctn_last_error();
}

void contains(const std::string& text, const char* part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("a buffer has a copy of its data and is freed once") {
  const ScopedDriver driver = driver_with_streams();
  CHECK(ctn::device_count() == 2);
  {
    const std::vector<float> data = {1, 2, 3};
    ctn::Buffer buffer(1, data);
    CHECK(buffer.bytes() == 12);
    CHECK(fake().allocated == 1);
    ctn::Buffer moved(std::move(buffer));
    ctn::Buffer other(0, 4);
    other = std::move(moved);
    std::vector<float> back(3);
    other.download(back.data());
    CHECK(back == data);
    // The upload is complete for every stream, and the download waits for all work.
    CHECK(synchronized == 1);
    CHECK(waits == 1);
  }
  CHECK(fake().allocated == 0);
  // Every call ran in the primary context of its device and restored the previous one.
  CHECK(fake().pushed == 0);
  CHECK(fake().calls.front() == "push 101");
}

TEST_CASE("an empty buffer allocates no memory") {
  const ScopedDriver driver = driver_with_streams();
  ctn::Buffer buffer(0, std::vector<float>());
  CHECK(buffer.get() == nullptr);
  buffer.download(nullptr);
  CHECK(fake().allocated == 0);
}

TEST_CASE("a stream is blocking, so that copies and launches keep their order") {
  const ScopedDriver driver = driver_with_streams();
  {
    ctn::Stream stream(0);
    CHECK(stream.get() == reinterpret_cast<void*>(4096));  // flags 0
    stream.synchronize();
    ctn::Stream moved(std::move(stream));
    CHECK(streams == 1);
  }
  CHECK(streams == 0);
  CHECK(synchronized == 1);
}

TEST_CASE("errors of the driver name the value") {
  const ScopedDriver driver = driver_with_streams();
  void* address = nullptr;
  fake().alloc_result = 2;
  contains(failure(CTN_OUT_OF_MEMORY, ctn_device_alloc(0, 4096, &address)), "4096 bytes");
  CHECK(address == nullptr);
  contains(failure(CTN_INVALID_ARGUMENT, ctn_device_alloc(7, 4096, &address)), "device 7");
  contains(failure(CTN_INVALID_ARGUMENT, ctn_device_upload(0, nullptr, &address, 8)), "to is null");
  contains(failure(CTN_INVALID_ARGUMENT, ctn_device_download(0, &address, nullptr, 8)),
           "from is null");
  contains(failure(CTN_INVALID_ARGUMENT, ctn_stream_create(0, nullptr)), "stream is null");
  contains(failure(CTN_INVALID_ARGUMENT, ctn_device_count(nullptr)), "count is null");
  CHECK(fake().pushed == 0);
}

TEST_CASE("freeing does not change the last error") {
  const ScopedDriver driver = driver_with_streams();
  contains(failure(CTN_INVALID_ARGUMENT, ctn_device_count(nullptr)), "count is null");
  int there = 0;
  ctn_device_free(7, &there);
  ctn_stream_destroy(7, &there);
  contains(ctn_last_error(), "count is null");
}
