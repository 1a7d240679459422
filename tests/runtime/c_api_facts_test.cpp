// SPDX-License-Identifier: Apache-2.0
// Facts of a chain through the C ABI and its C++ headers: operands, symbol, digest, plan, the chain
// of a pack; the device of a process; DLPack tensors as arguments of a launch.
#include <doctest/doctest.h>

#include <string>

#include "catenary/dlpack.hpp"
#include "catenary/facts.hpp"

namespace {

constexpr const char* kExperts = R"(chain experts[M in 1..64](
    input x: bf16[M, 32] strides[40, 1] align 4,
    weight w: bf16[4, 32, 32],
    input ends: i32[4],
    scalar alpha: f32) {
  y = contract "mk,enk->mn"(x, w) ragged m by ends over e
  z = add(scale(y, alpha), x)
  return y: f32, z: bf16 inplace x
})";

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

ctn::DLPackTensor tensor(std::vector<std::int64_t>& shape, std::uint8_t code, std::uint8_t bits) {
  ctn::DLPackTensor tensor;
  tensor.ndim = static_cast<std::int32_t>(shape.size());
  tensor.shape = shape.data();
  tensor.code = code;
  tensor.bits = bits;
  return tensor;
}

}  // namespace

TEST_CASE("operands are the parameters in order, then the outputs") {
  const ctn::Operands facts = ctn::operands(ctn::Chain::parse(kExperts));
  REQUIRE(facts.operands.size() == 6);
  const ctn::Operand& x = facts.operands[0];
  CHECK(x.name == "x");
  CHECK(x.dtype == ctn::bf16);
  CHECK(x.dims == std::vector<std::int64_t>{ctn::symbol, 32});
  CHECK(x.strides == std::vector<std::int64_t>{40, 1});
  CHECK(x.align == 4);
  CHECK(x.bytes == 2 * (63 * 40 + 32));
  CHECK_FALSE(x.is_output);
  CHECK(facts.operands[1].role == CTN_WEIGHT);
  CHECK(facts.operands[2].dtype == ctn::i32);
  CHECK(facts.operands[3].role == CTN_SCALAR);
  CHECK(facts.operands[3].dims.empty());
  CHECK(facts.operands[4].is_output);
  CHECK_FALSE(facts.operands[4].in_place.has_value());
  CHECK(facts.operands[5].in_place == 0);
  CHECK(facts.operands[5].strides == x.strides);
  REQUIRE(facts.symbol.has_value());
  CHECK(facts.symbol->name == "M");
  CHECK(facts.symbol->lo == 1);
  CHECK(facts.symbol->hi == 64);
}

TEST_CASE("parameters that are declared between operations come first") {
  ctn::Chain chain("late");
  const auto x = chain.input("x", ctn::f32, {4});
  const auto y = ctn::relu(x);
  const auto b = chain.weight("b", ctn::f32, {4});
  chain.output(y + b, ctn::f32);
  const ctn::Operands facts = ctn::operands(chain);
  CHECK(facts.operands[1].name == "b");
  CHECK_FALSE(facts.symbol.has_value());
}

TEST_CASE("names do not count for the digest, and what is computed does") {
  const auto digest = [](const char* text) { return ctn::digest(ctn::Chain::parse(text)); };
  const std::string a = digest("chain a(input x: f32[4]) { y = relu(x) return y: f32 }");
  CHECK(a.size() == 64);
  CHECK(a == digest("chain b(input q: f32[4]) { r = relu(q) return r: f32 }"));
  CHECK(a != digest("chain a(input x: f32[5]) { y = relu(x) return y: f32 }"));
  CHECK(a != digest("chain a(weight x: f32[4]) { y = relu(x) return y: f32 }"));
}

