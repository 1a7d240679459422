// SPDX-License-Identifier: Apache-2.0
// The operators as torch's dispatcher calls them, over a library that exports torch's C shim:
// results by the reference, ownership of handles, errors as exceptions.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

#include "catenary/catenary.hpp"
#include "tests/adapters/fake_torch.h"
#include "tests/support/fake_driver.h"

namespace {

using fake_torch::List;
using fake_torch::Tensor;

constexpr char kLinear[] =
    "chain linear[M in 1..64](input x: f32[M, 4], weight w: f32[3, 4], scalar s: f32) {\n"
    "  c = contract \"mk,nk->mn\" f32(x, w)\n"
    "  y = scale(c, s)\n"
    "  return y: f32\n"
    "}\n";
constexpr char kFp8[] =
    "chain fp8[M in 1..64](input x: e4m3[M, 4], weight w: e4m3[3, 4], input s: f32[M]) {\n"
    "  c = contract \"mk,nk->mn\" (x, w)\n"
    "  y = mul(c, s @ \"m\")\n"
    "  return y: e5m2, y: f32\n"
    "}\n";
constexpr char kAccumulate[] =
    "chain add(input x: f32[4], input y: f32[4]) {\n"
    "  z = add(x, y)\n"
    "  return z: f32 inplace y\n"
    "}\n";

void* library() {
  static void* handle = dlopen(CATENARY_FAKE_TORCH, RTLD_NOW);
  REQUIRE(handle != nullptr);
  return handle;
}

template <typename Function>
Function* fake(const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(library(), name));
  const bool found = function != nullptr;
  REQUIRE(found);
  return function;
}

int live() { return fake<int()>("fake_live_tensors")() + fake<int()>("fake_live_lists")(); }

void register_once() {
  library();
  ctn_torch_options options{};
  options.struct_size = sizeof options;
  options.libtorch_cpu = CATENARY_FAKE_TORCH;
  options.libtorch_cuda = CATENARY_FAKE_TORCH;
  options.define_schemas = 1;
  REQUIRE(ctn_torch_register(&options) == CTN_OK);
}

std::int64_t key_of(const char* text, ctn_torch_layouts layouts) {
  register_once();
  ctn_chain* chain = nullptr;
  REQUIRE(ctn_chain_parse(text, std::strlen(text), &chain) == CTN_OK);
  std::int64_t key = 0;
  REQUIRE(ctn_torch_add_chain(chain, layouts, &key) == CTN_OK);
  ctn_chain_destroy(chain);
  return key;
}

