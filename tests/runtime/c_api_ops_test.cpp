// SPDX-License-Identifier: Apache-2.0
// Operations through the C ABI and its C++ header: reductions by name, mathematical functions.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "catenary/catenary.hpp"

namespace {

struct ChainOwner {
  ctn_chain* chain = nullptr;
  ~ChainOwner() { ctn_chain_destroy(chain); }
};

std::string print(const ctn_chain* chain) {
  char* text = nullptr;
  REQUIRE(ctn_chain_print(chain, &text) == CTN_OK);
  std::string copy = text;
  ctn_string_free(text);
  return copy;
}

}  // namespace

TEST_CASE("mathematical functions of the C++ header") {
  ctn::Chain c("math");
  auto x = c.input("x", ctn::f32, {4, 8});
  auto a = ctn::sqrt(ctn::abs(x)) + ctn::rsqrt(ctn::square(x)) + ctn::recip(ctn::pow(x, -3));
  auto b = ctn::exp2(a) + ctn::log(a) + ctn::erf(a) + ctn::sin(a) + ctn::cos(a);
  auto d = ctn::lt(a, x) + ctn::le(a, x) + ctn::gt(a, x) + ctn::ge(a, x);
  auto e = ctn::select(ctn::ne(a, x), b, d * ctn::eq(a, x));
  c.output(ctn::reduce_max("mn->m", e), ctn::f32);
  c.verify();
  const std::string text = c.text();
  CAPTURE(text);
  for (const char* part : {"sqrt(", "abs(", "rsqrt(", "square(", "recip(", "exponent = -3", "exp2(",
                           "log(", "erf(", "sin(", "cos(", "lt(", "le(", "gt(", "ge(", "eq(", "ne(",
                           "select(", "reduce_max \"mn->m\"("}) {
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK_THROWS_AS(ctn::pow(x, 65), ctn::Error);
}

TEST_CASE("a reduction has the name that chain text has") {
  const std::string_view text = "chain c(input x: f32[4, 8]) { y = neg(x) return y: f32 }";
  ChainOwner owner;
  REQUIRE(ctn_chain_parse(text.data(), text.size(), &owner.chain) == CTN_OK);
  ctn_value top = -1;
  CHECK(ctn_chain_reduce(owner.chain, "max", "mn->m", 0, "top", &top) == CTN_INVALID_ARGUMENT);
  CHECK(std::string_view(ctn_last_error()).find("op 'max' is not a reduction") == 0);
  CHECK(top == -1);
  REQUIRE(ctn_chain_reduce(owner.chain, "reduce_max", "mn->m", 0, "top", &top) == CTN_OK);
  ctn_output output{};
  output.struct_size = sizeof output;
  output.value = top;
  output.dtype = CTN_F32;
  REQUIRE(ctn_chain_return(owner.chain, &output) == CTN_OK);
  CHECK(print(owner.chain).find("top = reduce_max \"mn->m\"(x)") != std::string::npos);
}

TEST_CASE("sums by group, and operands by group outside a contraction") {
  ctn::Chain chain("groups");
  const auto x = chain.input("x", ctn::f32, {6, 5});
  const auto s = chain.weight("s", ctn::f32, {2, 5});
  const auto ends = chain.input("ends", ctn::i32, {2});
  const ctn::Ragged rows{'m', ends, 'e'};
  const auto y = ctn::by_group("mul", rows, {x.labeled("mn"), s.labeled("en")}, {}, "y");
  CHECK(y.rank() == 2);
  const auto d = ctn::sum("mn->en", y, rows, "d");
  CHECK(d.rank() == 2);
  chain.output(d, ctn::f32);
  const std::string text = chain.text();
  CHECK(text.find("y = mul(x @ \"mn\", s @ \"en\") ragged m by ends over e") != std::string::npos);
  CHECK(text.find("d = sum \"mn->en\"(y) ragged m by ends over e") != std::string::npos);
  CHECK_THROWS_AS(ctn::sum("mn->n", y, rows), ctn::Error);
  CHECK_THROWS_AS(ctn::by_group("mul", rows, {x, s}), ctn::Error);

  const std::string_view plain =
      "chain c(input x: f32[4, 8], input e: i32[2]) { y = neg(x) return y: f32 }";
  ChainOwner owner;
  REQUIRE(ctn_chain_parse(plain.data(), plain.size(), &owner.chain) == CTN_OK);
  ctn_value sum = -1;
  CHECK(ctn_chain_sum_by_group(owner.chain, "mn->en", 0, nullptr, "sum", &sum) ==
        CTN_INVALID_ARGUMENT);
  CHECK(std::string_view(ctn_last_error()).find("ragged") != std::string_view::npos);
  CHECK(sum == -1);
}