TEST_CASE("the plan needs no compiler") {
  const ctn::Engine engine;
  const ctn::Chain chain = ctn::Chain::parse(kExperts);
  CHECK(has(ctn::explain(engine, chain, "sm_80"), "kernel 0"));
  CHECK(has(ctn::explain(engine, chain, "h200", /*json=*/true), "\"buckets\""));
  try {
    ctn::explain(engine, chain, "h20000");
    FAIL("no error");
  } catch (const ctn::Error& error) {
    CHECK(has(error.what(), "h20000"));
  }
  char* text = nullptr;
  CHECK(ctn_engine_explain(engine.get(), chain.get(), "h200", 7, &text) == CTN_INVALID_ARGUMENT);
  CHECK(has(ctn_last_error(), "format is 7"));
  CHECK(text == nullptr);
}

TEST_CASE("wrong arguments are refused with a sentence") {
  ctn_operands* operands = nullptr;
  const ctn::Chain unfinished("half");
  CHECK(ctn_chain_operands(unfinished.get(), &operands) == CTN_INVALID_CHAIN);
  CHECK(operands == nullptr);
  char digest[65];
  CHECK(ctn_chain_digest(unfinished.get(), digest) == CTN_INVALID_CHAIN);
  const ctn::Chain chain = ctn::Chain::parse(kExperts);
  REQUIRE(ctn_chain_operands(chain.get(), &operands) == CTN_OK);
  ctn_operand operand{};
  CHECK(ctn_operands_get(operands, 0, &operand) == CTN_INVALID_ARGUMENT);
  CHECK(has(ctn_last_error(), "struct_size"));
  operand.struct_size = sizeof operand;
  CHECK(ctn_operands_get(operands, 6, &operand) == CTN_INVALID_ARGUMENT);
  CHECK(has(ctn_last_error(), "index 6 names no operand: the chain has 6 operands"));
  ctn_operands_destroy(operands);
  ctn_operands_destroy(nullptr);
  ctn_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = 3;
  ctn_engine* engine = nullptr;
  CHECK(ctn_engine_create(&options, &engine) == CTN_INVALID_ARGUMENT);
  CHECK(has(ctn_last_error(), "options->backend is 3"));
  for (const char* folder : {"", "/a:/b"}) {
    CHECK(ctn_nvrtc_add_folder(folder) == CTN_INVALID_ARGUMENT);
    CHECK(has(ctn_last_error(), "folder is"));
  }
}

TEST_CASE("DLPack tensors give addresses and the symbol") {
  const ctn::Operands facts = ctn::operands(
      ctn::Chain::parse("chain c[M in 0..9](input x: f16[M, 4], scalar a: f32, weight w: bf16[4]) "
                        "{ y = mul(scale(x, a), w) return y: f32 }"));
  std::vector<std::int64_t> rows = {7, 4}, row = {4}, strides = {4, 1};
  char memory[16];
  ctn::DLPackTensor x = tensor(rows, 2, 16), w = tensor(row, 4, 16), y = tensor(rows, 2, 32);
  x.data = memory;
  x.byte_offset = 8;
  x.strides = strides.data();
  const ctn::DLPackArguments bound = ctn::bind_dlpack(facts, {&x, &w, &y});
  CHECK(bound.symbol == 7);
  REQUIRE(bound.tensors.size() == 3);
  CHECK(bound.tensors[0] == memory + 8);

  const auto refuses = [&](const char* part) {
    CAPTURE(part);
    try {
      ctn::bind_dlpack(facts, {&x, &w, &y});
      FAIL("no error");
    } catch (const std::invalid_argument& error) {
      CHECK_MESSAGE(has(error.what(), part), error.what());
    }
  };
  strides[0] = 5;
  refuses("tensor 'x' has stride 5 in dimension 0: pass 4");
  strides[0] = 4;
  w.code = 2;
  refuses("tensor 'w' has DLPack's type 2 of 16 bits");
  w.code = 4;
  std::vector<std::int64_t> fewer = {6, 4};
  y.shape = fewer.data();
  refuses("tensor 'y' has size 6 in dimension 0: pass 7");
  y.ndim = 1;
  refuses("tensor 'y' has 1 dimensions: pass 2");
  const std::vector<const ctn::DLPackTensor*> two = {&x, nullptr};
  CHECK_THROWS_WITH_AS(ctn::bind_dlpack(facts, two), doctest::Contains("takes 3 tensors, got 2"),
                       std::invalid_argument);
}