template <typename T>
std::uint64_t boxed(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

std::uint64_t tensors(const std::vector<const Tensor*>& from) {
  List* list = fake<List*()>("fake_new_list")();
  for (const Tensor* tensor : from) {
    list->items.push_back(boxed(fake<Tensor*(const Tensor*)>("fake_new_tensor")(tensor)));
  }
  return boxed(list);
}

std::uint64_t scalars(const std::vector<double>& from) {
  List* list = fake<List*()>("fake_new_list")();
  for (const double number : from) list->items.push_back(boxed(number));
  return boxed(list);
}

// The result of run1, which the caller must not delete twice: a copy of the handle's tensor.
Tensor run1(const std::vector<const Tensor*>& inputs, std::int64_t key,
            const std::vector<double>& numbers = {}) {
  std::uint64_t stack[3] = {tensors(inputs), boxed(key), scalars(numbers)};
  fake<fake_torch::Kernel(const char*)>("fake_kernel")("CPU run1")(stack, 3, 1);
  Tensor* result = nullptr;
  std::memcpy(&result, stack, sizeof result);
  Tensor copy = *result;
  fake<int32_t(Tensor*)>("aoti_torch_delete_tensor_object")(result);
  return copy;
}

float& at(const Tensor& tensor, std::int64_t element) {
  return reinterpret_cast<float*>(tensor.data->data() + tensor.offset)[element];
}

Tensor numbered(std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  Tensor tensor = fake_torch::make_tensor(std::move(sizes), std::move(strides));
  const size_t elements = (tensor.data->size() - 64) / sizeof(float);
  for (size_t i = 0; i < elements; ++i) {
    at(tensor, static_cast<std::int64_t>(i)) = static_cast<float>(static_cast<int>(i % 7) - 3);
  }
  return tensor;
}

float linear_at(const Tensor& x, std::int64_t x_row, const Tensor& w, std::int64_t n) {
  float sum = 0;
  for (std::int64_t k = 0; k < 4; ++k) {
    sum += at(x, x_row + k * x.strides.back()) * at(w, n * 4 + k);
  }
  return sum;
}

std::string sentence(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a library that is not loaded is refused with what to do") {
  ctn_torch_options options{};
  options.struct_size = sizeof options;
  options.libtorch_cpu = "/no/such/libtorch_cpu.so";
  const ctn_status status = ctn_torch_register(&options);
  const bool fresh = status == CTN_INVALID_ARGUMENT && has(ctn_last_error(), "import torch first");
  const bool registered = status == CTN_OK;  // by another case of this process
  const bool either = fresh || registered;
  CHECK(either);
}

TEST_CASE("a process without Python has no direct call") {
  register_once();
  int object = 0;
  ctn_torch_direct_options options{};
  options.struct_size = sizeof options;
  void* function = &object;
  CHECK(ctn_torch_direct(nullptr, &function) == CTN_INVALID_ARGUMENT);
  CHECK(ctn_torch_direct(&options, nullptr) == CTN_INVALID_ARGUMENT);
  CHECK(ctn_torch_direct(&options, &function) == CTN_INVALID_ARGUMENT);
  CHECK(has(ctn_last_error(), "options->libc10"));
  options.libc10 = options.libtorch_cpu = CATENARY_FAKE_TORCH;
  options.exchange = options.tensor_type = options.parameter_type = &object;
  options.empty_cpu = options.dtypes = &object;
  CHECK(ctn_torch_direct(&options, &function) == CTN_INVALID_ARGUMENT);
  CHECK(has(ctn_last_error(), "options->admit"));
  options.admit = &object;
  CHECK(ctn_torch_direct(&options, &function) == CTN_UNSUPPORTED);
  CHECK(has(ctn_last_error(), "no functions of Python"));
  CHECK(function == &object);
}

TEST_CASE("run1 computes, allocates its output and frees every handle") {
  const std::int64_t key = key_of(kLinear, CTN_TORCH_EXACT);
  CHECK(fake<size_t()>("fake_num_schemas")() == 9);
  const int before = live();
  const Tensor x = numbered({5, 4}, {4, 1});
  const Tensor w = numbered({3, 4}, {4, 1});
  const Tensor y = run1({&x, &w}, key, {2.0});
  CHECK(live() == before);
  CHECK(y.sizes == std::vector<int64_t>{5, 3});
  for (int m = 0; m < 5; ++m) {
    for (int n = 0; n < 3; ++n) CHECK(at(y, m * 3 + n) == 2 * linear_at(x, m * 4, w, n));
  }
}

TEST_CASE("from tensors: leading dimensions, and a copy where they do not merge") {
  const std::int64_t key = key_of(kLinear, CTN_TORCH_FROM_TENSORS);
  const Tensor w = numbered({3, 4}, {4, 1});
  for (const std::vector<int64_t>& strides :
       {std::vector<int64_t>{8, 4, 1}, std::vector<int64_t>{4, 12, 1}}) {
    const Tensor x = numbered({3, 2, 4}, strides);
    const Tensor y = run1({&x, &w}, key, {1.0});
    CHECK(y.sizes == std::vector<int64_t>{3, 2, 3});
    for (int a = 0; a < 3; ++a) {
      for (int b = 0; b < 2; ++b) {
        const std::int64_t row = a * strides[0] + b * strides[1];
        for (int n = 0; n < 3; ++n) CHECK(at(y, (a * 2 + b) * 3 + n) == linear_at(x, row, w, n));
      }
    }
  }
}

TEST_CASE("after several sizes, calls share chains with a symbol") {
  const std::int64_t key = key_of(kLinear, CTN_TORCH_FROM_TENSORS);
  const Tensor w = numbered({3, 4}, {4, 1});
  for (std::int64_t m = 20; m < 60; ++m) {
    const Tensor x = numbered({m, 4}, {4, 1});
    const Tensor y = run1({&x, &w}, key, {1.0});
    CHECK(y.sizes == std::vector<int64_t>{m, 3});
    CHECK(at(y, (m - 1) * 3) == linear_at(x, (m - 1) * 4, w, 0));
  }
  char* report = nullptr;
  REQUIRE(ctn_torch_report(&report) == CTN_OK);
  const std::string text = report;
  ctn_string_free(report);
  CHECK(has(text, "[M in 33..64]"));
}

TEST_CASE("an output with rows innermost in memory has a chain for every number of them") {
  const std::int64_t key = key_of(
      "chain t[M in 1..64](input x: f32[M, 4], weight w: f32[3, 4]) {\n"
      "  y = contract \"mk,nk->nm\"(x, w)\n  return y: f32 strides[64, 1]\n}\n",
      CTN_TORCH_FROM_TENSORS);
  const Tensor w = numbered({3, 4}, {4, 1});
  for (std::int64_t m = 1; m < 20; ++m) {
    const Tensor x = numbered({m, 4}, {4, 1});
    const Tensor y = run1({&x, &w}, key);
    CHECK(y.sizes == std::vector<int64_t>{3, m});
    CHECK(y.strides == std::vector<int64_t>{m, 1});
    CHECK(at(y, m - 1) == linear_at(x, (m - 1) * 4, w, 0));
  }
}

TEST_CASE("calls of more chains and sizes than a thread remembers find their own") {
  std::vector<std::int64_t> keys;
  std::string text = kLinear;
  for (const char columns : {'2', '3', '4', '5', '6'}) {
    text[text.find("f32[", text.find("weight")) + 4] = columns;
    keys.push_back(key_of(text.c_str(), CTN_TORCH_EXACT));
  }
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t m = 1; m <= 64; ++m) {
      const Tensor x = numbered({m, 4}, {4, 1});
      for (size_t c = 0; c < keys.size(); ++c) {
        const auto columns = static_cast<std::int64_t>(c) + 2;
        const Tensor w = numbered({columns, 4}, {4, 1});
        const Tensor y = run1({&x, &w}, keys[c], {1.0});
        REQUIRE(y.sizes == std::vector<int64_t>{m, columns});
        CHECK(at(y, m * columns - 1) == linear_at(x, (m - 1) * 4, w, columns - 1));
      }
    }
  }
}

