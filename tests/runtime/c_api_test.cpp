// SPDX-License-Identifier: Apache-2.0
// The C ABI and its C++ header: they build the chain of the text form, errors have status, message
// and location, and wrong arguments are refused.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>

#include "catenary/catenary.hpp"
#include "ir/error.h"
#include "tests/support/fake_driver.h"

namespace {

struct ChainOwner {
  ctn_chain* chain = nullptr;
  ~ChainOwner() { ctn_chain_destroy(chain); }
};

void expect_last_error(std::initializer_list<const char*> parts) {
  const std::string message = ctn_last_error();
  for (const char* part : parts) {
    CAPTURE(message);
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
}

#define CHECK_STATUS(call, status, ...) \
  do {                                  \
    CHECK((call) == (status));          \
    expect_last_error({__VA_ARGS__});   \
  } while (false)

ctn_parameter matrix(const char* name, const int64_t* dims) {
  ctn_parameter parameter{};
  parameter.struct_size = sizeof parameter;
  parameter.name = name;
  parameter.dtype = CTN_F32;
  parameter.rank = 2;
  parameter.dims = dims;
  return parameter;
}

std::string print(const ctn_chain* chain) {
  char* text = nullptr;
  REQUIRE(ctn_chain_print(chain, &text) == CTN_OK);
  std::string copy = text;
  ctn_string_free(text);
  return copy;
}

ctn::Chain mlp_up() {
  ctn::Chain c("mlp_up");
  auto x = c.input("x", ctn::bf16, {64, 128});
  auto w = c.weight("w", ctn::bf16, {96, 128});
  auto b = c.weight("b", ctn::bf16, {96});
  c.output(ctn::silu(ctn::linear(x, w) + b), ctn::bf16);
  return c;
}

// Without an NVRTC the error must say so.
bool missing_nvrtc(const ctn::Error& error) {
  CHECK(error.code() == CTN_NVRTC_MISSING);
  CHECK(std::string(error.what()).find("CATENARY_NVRTC") != std::string::npos);
  return true;
}

}  // namespace

TEST_CASE("version and status names") {
  CHECK(std::string(ctn_version()).find('.') != std::string::npos);
  for (int status : {0, 1, 5, 12, 17, 99}) {
    CHECK(std::string(ctn_status_name(static_cast<ctn_status>(status))) ==
          catenary::error_code_name(static_cast<catenary::ErrorCode>(status)));
  }
}

TEST_CASE("a parse error has a status, a message, a line and a column") {
  ChainOwner owner;
  const char* text = "chain c(input x: f32[4]) {\n  y = relux(x)\n  return y: f32\n}\n";
  CHECK_STATUS(ctn_chain_parse(text, std::strlen(text), &owner.chain), CTN_PARSE, "relux");
  CHECK(owner.chain == nullptr);
  CHECK(ctn_last_error_line() == 2);
  CHECK(ctn_last_error_column() == 7);

  // So has a plan that is refused, for the operation.
  const char* refused =
      "chain c(input x: e4m3[64, 64], weight w: e4m3[64, 64]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16\n}\n";
  REQUIRE(ctn_chain_parse(refused, std::strlen(refused), &owner.chain) == CTN_OK);
  ctn_engine* engine = nullptr;
  REQUIRE(ctn_engine_create(nullptr, &engine) == CTN_OK);
  char* plan = nullptr;
  CHECK_STATUS(ctn_engine_explain(engine, owner.chain, "sm_80", CTN_TEXT, &plan), CTN_UNSUPPORTED,
               "no kernel family computes 'y'");
  ctn_engine_destroy(engine);
  CHECK(ctn_last_error_line() == 2);
  CHECK(ctn_last_error_column() == 3);

  // Another thread has its own last error.
  std::string other = "unset";
  std::thread([&] { other = ctn_last_error(); }).join();
  CHECK(other.empty());

  try {
    ctn::Chain::parse(text);
    FAIL("no error");
  } catch (const ctn::Error& error) {
    CHECK(error.code() == CTN_PARSE);
    CHECK(error.line() == 2);
    CHECK(error.column() == 7);
    CHECK(std::string(error.what()).find("relux") != std::string::npos);
  }
}

TEST_CASE("the builder makes the chain of the text form") {
  ChainOwner built;
  REQUIRE(ctn_chain_create("all", &built.chain) == CTN_OK);
  ctn_chain* c = built.chain;
  REQUIRE(ctn_chain_symbol(c, "M", 1, 64) == CTN_OK);
  for (const char* word : {"rounded_weights", "batch_invariant", "rounded_weights"})
    REQUIRE(ctn_chain_word(c, word) == CTN_OK);
  const int64_t x_dims[] = {CTN_SYMBOL, 32};
  const int64_t w_dims[] = {16, 32};
  ctn_value x, w, s, u, v, y, z, b;
  ctn_parameter parameter = matrix("x", x_dims);
  REQUIRE(ctn_chain_parameter(c, &parameter, &x) == CTN_OK);
  parameter = matrix("w", w_dims);
  parameter.role = CTN_WEIGHT;
  parameter.align = 32;
  REQUIRE(ctn_chain_parameter(c, &parameter, &w) == CTN_OK);
  REQUIRE(ctn_chain_contract(c, "mk,nk->mn", x, w, CTN_CONTRACT_TRUE_F32, nullptr, "u", &u) ==
          CTN_OK);
  // A parameter that is declared after an operation comes before it in the chain.
  parameter = {};
  parameter.struct_size = sizeof parameter;
  parameter.name = "s";
  parameter.dtype = CTN_F32;
  parameter.rank = 1;
  parameter.dims = x_dims;
  REQUIRE(ctn_chain_parameter(c, &parameter, &s) == CTN_OK);
  const ctn_use scale[] = {{u, "mn"}, {s, "m"}};
  REQUIRE(ctn_chain_elementwise(c, "mul", scale, 2, nullptr, 0, "v", &v) == CTN_OK);
  const ctn_use clamped[] = {{v, nullptr}};
  const double bounds[] = {-1, 2.5};
  REQUIRE(ctn_chain_elementwise(c, "clamp", clamped, 1, bounds, 2, "y", &y) == CTN_OK);
  REQUIRE(ctn_chain_cast(c, y, CTN_F16, "z", &z) == CTN_OK);
  REQUIRE(ctn_chain_sum(c, "mn->n", z, "b", &b) == CTN_OK);
  ctn_output output{};
  output.struct_size = sizeof output;
  output.value = z;
  output.dtype = CTN_F16;
  REQUIRE(ctn_chain_return(c, &output) == CTN_OK);
  const int64_t stride[] = {2};
  output.value = b;
  output.dtype = CTN_F32;
  output.num_strides = 1;
  output.strides = stride;
  REQUIRE(ctn_chain_return(c, &output) == CTN_OK);
  const ctn_status verified = ctn_chain_verify(c);
  INFO(ctn_last_error());
  REQUIRE(verified == CTN_OK);

  const std::string text = print(c);
  CAPTURE(text);
  ChainOwner parsed;
  REQUIRE(ctn_chain_parse(text.data(), text.size(), &parsed.chain) == CTN_OK);
  CHECK(print(parsed.chain) == text);
  for (const char* part : {"M in 1..64] batch_invariant rounded_weights (", "input x: f32[M, 32]",
                           "weight w", "input s: f32[M]", "mk,nk->mn", "clamp", "2.5", "mn->n"}) {
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("wrong arguments are refused by name") {
  ChainOwner owner;
  ctn_chain* c = nullptr;
  ctn_value value = -7;
  CHECK_STATUS(ctn_chain_create(nullptr, &c), CTN_INVALID_ARGUMENT, "name is null");
  CHECK_STATUS(ctn_chain_create("c", nullptr), CTN_INVALID_ARGUMENT, "chain is null");
  CHECK_STATUS(ctn_chain_parse(nullptr, 3, &c), CTN_INVALID_ARGUMENT, "text is null");
  REQUIRE(ctn_chain_create("c", &owner.chain) == CTN_OK);
  c = owner.chain;

  const int64_t dims[] = {CTN_SYMBOL, 4};
  ctn_parameter parameter = matrix("x", dims);
  CHECK_STATUS(ctn_chain_parameter(c, &parameter, &value), CTN_INVALID_ARGUMENT, "'x'",
               "ctn_chain_symbol");
  parameter.role = 9;
  CHECK_STATUS(ctn_chain_parameter(c, &parameter, &value), CTN_INVALID_ARGUMENT, "role is 9");
  parameter.role = CTN_INPUT;
  parameter.dtype = -1;
  CHECK_STATUS(ctn_chain_parameter(c, &parameter, &value), CTN_INVALID_ARGUMENT, "dtype is -1");
  parameter.dtype = CTN_F32;
  parameter.rank = 9;
  CHECK_STATUS(ctn_chain_parameter(c, &parameter, &value), CTN_INVALID_ARGUMENT, "rank is 9");
  parameter.rank = 2;
  parameter.dims = nullptr;
  CHECK_STATUS(ctn_chain_parameter(c, &parameter, &value), CTN_INVALID_ARGUMENT, "dims is null");
  parameter.struct_size = 0;
  CHECK_STATUS(ctn_chain_parameter(c, &parameter, &value), CTN_INVALID_ARGUMENT,
               "parameter->struct_size is 0");
  CHECK_STATUS(ctn_chain_parameter(c, nullptr, &value), CTN_INVALID_ARGUMENT, "parameter is null");

  REQUIRE(ctn_chain_symbol(c, "M", 1, 2) == CTN_OK);
  CHECK_STATUS(ctn_chain_symbol(c, "N", 1, 2), CTN_INVALID_ARGUMENT, "'c'", "symbol 'M'");
  CHECK_STATUS(ctn_chain_word(c, "batch_invarient"), CTN_INVALID_ARGUMENT,
               "unknown word 'batch_invarient'", "did you mean 'batch_invariant'?",
               "batch_invariant, algebraic_norms, rounded_weights");
  CHECK_STATUS(ctn_chain_word(c, nullptr), CTN_INVALID_ARGUMENT, "word is null");
  const ctn_use uses[] = {{0, nullptr}, {0, nullptr}};
  CHECK_STATUS(ctn_chain_elementwise(c, "tan", uses, 1, nullptr, 0, nullptr, &value),
               CTN_INVALID_ARGUMENT, "'tan'");
  CHECK_STATUS(ctn_chain_elementwise(c, "contract", uses, 2, nullptr, 0, nullptr, &value),
               CTN_INVALID_ARGUMENT, "'contract'");
  CHECK_STATUS(ctn_chain_elementwise(c, "add", uses, 1, nullptr, 0, nullptr, &value),
               CTN_INVALID_ARGUMENT, "'add'", "takes 2", "got 1");
  CHECK_STATUS(ctn_chain_elementwise(c, "clamp", uses, 1, nullptr, 0, nullptr, &value),
               CTN_INVALID_ARGUMENT, "'clamp'", "2 attribute", "got 0");
  CHECK_STATUS(ctn_chain_elementwise(c, "clamp", uses, 1, nullptr, 2, nullptr, &value),
               CTN_INVALID_ARGUMENT, "attributes is null");
  CHECK_STATUS(ctn_chain_contract(c, nullptr, 0, 0, 0, nullptr, nullptr, &value),
               CTN_INVALID_ARGUMENT, "equation is null");
  CHECK_STATUS(ctn_chain_contract(c, "mk,nk->mn", 0, 0, 6, nullptr, nullptr, &value),
               CTN_INVALID_ARGUMENT, "flags is 0x6");
  ctn_output output{};
  output.struct_size = sizeof output;
  output.num_strides = 1;
  CHECK_STATUS(ctn_chain_return(c, &output), CTN_INVALID_ARGUMENT, "strides is null");
  CHECK(value == -7);
  CHECK_STATUS(ctn_chain_verify(nullptr), CTN_INVALID_ARGUMENT, "chain is null");
}

TEST_CASE("a value that does not exist is an invalid chain, not a crash") {
  ChainOwner owner;
  REQUIRE(ctn_chain_create("c", &owner.chain) == CTN_OK);
  for (ctn_value bad : {-1, 5, 1 << 30}) {
    const ctn_use use[] = {{bad, nullptr}};
    ctn_value value = -7;
    CHECK_STATUS(ctn_chain_elementwise(owner.chain, "relu", use, 1, nullptr, 0, nullptr, &value),
                 CTN_INVALID_CHAIN, "value number", std::to_string(bad).c_str());
    CHECK(value == -7);
  }
  ctn_output output{};
  output.struct_size = sizeof output;
  output.value = 1 << 20;
  CHECK_STATUS(ctn_chain_return(owner.chain, &output), CTN_INVALID_CHAIN, "value number 1048576");
  CHECK_STATUS(ctn_chain_verify(owner.chain), CTN_INVALID_CHAIN, "returns nothing");
  char* text = nullptr;
  CHECK(ctn_chain_print(owner.chain, &text) == CTN_INVALID_CHAIN);
  CHECK(text == nullptr);
}

TEST_CASE("a struct of a newer header is accepted if its new fields are zero") {
  struct Newer {
    ctn_parameter known;
    int64_t added;
  };
  ChainOwner owner;
  REQUIRE(ctn_chain_create("c", &owner.chain) == CTN_OK);
  const int64_t dims[] = {2, 2};
  Newer newer{matrix("x", dims), 0};
  newer.known.struct_size = sizeof newer;
  ctn_value value;
  CHECK(ctn_chain_parameter(owner.chain, &newer.known, &value) == CTN_OK);
  newer.added = 1;
  CHECK_STATUS(ctn_chain_parameter(owner.chain, &newer.known, &value), CTN_INVALID_ARGUMENT,
               "parameter->struct_size");
}

TEST_CASE("a struct whose struct_size was not set is not read") {
  ChainOwner owner;
  REQUIRE(ctn_chain_create("c", &owner.chain) == CTN_OK);
  const int64_t dims[] = {2, 3};
  ctn_parameter parameter = matrix("x", dims);
  ctn_value value = 0;
  for (const size_t size : {size_t{0}, size_t{1} << 20, SIZE_MAX}) {
    parameter.struct_size = size;
    CHECK_STATUS(ctn_chain_parameter(owner.chain, &parameter, &value), CTN_INVALID_ARGUMENT,
                 "parameter->struct_size", std::to_string(size).c_str());
  }
}

TEST_CASE("values of two chains cannot be combined") {
  ctn::Chain a("a");
  ctn::Chain b("b");
  const ctn::Tensor x = a.input("x", ctn::bf16, {4, 8});
  const ctn::Tensor w = b.weight("w", ctn::bf16, {4, 8});
  CHECK_THROWS_WITH_AS(x + w, doctest::Contains("two chains"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(ctn::linear(x, w), doctest::Contains("two chains"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(b.output(x, ctn::bf16), doctest::Contains("another chain"),
                       std::invalid_argument);
}

TEST_CASE("operators and functions of the C++ header") {
  ctn::Chain c("ops");
  auto x = c.input("x", ctn::f32, {4});
  auto a = c.scalar("a");
  auto y = ctn::scale(2.0 - x * 0.5, a) / (1.0 + ctn::exp(-x));
  c.output(ctn::max(ctn::clamp(y, -3, 3), x), ctn::f32);
  auto z = ctn::linear(ctn::cast(c.input("p", ctn::f32, {2, 3, 8}), ctn::bf16),
                       c.weight("q", ctn::bf16, {5, 8}));
  CHECK(z.rank() == 3);
  c.output(ctn::sum("abn->n", ctn::gelu(z)), ctn::f32);
  c.verify();
  const std::string text = c.text();
  CAPTURE(text);
  for (const char* part : {"scale(", "sub(", "div(", "exp(neg(", "max(", "abk,nk->abn"}) {
    const bool nested = std::strcmp(part, "exp(neg(") == 0;
    CHECK((text.find(nested ? "neg(" : part) != std::string::npos));
  }
  CHECK(ctn::Chain::parse(text).text() == text);
  CHECK_THROWS_AS(c.input("bad", ctn::f32, {2, 2}, {{1}, 0}), std::invalid_argument);
  CHECK_THROWS_AS(ctn::elementwise("tan", {x}), ctn::Error);
}

TEST_CASE("the reference runs on host buffers with strides, scalars and a symbol") {
  ctn::Chain c("affine");
  c.symbol("M", 0, 8);
  c.word("batch_invariant");
  auto x = c.input("x", ctn::f32, {ctn::symbol, 2}, {{3, 1}, 0});
  auto a = c.scalar("a");
  auto b = c.weight("b", ctn::bf16, {2});
  c.output(ctn::relu(ctn::scale(x, a) + b), ctn::bf16, {{4, 2}, 0});
  const float x_data[] = {1, -2, 99, 4, 5, 99};
  const uint16_t b_data[] = {0x3f80, 0xc040};  // 1, -3
  uint16_t y[8];
  std::memset(y, 0xee, sizeof y);
  const auto arg = [](const void* data) { return const_cast<void*>(data); };
  ctn::run_reference(c, {arg(x_data), arg(b_data), y}, {2.0f}, 2);
  CHECK(y[0] == 0x4040);  // 3
  CHECK(y[2] == 0);       // relu(-7)
  CHECK(y[4] == 0x4110);  // 9
  CHECK(y[6] == 0x40e0);  // 7
  CHECK(y[1] == 0xeeee);
  CHECK(y[3] == 0xeeee);

  ctn::run_reference(c, {nullptr, arg(b_data), nullptr}, {2.0f}, 0);
  const auto expect = [&](auto call, std::initializer_list<const char*> parts) {
    try {
      call();
      FAIL("no error");
    } catch (const ctn::Error& error) {
      CHECK(error.code() == CTN_INVALID_ARGUMENT);
      expect_last_error(parts);
    }
  };
  expect(
      [&] {
        ctn::run_reference(c, {arg(x_data), arg(b_data)}, {2.0f}, 2);
      },
      {"3 tensors", "got 2"});
  expect([&] { ctn::run_reference(c, {arg(x_data), arg(b_data), y}, {}, 2); }, {"1 scalars"});
  expect(
      [&] {
        ctn::run_reference(c, {arg(x_data), arg(b_data), y}, {2.0f}, 9);
      },
      {"symbol is 9", "0..8"});
  expect(
      [&] {
        ctn::run_reference(c, {arg(x_data), arg(b_data), nullptr}, {2.0f}, 2);
      },
      {"tensor 2 is null"});
}

TEST_CASE("an engine refuses wrong options and targets") {
  ctn_engine* engine = nullptr;
  ctn_engine_options options{};
  CHECK_STATUS(ctn_engine_create(&options, &engine), CTN_INVALID_ARGUMENT,
               "options->struct_size is 0");
  options.struct_size = sizeof options;
  options.cache_mode = 3;
  CHECK_STATUS(ctn_engine_create(&options, &engine), CTN_INVALID_ARGUMENT, "cache_mode is 3");
  CHECK_STATUS(ctn_engine_create(nullptr, nullptr), CTN_INVALID_ARGUMENT, "engine is null");
  options.cache_mode = CTN_CACHE_OFF;
  options.helper = 4;
  CHECK_STATUS(ctn_engine_create(&options, &engine), CTN_INVALID_ARGUMENT, "helper is 4");
  options.helper = CTN_HELPER_OFF;
  options.helper_memory_bytes = -1;
  CHECK_STATUS(ctn_engine_create(&options, &engine), CTN_INVALID_ARGUMENT,
               "helper_memory_bytes is -1");
  options.helper_memory_bytes = 0;
  // A caller of the first header, which ends before the helper: what follows is not read.
  options.helper = 4;
  options.struct_size = offsetof(ctn_engine_options, helper);
  REQUIRE(ctn_engine_create(&options, &engine) == CTN_OK);
  ctn_engine_destroy(engine);
  options.struct_size = offsetof(ctn_engine_options, trace_file) - 1;
  CHECK_STATUS(ctn_engine_create(&options, &engine), CTN_INVALID_ARGUMENT, "options->struct_size");
  options.helper = CTN_HELPER_REQUIRED;
  options.helper_program = "/nonexistent/helper";
  options.struct_size = sizeof options;
  REQUIRE(ctn_engine_create(&options, &engine) == CTN_OK);
  ctn_compiled* none = nullptr;
  CHECK_STATUS(ctn_engine_compile(engine, mlp_up().get(), "h200", &none), CTN_NVRTC_MISSING,
               "'/nonexistent/helper' is not an executable file");
  ctn_engine_destroy(engine);
  options.helper = CTN_HELPER_OFF;
  REQUIRE(ctn_engine_create(&options, &engine) == CTN_OK);
  ctn::Chain c = mlp_up();
  ctn_compiled* compiled = nullptr;
  CHECK_STATUS(ctn_engine_compile(engine, c.get(), "gtx480", &compiled), CTN_INVALID_ARGUMENT,
               "'gtx480'", "h200");
  CHECK_STATUS(ctn_engine_compile(engine, c.get(), nullptr, &compiled), CTN_INVALID_ARGUMENT,
               "target is null");
  CHECK_STATUS(ctn_engine_compile(nullptr, c.get(), "h200", &compiled), CTN_INVALID_ARGUMENT,
               "engine is null");
  ctn_engine_destroy(engine);
  ctn_engine_destroy(nullptr);
  ctn_chain_destroy(nullptr);
  ctn_compiled_destroy(nullptr);
  ctn_executable_destroy(nullptr);
  ctn_string_free(nullptr);
}

TEST_CASE("compile, inspect, load and launch") {
  auto driver = llvm::cantFail(catenary::cuda::ScopedDriver::over(catenary::testing::fake_api()));
  ctn_engine_options options{};
  options.cache_mode = CTN_CACHE_OFF;
  ctn::Engine engine(options);
  ctn::Chain chain = mlp_up();
  try {
    const ctn::Compiled for_a100 = engine.compile(chain, "sm_80");
    const std::vector<ctn::Kernel> kernels = for_a100.kernels();
    REQUIRE(!kernels.empty());
    CHECK(kernels[0].arch == "sm_80");
    REQUIRE(kernels[0].cubin.size() > 4);
    CHECK(std::memcmp(kernels[0].cubin.data(),
                      "\x7f"
                      "ELF",
                      4) == 0);
    CHECK(kernels[0].source.find(kernels[0].name) != std::string::npos);
    CHECK(kernels[0].threads > 0);
    CHECK(for_a100.explain().find(kernels[0].name) != std::string::npos);
    CHECK(for_a100.explain(true).front() == '{');
    char* text = nullptr;
    CHECK_STATUS(ctn_compiled_kernel_source(for_a100.get(), 99, &text), CTN_INVALID_ARGUMENT,
                 "index 99");
    CHECK_STATUS(ctn_compiled_explain(for_a100.get(), 7, &text), CTN_INVALID_ARGUMENT,
                 "format is 7");

    // The fake device is an H200.
    ctn_executable* none = nullptr;
    CHECK_STATUS(ctn_engine_load(nullptr, for_a100.get(), 0, nullptr, &none), CTN_INVALID_ARGUMENT,
                 "engine is null");
    try {
      engine.load(for_a100, 0);
      FAIL("an sm_80 cubin was loaded on sm_90");
    } catch (const ctn::Error& error) {
      CHECK(error.code() == CTN_ARCH_MISMATCH);
    }

    const ctn::Executable executable = engine.prepare(chain, 0);
    CHECK(executable.compiled().kernels()[0].arch == "sm_90a");
    std::vector<unsigned char> memory(4 << 20);
    auto at = [&](size_t offset) {
      const auto base = (reinterpret_cast<uintptr_t>(memory.data()) + 255) / 256 * 256;
      return reinterpret_cast<void*>(base + offset);
    };
    ctn::LaunchOptions launch;
    REQUIRE(executable.workspace_bytes() <= 1 << 20);
    launch.workspace = at(2 << 20);
    void* stream = reinterpret_cast<void*>(0x55);
    executable.launch(stream, {at(0), at(65536), at(131072), at(262144)}, launch);
    REQUIRE(!catenary::testing::fake().launches.empty());
    CHECK(catenary::testing::fake().launches[0].stream == stream);
    launch.allow_pdl = true;
    for (const bool disable_pdl : {false, true}) {
      catenary::testing::fake().launches.clear();
      launch.disable_pdl = disable_pdl;
      executable.launch(stream, {at(0), at(65536), at(131072), at(262144)}, launch);
      for (const auto& made : catenary::testing::fake().launches) {
        CHECK(made.pdl == !disable_pdl);
      }
    }
    CHECK_THROWS_AS(executable.launch(stream, {at(0)}), ctn::Error);
    expect_last_error({"4 tensors", "got 1"});

    ctn_launch_args args{};
    args.struct_size = sizeof args;
    args.num_tensors = 4;
    CHECK_STATUS(ctn_executable_launch(nullptr, &args), CTN_INVALID_ARGUMENT, "executable is null");
  } catch (const ctn::Error& error) {
    CAPTURE(error.what());
    CHECK(missing_nvrtc(error));
  }
}
