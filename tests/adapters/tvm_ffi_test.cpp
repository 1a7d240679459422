// SPDX-License-Identifier: Apache-2.0
// The functions of tvm-ffi as TVM's runtime calls them, on the simulator as the GPU: the workspace,
// and what a wrong call says.
#include "adapters/tvm_ffi/tvm_ffi.h"

#include <string>

#include "catenary/device.hpp"
#include "catenary/dlpack.hpp"
#include "tests/support/simulated_device.h"

using namespace catenary::tvm_ffi;

extern "C" {
int __tvm_ffi_prepare(void* handle, const Any* arguments, int32_t count, Any* result);
int __tvm_ffi_run(void* handle, const Any* arguments, int32_t count, Any* result);
int __tvm_ffi_workspace_bytes(void* handle, const Any* arguments, int32_t count, Any* result);
// TVM's, which an error is set by.
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
}

namespace {

std::string last_error;

// Two kernels, and h between them in the workspace.
constexpr char kMlp[] =
    "chain mlp(input x: bf16[4, 64], weight a: bf16[64, 64], weight b: bf16[64, 64]) {\n"
    "  h = cast(relu(contract \"mk,nk->mn\"(x, a)), bf16)\n"
    "  y = contract \"mk,nk->mn\"(h, b)\n  return y: f32\n}\n";

Any integer(int64_t value) { return {kInt, 0, {.integer = value}}; }
Any text(const char* value) { return {kRawText, 0, {.text = value}}; }

using Function = int (*)(void*, const Any*, int32_t, Any*);

// The error's text; empty: the call succeeded.
std::string call(Function function, const std::vector<Any>& arguments, int64_t* result = nullptr) {
  Any answer{};
  last_error.clear();
  const int status =
      function(nullptr, arguments.data(), static_cast<int32_t>(arguments.size()), &answer);
  if (result != nullptr) *result = answer.integer;
  CHECK((status == 0) == last_error.empty());
  return last_error;
}

bool has(const std::string& all, const std::string& part) {
  CAPTURE(all);
  return all.find(part) != std::string::npos;
}

// A contiguous tensor on device 0.
struct DeviceTensor {
  DeviceTensor(std::vector<int64_t> sizes, int bits)
      : shape(std::move(sizes)), memory(0, bytes_of(shape, bits)) {
    view.data = memory.get();
    view.device_type = kCuda;
    view.ndim = static_cast<int32_t>(shape.size());
    view.code = bits == 16 ? 4 : bits == 8 ? 1 : 2;
    view.bits = static_cast<uint8_t>(bits);
    view.shape = shape.data();
    const std::vector<char> zeros(memory.bytes());
    memory.upload(zeros.data());
  }
  static size_t bytes_of(const std::vector<int64_t>& sizes, int bits) {
    size_t bytes = static_cast<size_t>(bits) / 8;
    for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
    return bytes;
  }
  Any any() { return {kDLTensor, 0, {.pointer = &view}}; }
  std::vector<int64_t> shape;
  ctn::Buffer memory;
  ctn::DLPackTensor view;
};

}  // namespace

void TVMFFIErrorSetRaisedFromCStr(const char*, const char* message) { last_error = message; }

TEST_CASE("a call with too few arguments says how many it got") {
  int64_t key = 0;
  REQUIRE(call(__tvm_ffi_prepare, {text(kMlp), integer(kCpu), integer(0)}, &key) == "");
  CHECK(has(call(__tvm_ffi_run, {}), "got 0 arguments: call run(key"));
  CHECK(has(call(__tvm_ffi_run, {integer(key)}), "got 1 arguments: call run(key"));
  Any tensor{kDLTensor, 0, {.pointer = nullptr}};
  CHECK(has(call(__tvm_ffi_run, {integer(key), tensor, tensor}), "got 3 arguments: call run(key"));
}

TEST_CASE("a device is a number of a device") {
  int64_t key = 0;
  REQUIRE(call(__tvm_ffi_prepare, {text(kMlp), integer(kCpu), integer(0)}, &key) == "");
  for (const int64_t device : {int64_t{-1}, int64_t{1} << 32}) {
    const std::string words = "device_id is " + std::to_string(device);
    CHECK(has(call(__tvm_ffi_prepare, {text(kMlp), integer(kCuda), integer(device)}), words));
    CHECK(has(call(__tvm_ffi_workspace_bytes, {integer(key), integer(device)}), words));
  }
}

TEST_CASE("a launch checks size and device of the workspace") {
  if (catenary::testing::skipped()) return;
  REQUIRE(ctn_device_use_simulator() == CTN_OK);
  int64_t key = 0;
  REQUIRE(call(__tvm_ffi_prepare, {text(kMlp), integer(kCuda), integer(0)}, &key) == "");
  int64_t bytes = 0;
  REQUIRE(call(__tvm_ffi_workspace_bytes, {integer(key), integer(0)}, &bytes) == "");
  REQUIRE(bytes > 0);
  DeviceTensor x({4, 64}, 16), a({64, 64}, 16), b({64, 64}, 16), y({4, 64}, 32);
  const auto run = [&](DeviceTensor* workspace) {
    std::vector<Any> arguments = {integer(key), x.any(), a.any(), b.any(), y.any()};
    if (workspace != nullptr) arguments.push_back(workspace->any());
    return call(__tvm_ffi_run, arguments);
  };
  const std::string need = "the kernels need a workspace of " + std::to_string(bytes) + " bytes";
  CHECK(has(run(nullptr), need + ": pass it after the outputs"));
  DeviceTensor small({bytes - 1}, 8);
  CHECK(has(run(&small), need + ", and it has " + std::to_string(bytes - 1)));
  DeviceTensor right({bytes}, 8);
  CHECK(run(&right) == "");
  int64_t stride = 2;
  right.view.strides = &stride;
  CHECK(has(run(&right), need + ", and it has 0"));
  right.view.strides = nullptr;
  right.view.device_type = kCpu;
  CHECK(has(run(&right), need + " on device 0, and it is on DLPack's device 1, number 0"));
  right.view.device_type = kCuda;
  right.view.device_id = 1;
  CHECK(has(run(&right), "and it is on DLPack's device 2, number 1"));
}
