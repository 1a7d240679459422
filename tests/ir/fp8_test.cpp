// SPDX-License-Identifier: Apache-2.0
// What fp8 chains mean: the error bound of their sums, exact sums, casts of the reference.
#include <doctest/doctest.h>

#include "ir/reference/reference.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

VerifiedChain chain_of(const std::string& text) {
  return llvm::cantFail(verify(llvm::cantFail(parse(text))));
}

}  // namespace

TEST_CASE("fp8 sums have the bound of 13 fraction bits, promoted ones of 128 terms each") {
  const i64 k = 160;
  // 0.375 * 0.75, in blocks of 32 terms.
  const std::vector<u8> x(k, 0x2c), w(k, 0x34);
  const double p = 0.375 * 0.75;
  TensorType type;
  type.dtype = DType::kE4M3;
  type.shape = {Dim{1, false}, Dim{k, false}};
  type.strides = {k, 1};
  const ReferenceInputs inputs{{HostTensor{type, x.data()}, HostTensor{type, w.data()}}};
  const auto result = [&](const char* word) {
    const VerifiedChain chain = chain_of(
        "chain c(input x: e4m3[1, 160], weight w: e4m3[1, 160]) {\n  y = contract "
        "\"mk,nk->mn\" " +
        std::string(word) + "(x, w)\n  return y: f32\n}");
    auto reference = Reference::create(chain, inputs);
    REQUIRE(!!reference);
    return reference->evaluate(1)[0][0];
  };
  // The largest magnitude of a block is the partial sum before it; s, the one after it.
  const auto blocks = [&](int count) {
    double bound = 0;
    for (int i = 0; i < count; ++i) bound += 33 * (i == 0 ? p : 32 * i * p) + 32 * (i + 1) * p;
    return 0x1p-13 * bound;
  };
  const Interval fast = result("fast_accum");
  CHECK(fast.value == 160 * p);
  CHECK(fast.error == doctest::Approx(blocks(5)).epsilon(1e-12));
  const Interval promoted = result("");
  const double additions = 0x1p-24 * (128 * p + 160 * p);
  CHECK(promoted.error == doctest::Approx(blocks(4) + blocks(1) + additions).epsilon(1e-12));
  // One element at a time, the general form.
  CHECK(promoted.error < fast.error);
}

TEST_CASE("exact chains: 14 bits hold the sums of fp8 products") {
  const auto exact = [](i64 k, const char* word) {
    return chain_is_exact(
        chain_of(fmt::format("chain c(input x: e4m3[4, {0}], weight w: e4m3[4, {0}]) {{\n"
                             "  y = contract \"mk,nk->mn\" {1} (x, w)\n  return y: f32 }}",
                             k, word)));
  };
  CHECK(exact(4096, "fast_accum"));
  CHECK_FALSE(exact(4097, "fast_accum"));
  CHECK(exact(1 << 20, ""));
}
