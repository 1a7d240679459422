// SPDX-License-Identifier: Apache-2.0
// The custom call as XLA's runtime makes it: what XLA answers with an error stops the call, and the
// error is destroyed.
#include <cstring>

#include "adapters/program/program.h"
#include "adapters/xla/xla_ffi.h"
#include "tests/support/simulated_device.h"

namespace xla = catenary::xla;

extern "C" void* ctn_xla_cuda(void* frame);

// XLA's side of an error.
struct catenary::xla::Error {
  std::string message;
};

namespace {

int live_errors = 0;
bool device_fails = false;
bool stream_fails = false;

xla::Error* made(const std::string& message) {
  ++live_errors;
  return new xla::Error{message};
}

xla::Api fake_api() {
  xla::Api api{};
  api.struct_size = sizeof api;
  api.error_create = [](xla::ErrorCreate* error) { return made(error->message); };
  api.error_message = [](xla::ErrorMessage* error) {
    error->message = error->error->message.c_str();
  };
  api.error_destroy = [](xla::ErrorDestroy* error) {
    --live_errors;
    delete error->error;
  };
  api.stream_get = [](xla::StreamGet*) { return stream_fails ? made("no stream here") : nullptr; };
  api.device_ordinal = [](xla::DeviceOrdinalGet* get) {
    get->ordinal = 0;
    return device_fails ? made("no device here") : nullptr;
  };
  return api;
}

// One call of y = relu(x) on 4 floats.
class Call {
 public:
  Call() {
    const std::string text = "chain c(input x: f32[4]) { y = relu(x) return y: f32 }";
    text_ = text;
    key_ = catenary::adapters::chain_key(ctn::Chain::parse(text_));
    chain_ = {text_.data(), text_.size()};
    frame_.api = &api_;
    frame_.attributes = {sizeof frame_.attributes, nullptr, 3, types_, names_, values_};
    frame_.arguments = {sizeof frame_.arguments, nullptr, 1, nullptr, &in_};
    frame_.results = {sizeof frame_.results, nullptr, 1, nullptr, &out_};
  }

  // The error's message; empty: the call succeeded.
  std::string run(xla::Stage stage, void* x, void* y) {
    input_.data = x;
    output_.data = y;
    frame_.stage = stage;
    auto* error = static_cast<xla::Error*>(ctn_xla_cuda(&frame_));
    if (error == nullptr) return "";
    const std::string message = error->message;
    CHECK(!message.empty());
    xla::ErrorDestroy destroy{sizeof destroy, nullptr, error};
    api_.error_destroy(&destroy);
    return message;
  }

 private:
  std::string text_;
  int64_t key_ = 0;
  int64_t symbol_ = 0;
  xla::Api api_ = fake_api();
  xla::Bytes chain_{};
  xla::Scalar key_value_{xla::kS64, &key_};
  xla::Scalar symbol_value_{xla::kS64, &symbol_};
  xla::Bytes name_chain_{"chain", 5}, name_key_{"key", 3}, name_symbol_{"symbol", 6};
  int32_t types_[3] = {xla::kString, xla::kScalar, xla::kScalar};
  xla::Bytes* names_[3] = {&name_chain_, &name_key_, &name_symbol_};
  void* values_[3] = {&chain_, &key_value_, &symbol_value_};
  int64_t size_ = 4;
  xla::Buffer input_{sizeof(xla::Buffer), nullptr, xla::kF32, nullptr, 1, &size_};
  xla::Buffer output_{sizeof(xla::Buffer), nullptr, xla::kF32, nullptr, 1, &size_};
  xla::Buffer* in_ = &input_;
  xla::Buffer* out_ = &output_;
  xla::CallFrame frame_{};
};

}  // namespace

TEST_CASE("a call without a device or a stream of XLA's is refused, and XLA's error destroyed") {
  REQUIRE(ctn_device_use_simulator() == CTN_OK);
  Call call;
  device_fails = true;
  for (const xla::Stage stage : {xla::kInitialize, xla::kExecute}) {
    const std::string message = call.run(stage, nullptr, nullptr);
    CHECK(message ==
          "XLA does not say which device the call is on (no device here): run it on a CUDA device");
    CHECK(live_errors == 0);
  }
  device_fails = false;
  if (catenary::testing::skipped()) return;
  ctn::Buffer x(0, 16), y(0, 16);
  const float values[] = {-1, 2, -3, 4};
  x.upload(values);
  stream_fails = true;
  CHECK(call.run(xla::kExecute, x.get(), y.get()) ==
        "XLA gives the call no stream (no stream here): run it on a CUDA device");
  CHECK(live_errors == 0);
  stream_fails = false;
  CHECK(call.run(xla::kExecute, x.get(), y.get()) == "");
  float result[4] = {};
  y.download(result);
  CHECK(result[0] == 0);
  CHECK(result[3] == 4);
}