TEST_CASE("fp8: operands and results; bytes of uint8 are none") {
  const std::int64_t key = key_of(kFp8, CTN_TORCH_FROM_TENSORS);
  const unsigned char values[] = {0x38, 0x40, 0xb8, 0x00};  // 1, 2, -1, 0 in e4m3
  const Tensor x = fake_torch::make_tensor({2, 4}, {4, 1}, fake_torch::kE4M3);
  const Tensor w = fake_torch::make_tensor({3, 4}, {4, 1}, fake_torch::kE4M3);
  for (int i = 0; i < 8; ++i) x.data->data()[x.offset + i] = values[i % 3];
  for (int i = 0; i < 12; ++i) w.data->data()[w.offset + i] = values[i % 4];
  const Tensor s = numbered({2}, {1});
  std::uint64_t stack[3] = {tensors({&x, &w, &s}), boxed(key), scalars({})};
  fake<fake_torch::Kernel(const char*)>("fake_kernel")("CPU run2")(stack, 3, 2);
  Tensor* made[2];
  std::memcpy(made, stack, sizeof made);
  CHECK(made[0]->dtype == fake_torch::kE5M2);
  // Rows 1 2 -1 1 and 2 -1 1 2 by columns 1 2 -1 0; s is -3 and -2.
  CHECK(at(*made[1], 0) == -18.0F);
  CHECK(at(*made[1], 3) == 2.0F);
  CHECK(made[0]->data->data()[made[0]->offset] == 0xcc);      // -16, the even one beside -18
  CHECK(made[0]->data->data()[made[0]->offset + 3] == 0x40);  // 2
  for (Tensor* tensor : made) fake<int32_t(Tensor*)>("aoti_torch_delete_tensor_object")(tensor);
  Tensor bytes = w;
  bytes.dtype = fake_torch::kU8;
  std::uint64_t again[3] = {tensors({&x, &bytes, &s}), boxed(key), scalars({})};
  CHECK(has(sentence([&] {
              fake<fake_torch::Kernel(const char*)>("fake_kernel")("CPU run2")(again, 3, 2);
            }),
            "is uint8, and the chain takes e4m3"));
}

