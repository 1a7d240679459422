// SPDX-License-Identifier: Apache-2.0
// The C ABI and its C++ header against arguments of any kind: numbers outside their ranges, zero
// bytes, text without bounds; and host threads whose locale or rounding is not C's default.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "catenary/catenary.hpp"
#include "tests/support/host_numerics.h"

namespace {

using catenary::test::CommaLocale;
using catenary::test::HostRounding;

// y = leaky_relu(x / 3, 0.3), y rounded to bf16.
ctn::Chain thirds() {
  ctn::Chain c("thirds");
  auto x = c.input("x", ctn::f32, {4});
  c.output(ctn::leaky_relu(x / 3.0, 0.3), ctn::bf16);
  return c;
}

std::string last_error(ctn_status status, ctn_status expected) {
  CHECK(status == expected);
  return status == CTN_OK ? "" : ctn_last_error();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool is_plain(const std::string& message) {
  return std::none_of(message.begin(), message.end(),
                      [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

}  // namespace

TEST_CASE("text and results do not depend on the host's locale and rounding, which it keeps") {
  const std::string expected = thirds().text();
  const float x[] = {-1, 1, 2, -2e-38f};
  uint16_t want[4] = {};
  ctn::run_reference(thirds(), {const_cast<float*>(x), want});
  const auto check_all = [&] {
    CHECK(thirds().text() == expected);
    CHECK(ctn::Chain::parse(expected).text() == expected);
    uint16_t y[4] = {};
    ctn::run_reference(thirds(), {const_cast<float*>(x), y});
    CHECK(std::memcmp(y, want, sizeof y) == 0);
  };
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    for (const bool flush : {false, true}) {
      const HostRounding host(mode, flush);
      check_all();
      CHECK(std::fegetround() == mode);
    }
  }
  const CommaLocale locale;
  if (!locale.found()) return;
  check_all();
  CHECK(std::string(std::localeconv()->decimal_point) == ",");
}

TEST_CASE("numbers outside their ranges are refused") {
  ctn_engine* engine = nullptr;
  ctn_engine_options options{};
  options.struct_size = sizeof options;
  for (const int32_t split : {-1, 17, std::numeric_limits<int32_t>::min()}) {
    options.split_k = split;
    const std::string error =
        last_error(ctn_engine_create(&options, &engine), CTN_INVALID_ARGUMENT);
    CHECK(has(error, fmt::format("split_k is {}", split)));
    CHECK(has(error, "1 to 16"));
  }
  options.split_k = 0;
  using Options = ctn_engine_options;
  for (int32_t Options::*flag : {&Options::line_info, &Options::allow_spills, &Options::unfused,
                                 &Options::batch_invariant, &Options::algebraic_norms}) {
    for (const int32_t value : {-1, 2, std::numeric_limits<int32_t>::min()}) {
      options.*flag = value;
      const std::string error =
          last_error(ctn_engine_create(&options, &engine), CTN_INVALID_ARGUMENT);
      CHECK(has(error, fmt::format(" is {}: use 0 or 1", value)));
    }
    options.*flag = 0;
  }
  const ctn::Chain chain = thirds();
  float x[4] = {};
  uint16_t y[4] = {};
  void* const tensors[] = {x, y};
  ctn_reference_args args{};
  args.struct_size = sizeof args;
  args.tensors = tensors;
  args.num_tensors = 2;
  for (const int32_t threads : {-1, 1025}) {
    args.threads = threads;
    const std::string error =
        last_error(ctn_reference_run(chain.get(), &args), CTN_INVALID_ARGUMENT);
    CHECK(has(error, fmt::format("threads is {}", threads)));
  }
}

TEST_CASE("a refused operation leaves the chain as it is") {
  ctn::Chain c("c");
  ctn::Chain other("other");
  const auto x = c.input("x", ctn::f32, {4, 8});
  CHECK_THROWS_AS(x.labeled("m") + 1.0, ctn::Error);
  CHECK_THROWS_AS(2.0 * x.labeled("mnk"), ctn::Error);
  CHECK_THROWS_AS(ctn::linear(x, x, other.input("b", ctn::f32, {4})), std::invalid_argument);
  const auto w = c.input("w", ctn::f32, {16, 8}), b = c.input("b", ctn::f32, {3});
  CHECK_THROWS_AS(ctn::linear(x, w, b), ctn::Error);
  CHECK_THROWS_AS(ctn::silu(ctn::linear(x, w) * 2.0) + b, ctn::Error);
  const auto kept = ctn::linear(x, w);
  CHECK_THROWS_AS(kept + b, ctn::Error);
  c.output(kept + ctn::sum("n->", b), ctn::f32);
  const auto half = c.constant(0.5);
  c.output(ctn::relu(x) * half, ctn::f32);
  c.verify();
  const std::string text = c.text();
  CHECK(text.find("constant") == text.rfind("constant"));
  CHECK(text.find("contract") == text.rfind("contract"));
  CHECK(has(text, "constant(0.5)"));
  CHECK(ctn::Chain::parse(text).text() == text);
  // What has a name is a mistake.
  c.constant(3.0, "three");
  CHECK_THROWS_WITH_AS(c.verify(), "value 'three' reaches no output: return it or remove it",
                       ctn::Error);
  CHECK_THROWS_WITH_AS(ctn::Chain::parse("chain c(input x: f32[4]) { t1 = constant(2) y = relu(x) "
                                         "return y: f32 }")
                           .verify(),
                       "value 't1' reaches no output: return it or remove it", ctn::Error);
}

TEST_CASE("constants that float32 does not hold are refused") {
  for (const double number :
       {1e39, -1e300, 1e-60, -4e-46, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CAPTURE(number);
    const auto build = [&] {
      ctn::Chain c("c");
      auto x = c.input("x", ctn::f32, {4});
      c.output(x + number, ctn::f32);
      c.verify();
    };
    CHECK_THROWS_WITH_AS(build(), doctest::Contains("in f32"), ctn::Error);
  }
  ctn::Chain c("c");
  c.output(c.input("x", ctn::f32, {4}) + 1.5e-45 + -0.0, ctn::f32);
  c.verify();
}

TEST_CASE("a zero byte in text is refused by the C++ header") {
  using namespace std::string_literals;
  const std::string bad = "a\0b"s;
  const auto contains = doctest::Contains("'a\\x00b' contains a zero byte");
  CHECK_THROWS_WITH_AS(ctn::Chain{bad}, contains, std::invalid_argument);
  ctn::Chain c("c");
  CHECK_THROWS_WITH_AS(c.symbol(bad, 1, 2), contains, std::invalid_argument);
  CHECK_THROWS_WITH_AS(c.input(bad, ctn::f32, {4}), contains, std::invalid_argument);
  CHECK_THROWS_WITH_AS(c.constant(1, bad), contains, std::invalid_argument);
  auto x = c.input("x", ctn::f32, {4, 4});
  CHECK_THROWS_WITH_AS(ctn::contract(bad, x, x), contains, std::invalid_argument);
  CHECK_THROWS_WITH_AS(ctn::sum(bad, x), contains, std::invalid_argument);
  CHECK_THROWS_WITH_AS(ctn::sum("mn->n", x, bad), contains, std::invalid_argument);
  CHECK_THROWS_WITH_AS(ctn::relu(x.labeled(bad)), contains, std::invalid_argument);
  CHECK_THROWS_WITH_AS(ctn::Engine().compile(c, bad), contains, std::invalid_argument);
  CHECK_THROWS_AS(ctn::Chain::parse("chain a\0b() {}"s), ctn::Error);
}

TEST_CASE("messages show a user's text escaped and cut") {
  std::string text = "a\n\x1b[31m\x7f\xff\xc2\x9b";
  text.resize(1 << 20, 'x');
  const char* const bad = text.c_str();
  std::vector<std::string> errors;
  const auto add = [&](ctn_status status) {
    CHECK(status != CTN_OK);
    errors.push_back(ctn_last_error());
  };
  ctn_value value = 0;
  const int64_t symbolic[] = {CTN_SYMBOL};
  ctn_parameter parameter{};
  parameter.struct_size = sizeof parameter;
  parameter.name = bad;
  parameter.rank = 1;
  parameter.dims = symbolic;
  const ctn_use use[] = {{0, bad}};

  ctn_chain* named = nullptr;
  if (ctn_chain_create(bad, &named) == CTN_OK) {
    add(ctn_chain_verify(named));
    REQUIRE(ctn_chain_symbol(named, "M", 1, 2) == CTN_OK);
    add(ctn_chain_symbol(named, bad, 1, 2));
    add(ctn_chain_word(named, bad));
    ctn_chain_destroy(named);
  } else {
    errors.push_back(ctn_last_error());
  }
  ctn::Chain c("c");
  ctn_chain* const chain = const_cast<ctn_chain*>(c.get());
  add(ctn_chain_parameter(chain, &parameter, &value));
  add(ctn_chain_elementwise(chain, bad, use, 1, nullptr, 0, nullptr, &value));
  ctn_engine_options options{};
  options.cache_mode = CTN_CACHE_OFF;
  const ctn::Engine engine(options);
  c.output(ctn::relu(c.input("x", ctn::f32, {4})), ctn::f32);
  try {
    engine.compile(c, text);
    FAIL("no error");
  } catch (const ctn::Error& error) {
    errors.push_back(error.what());
  }
  ctn_chain* parsed = nullptr;
  for (const char* prefix : {"", "chain ", "chain c(input x: ", "chain c() { y = "}) {
    const std::string all = prefix + text.substr(0, 1000);
    add(ctn_chain_parse(all.data(), all.size(), &parsed));
  }
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.size() < 2048);
    CHECK(is_plain(error));
    CHECK(!has(error, "\xc2\x9b"));
    CHECK(!has(error, "\xff"));
  }
}

TEST_CASE("an error comes from the builder call that made it, and changes nothing") {
  ctn::Chain c("c");
  auto x = c.input("x", ctn::bf16, {64, 128});
  auto w = c.weight("w", ctn::bf16, {96, 128});
  auto y = ctn::linear(x, w);
  const auto refused = [](auto call, const char* says) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(says), ctn::Error);
  };
  refused([&] { c.input("x", ctn::bf16, {4}); }, "name 'x' is taken");
  refused([&] { c.input("2x", ctn::bf16, {4}); }, "'2x' is not an identifier");
  refused([&] { c.input("z", ctn::bf16, {4, -1}); }, "dimension 1 of parameter 'z' has size -1");
  refused([&] { c.input("z", static_cast<ctn::DType>(9), {4}); },
          "parameter 'z': parameter->dtype is 9");
  refused([&] { ctn::linear(y, w); }, "differ in dtype");
  refused([&] { ctn::contract("mk,nk->mx", x, w); }, "'x'");
  refused([&] { x + w; }, "dimension 0 of 't");
  refused([&] { ctn::sum("mn->q", y); }, "'q'");
  refused([&] { ctn::clamp(y, 2, 1); }, "lo 2 above hi 1");
  refused([&] { c.constant(1e300); }, "1e+300");
  refused([&] { c.output(x, ctn::bf16); }, "output 'x' is not a computed value");
  refused([&] { c.output(y, ctn::i32); }, "dtype i32");
  refused([&] { c.symbol("x", 1, 4); }, "name 'x' is taken");
  refused([&] { c.symbol("M", 4, 1); }, "range 4..1");
  refused([&] { ctn::Chain("a b"); }, "chain name 'a b' is not an identifier");
  for (const char* op : {"conv2d", "contract", "relux"}) {
    refused([&] { ctn::elementwise(op, {x}); }, "use one of add, sub, ");
  }
  refused([&] { ctn::elementwise("rleu", {x}); }, "did you mean 'relu'?");
  try {
    ctn::elementwise("conv2d", {x});
    FAIL("no error");
  } catch (const ctn::Error& error) {
    CHECK(!has(error.what(), "did you mean"));
  }
  c.output(ctn::relu(y), ctn::bf16);
  c.verify();
  CHECK(ctn::Chain::parse(c.text()).text() == c.text());
}

TEST_CASE("group g has rows ends[g-1] to ends[g] - 1; rows from the last end on are 0") {
  ctn::Chain c("experts");
  auto x = c.input("x", ctn::f32, {5, 1});
  auto w = c.weight("w", ctn::f32, {3, 1, 1});
  auto ends = c.input("ends", ctn::i32, {3});
  auto b = c.weight("b", ctn::f32, {1});
  auto y = ctn::contract("mk,enk->mn", x, w, {'m', ends, 'e'});
  c.output(y, ctn::f32);
  c.output(y + b, ctn::f32);
  float x_data[] = {1, 1, 1, 1, 1};
  float w_data[] = {10, 20, 30};
  int32_t ends_data[] = {1, 1, 4};  // group 1 is empty
  float b_data[] = {0.5f};
  float out[5];
  float biased[5];
  ctn::run_reference(c, {x_data, w_data, ends_data, b_data, out, biased});
  const float expected[] = {10, 30, 30, 30, 0};
  for (int i = 0; i < 5; ++i) {
    CHECK(out[i] == expected[i]);
    CHECK(biased[i] == expected[i] + 0.5f);
  }
}
