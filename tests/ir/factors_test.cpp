// SPDX-License-Identifier: Apache-2.0
// Factors of chains: what divides, what is summed, what stays whole; and the chain of one device.
#include "ir/factors.h"

#include <doctest/doctest.h>

#include "ir/text/text.h"

using namespace catenary;

namespace {

VerifiedChain chain_of(const char* text) {
  Expected<Chain> parsed = parse(text);
  REQUIRE(static_cast<bool>(parsed));
  Expected<VerifiedChain> verified = verify(std::move(*parsed));
  REQUIRE(static_cast<bool>(verified));
  return std::move(*verified);
}

using Dims = llvm::SmallVector<int, 4>;
using Sums = llvm::SmallVector<int, 2>;

}  // namespace

TEST_CASE("a product divides over rows and columns, and sums over K where nothing follows") {
  const VerifiedChain chain = chain_of(
      "chain c(input x: bf16[8, 4], weight w: bf16[6, 4], scalar s: f32) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  z = scale(y, s)\n  return z: bf16\n}\n");
  const Factors factors = find_factors(chain);
  // x, w, s, z: m = 0, k = 1, n = 2
  CHECK(factors.operands == std::vector<Dims>{{0, 1}, {2, 1}, {}, {0, 2}});
  CHECK(factors.divides == std::vector<bool>{true, true, true});
  CHECK(factors.sums == std::vector<Sums>{{1}});
}

TEST_CASE("a bias or an activation keeps K whole; a gated MLP sums over its inner dimension") {
  const VerifiedChain biased = chain_of(
      "chain c(input x: f32[8, 4], weight w: f32[6, 4], weight b: f32[6]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  z = add(y, b)\n  return z: f32\n}\n");
  CHECK(find_factors(biased).divides == std::vector<bool>{true, false, true});
  const VerifiedChain mlp = chain_of(
      "chain mlp(input x: bf16[8, 4], weight g: bf16[6, 4], weight u: bf16[6, 4], weight d: "
      "bf16[4, 6]) {\n"
      "  a = contract \"mk,nk->mn\"(x, g)\n  b = silu(a)\n  c = contract \"mk,nk->mn\"(x, u)\n"
      "  h = mul(b, c)\n  e = cast(h, bf16)\n  y = contract \"mk,nk->mn\"(e, d)\n  return y: "
      "bf16\n}\n");
  const Factors factors = find_factors(mlp);  // m = 0, k = 1, inner = 2, columns of d = 3
  CHECK(factors.operands == std::vector<Dims>{{0, 1}, {2, 1}, {2, 1}, {3, 2}, {0, 3}});
  CHECK(factors.divides == std::vector<bool>{true, false, true, true});
  CHECK(factors.sums[0] == Sums{2});
}

TEST_CASE("a quantised weight stays whole, and only the rows of the product divide") {
  const VerifiedChain chain = chain_of(
      "chain q(input x: bf16[8, 64], weight q: i4[6, 64] packed, weight s: bf16[6, 2], weight z: "
      "i8[6, 2]) {\n"
      "  w = dequant(q, s, z) block (1, 32)\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16\n}\n");
  const Factors factors = find_factors(chain);  // m = 0, k = 1, n = 2, then those of s and z
  CHECK(factors.operands == std::vector<Dims>{{0, 1}, {2, 1}, {3, 4}, {5, 6}, {0, 2}});
  CHECK(factors.divides == std::vector<bool>{true, false, false, false, false, false, false});
  CHECK(factors.sums == std::vector<Sums>{{}});
}

TEST_CASE("rows of ragged groups, a tensor with itself, gaps and maxima stay whole") {
  const VerifiedChain ragged = chain_of(
      "chain r(input x: f32[8, 4], weight w: f32[3, 6, 4], input ends: i32[3]) {\n"
      "  y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n  return y: f32\n}\n");
  const Factors factors = find_factors(ragged);  // m, k, e, n, ends
  CHECK(factors.divides == std::vector<bool>{false, true, false, true, false});
  const VerifiedChain gram = chain_of(
      "chain g(input x: f32[8, 4]) {\n  y = contract \"mk,nk->mn\"(x, x)\n  return y: f32\n}\n");
  CHECK(find_factors(gram).divides == std::vector<bool>{false, true});
  const VerifiedChain gaps =
      chain_of("chain g(input x: f32[8, 4] strides[8, 1]) {\n  y = relu(x)\n  return y: f32\n}\n");
  CHECK(find_factors(gaps).divides == std::vector<bool>{false, false});
  const VerifiedChain largest = chain_of(
      "chain l(input x: f32[8, 4]) {\n  y = reduce_max \"mn->m\"(x)\n  return y: f32\n}\n");
  CHECK(find_factors(largest).divides == std::vector<bool>{true, false});
}

TEST_CASE("the chain of one device has its sizes, strides and range") {
  const VerifiedChain chain = chain_of(
      "chain c[M in 1..64](input x: f32[M, 4], weight w: f32[6, 4] strides[1, 6]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32\n}\n");
  Expected<Chain> made = shard(chain, {2, 4, 3});  // m, k, n
  REQUIRE(static_cast<bool>(made));
  Expected<VerifiedChain> verified = verify(std::move(*made));
  REQUIRE(static_cast<bool>(verified));
  CHECK(verified->chain().symbol->hi == 32);
  const TensorType& w = verified->info(verified->parameters()[1]).type;
  CHECK(w.shape[0].size == 2);
  CHECK(w.shape[1].size == 1);
  CHECK(w.strides == llvm::SmallVector<i64, 4>{1, 2});
}

TEST_CASE("parts that a factor does not have are refused by one sentence") {
  const VerifiedChain chain = chain_of(
      "chain c(input x: f32[8, 4], weight b: f32[4]) {\n  y = add(x, b)\n  z = sum \"mn->m\"(y)\n"
      "  w = exp(z)\n  return w: f32\n}\n");
  const auto sentence = [&](llvm::ArrayRef<i64> parts) {
    Expected<Chain> made = shard(chain, parts);
    REQUIRE(!made);
    const ErrorReport report = take_report(made.takeError());
    CHECK(report.code == ErrorCode::kInvalidArgument);
    return report.message;
  };
  CHECK(sentence({2}).find("has 2 factors, got 1") != std::string::npos);
  CHECK(sentence({3, 1}).find("a dimension of 8 has no 3 equal parts") != std::string::npos);
  CHECK(sentence({1, 2}).find("factor 1 cannot be divided into 2 parts") != std::string::npos);
}