TEST_CASE("only calls of a key with PDL launch with it, by the operator and by the ABI") {
  auto driver = llvm::cantFail(catenary::cuda::ScopedDriver::over(catenary::testing::fake_api()));
  ctn_engine_options options{};
  options.cache_mode = CTN_CACHE_OFF;
  ctn::Engine engine(options);
  REQUIRE(ctn_torch_use_engine(engine.get()) == CTN_OK);
  const std::int64_t waits = key_of(kLinear, CTN_TORCH_FROM_TENSORS);
  const std::int64_t early = key_of(kLinear, CTN_TORCH_FROM_TENSORS | CTN_TORCH_ALLOW_PDL);
  CHECK(waits != early);
  const Tensor x = fake_torch::make_tensor({5, 4}, {4, 1}, fake_torch::kF32, fake_torch::kCuda, 0);
  const Tensor w = fake_torch::make_tensor({3, 4}, {4, 1}, fake_torch::kF32, fake_torch::kCuda, 0);
  const std::int64_t x_sizes[] = {5, 4}, w_sizes[] = {3, 4}, strides[] = {4, 1};
  const Tensor y = fake_torch::make_tensor({5, 3}, {3, 1});
  void* addresses[] = {x.data->data() + x.offset, w.data->data() + w.offset,
                       y.data->data() + y.offset};
  const ctn_torch_tensor given[] = {{CTN_F32, 2, x_sizes, strides, addresses[0]},
                                    {CTN_F32, 2, w_sizes, strides, addresses[1]}};
  const float scale = 1;
  ctn_launch_args args{};
  args.struct_size = sizeof args;
  args.tensors = addresses;
  args.num_tensors = 3;
  args.scalars = &scale;
  args.num_scalars = 1;
  auto& launches = catenary::testing::fake().launches;
  for (const std::int64_t key : {waits, early}) {
    const ctn_torch_binding* binding = nullptr;
    const ctn_status status = ctn_torch_bind(key, given, 2, 1, 0, nullptr, &binding);
    if (status == CTN_NVRTC_MISSING) break;
    REQUIRE(status == CTN_OK);
    for (const bool all : {false, true}) {
      launches.clear();
      REQUIRE(ctn_torch_set_pdl(all) == CTN_OK);
      REQUIRE(ctn_torch_launch(binding, &args) == CTN_OK);
      std::uint64_t stack[3] = {tensors({&x, &w}), boxed(key), scalars({1.0})};
      fake<fake_torch::Kernel(const char*)>("fake_kernel")("CUDA run1")(stack, 3, 1);
      Tensor* made = nullptr;
      std::memcpy(&made, stack, sizeof made);
      fake<int32_t(Tensor*)>("aoti_torch_delete_tensor_object")(made);
      REQUIRE(launches.size() == 2);
      for (const auto& launch : launches) CHECK(launch.pdl == (all || key == early));
      CHECK(launches[1].stream == reinterpret_cast<void*>(fake_torch::kStream));
    }
  }
  CHECK(ctn_torch_set_pdl(0) == CTN_OK);
  CHECK(ctn_torch_use_engine(nullptr) == CTN_OK);
}

TEST_CASE("run_out writes outputs of the caller, in place too, and counts their versions") {
  const std::int64_t key = key_of(kAccumulate, CTN_TORCH_EXACT);
  const Tensor x = numbered({4}, {1});
  Tensor y = numbered({4}, {1});
  const int before = live();
  const int versions = fake<int()>("fake_versions")();
  std::uint64_t stack[4] = {tensors({&x}), tensors({&y}), boxed(key), scalars({})};
  fake<fake_torch::Kernel(const char*)>("fake_kernel")("CPU run_out")(stack, 4, 0);
  CHECK(live() == before);
  for (int i = 0; i < 4; ++i) CHECK(at(y, i) == 2 * at(x, i));
  CHECK(fake<int()>("fake_versions")() == versions + 1);

  y.inference = true;
  std::uint64_t again[4] = {tensors({&x}), tensors({&y}), boxed(key), scalars({})};
  fake<fake_torch::Kernel(const char*)>("fake_kernel")("CPU run_out")(again, 4, 0);
  CHECK(fake<int()>("fake_versions")() == versions + 1);
}

TEST_CASE("errors are exceptions with the sentence and the code, and free every handle") {
  const std::int64_t key = key_of(kLinear, CTN_TORCH_EXACT);
  const std::int64_t in_place = key_of(kAccumulate, CTN_TORCH_EXACT);
  const int before = live();
  const Tensor x = numbered({5, 4}, {4, 1});
  const Tensor w = numbered({3, 4}, {4, 1});
  Tensor half = x;
  half.dtype = fake_torch::kF64;
  Tensor elsewhere = w;
  elsewhere.device_type = fake_torch::kCuda;
  CHECK(has(sentence([&] { run1({&x, &w}, 12345, {1.0}); }), "no chain has the key 12345"));
  CHECK(has(sentence([&] { run1({&x}, key, {1.0}); }), "takes 2 tensors, got 1"));
  CHECK(has(sentence([&] { run1({&x, &w}, key); }), "takes 1 scalar, got 0"));
  CHECK(has(sentence([&] { run1({&half, &w}, key, {1.0}); }), "dtype that no chain takes"));
  CHECK(has(sentence([&] { run1({&x, &elsewhere}, key, {1.0}); }), "on another device"));
  CHECK(has(sentence([&] { run1({&x}, in_place); }), "call run_out"));
  CHECK(has(sentence([&] { run1({&x, &w}, 12345, {1.0}); }), "[catenary invalid_argument]"));
  CHECK(live() == before);
}
