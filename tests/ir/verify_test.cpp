// SPDX-License-Identifier: Apache-2.0
// The facts that verify() derives: label classes, shapes, broadcast maps, strides, output types.
// verify_error_test has what it rejects.
#include "ir/verify/verify.h"

#include <doctest/doctest.h>

#include "ir/text/text.h"

using namespace catenary;

namespace {

VerifiedChain verify_text(const std::string& text) {
  auto chain = parse(text);
  if (!chain) FAIL(render_error(take_report(chain.takeError()), "chain", text));
  auto verified = verify(std::move(*chain));
  if (!verified) FAIL(render_error(take_report(verified.takeError()), "chain", text));
  return std::move(*verified);
}

ValueId find(const VerifiedChain& chain, std::string_view name) {
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    if (chain.value(id).name == name) return id;
  }
  FAIL("no value " << name);
  return -1;
}

const ValueInfo& info(const VerifiedChain& chain, std::string_view name) {
  return chain.info(find(chain, name));
}

// "m=0,-1,0:8 " per label: dimension numbers in left, right, result, then the size.
std::string text(llvm::ArrayRef<ContractionLabel> labels) {
  std::string out;
  for (const ContractionLabel& l : labels) {
    out += fmt::format("{}={},{},{}:{}{} ", l.label, l.left, l.right, l.result, l.size.size,
                       l.size.symbolic ? "?" : "");
  }
  return out;
}

using Map = llvm::SmallVector<int, 4>;
using Strides = llvm::SmallVector<i64, 4>;

llvm::SmallVector<i64, 4> sizes(const TensorType& type) {
  llvm::SmallVector<i64, 4> out;
  for (const Dim& dim : type.shape) out.push_back(dim.size);
  return out;
}

}  // namespace

TEST_CASE("classes of the grouped linear, its dgrad and its wgrad") {
  VerifiedChain chain = verify_text(
      "chain c(input x: bf16[5, 3, 8], weight w: bf16[3, 16, 8]) {"
      " y = contract \"bgk,gnk->bgn\"(x, w) return y: bf16 }");
  Contraction c = *info(chain, "y").contraction;
  CHECK(text(c.batch) == "g=1,0,1:3 ");
  CHECK(text(c.m) == "b=0,-1,0:5 ");
  CHECK(text(c.n) == "n=-1,1,2:16 ");
  CHECK(text(c.k) == "k=2,2,-1:8 ");
  CHECK_FALSE(c.ragged_group);
  CHECK(info(chain, "y").labels == "bgn");
  CHECK(sizes(info(chain, "y").type) == Strides{5, 3, 16});
  CHECK(info(chain, "y").type.strides == Strides{48, 16, 1});
  CHECK(info(chain, "y").type.dtype == DType::kF32);

  chain = verify_text(
      "chain c(input dy: bf16[5, 3, 16], input x: bf16[5, 3, 8]) {"
      " dw = contract \"bgn,bgk->gnk\"(dy, x) return dw: bf16 }");
  c = *info(chain, "dw").contraction;
  CHECK(text(c.batch) == "g=1,1,0:3 ");
  CHECK(text(c.m) == "n=2,-1,1:16 ");
  CHECK(text(c.n) == "k=-1,2,2:8 ");
  CHECK(text(c.k) == "b=0,0,-1:5 ");

  chain = verify_text(
      "chain c(input dy: bf16[5, 3, 16], weight w: bf16[3, 16, 8]) {"
      " dx = contract \"bgn,gnk->bgk\"(dy, w) return dx: bf16 }");
  c = *info(chain, "dx").contraction;
  CHECK(text(c.batch) == "g=1,0,1:3 ");
  CHECK(text(c.m) == "b=0,-1,0:5 ");
  CHECK(text(c.n) == "k=-1,2,2:8 ");
  CHECK(text(c.k) == "n=2,1,-1:16 ");
}

TEST_CASE("order within a class is the result's, or the left operand's") {
  const VerifiedChain chain = verify_text(
      "chain c(input x: f16[2, 3, 5, 7], input w: f16[7, 5, 4, 6]) {"
      " y = contract \"abkl,lkcd->dbca\"(x, w) return y: f16 }");
  const Contraction& c = *info(chain, "y").contraction;
  CHECK(text(c.m) == "b=1,-1,1:3 a=0,-1,3:2 ");
  CHECK(text(c.n) == "d=-1,3,0:6 c=-1,2,2:4 ");
  CHECK(text(c.k) == "k=2,1,-1:5 l=3,0,-1:7 ");
  CHECK(c.batch.empty());
}

TEST_CASE("M-grouped and K-grouped contractions") {
  VerifiedChain chain = verify_text(
      "chain c[M in 0..64](input x: bf16[M, 8], weight w: bf16[4, 16, 8], input ends: i32[4]) {"
      " y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e return y: bf16 }");
  Contraction c = *info(chain, "y").contraction;
  REQUIRE(c.ragged_group);
  CHECK(text(*c.ragged_group) == "e=-1,0,-1:4 ");
  CHECK(text(c.m) == "m=0,-1,0:64? ");
  CHECK(text(c.n) == "n=-1,1,1:16 ");
  CHECK(text(c.k) == "k=1,2,-1:8 ");
  CHECK(c.batch.empty());

  chain = verify_text(
      "chain c(input dy: bf16[64, 16], input x: bf16[64, 8], weight ends: i32[4]) {"
      " dw = contract \"mn,mk->enk\"(dy, x) ragged m by ends over e return dw: f32 }");
  c = *info(chain, "dw").contraction;
  REQUIRE(c.ragged_group);
  CHECK(text(*c.ragged_group) == "e=-1,-1,0:4 ");
  CHECK(text(c.m) == "n=1,-1,1:16 ");
  CHECK(text(c.n) == "k=-1,1,2:8 ");
  CHECK(text(c.k) == "m=0,0,-1:64 ");
  CHECK(sizes(info(chain, "dw").type) == Strides{4, 16, 8});
}

TEST_CASE("contractions to a scalar, and with an empty K") {
  const VerifiedChain chain = verify_text(
      "chain c(input x: f32[8], input y: f32[0], input z: f32[3]) { a = contract \"k,k->\" f32 (x, "
      "x)"
      " b = contract \"k,k->\"(y, y) o = contract \"m,n->nm\"(x, z) return a: f32, b: f32, o: f32 "
      "}");
  CHECK(info(chain, "a").type.rank() == 0);
  CHECK(text(info(chain, "a").contraction->k) == "k=0,0,-1:8 ");
  CHECK(text(info(chain, "b").contraction->k) == "k=0,0,-1:0 ");
  CHECK(info(chain, "o").contraction->k.empty());
  CHECK(sizes(info(chain, "o").type) == Strides{3, 8});
}

TEST_CASE("broadcast by trailing dimensions") {
  const VerifiedChain chain = verify_text(
      "chain c(input x: f32[4, 1, 8], input y: bf16[5, 8], input row: f16[8], input n: f32,"
      " scalar s: f32) { a = add(x, y) b = mul(row, a) d = sub(b, n) e = scale(d, s)"
      " f = max(e, 1.0) g = relu(f) return g: f32 }");
  CHECK(sizes(info(chain, "a").type) == Strides{4, 5, 8});
  CHECK(info(chain, "a").operand_dims[0] == Map{0, -1, 2});
  CHECK(info(chain, "a").operand_dims[1] == Map{-1, 0, 1});
  CHECK(info(chain, "b").operand_dims[0] == Map{-1, -1, 0});
  CHECK(info(chain, "b").operand_dims[1] == Map{0, 1, 2});
  CHECK(info(chain, "d").operand_dims[1] == Map{-1, -1, -1});
  CHECK(info(chain, "e").operand_dims[1] == Map{-1, -1, -1});
  CHECK(info(chain, "g").operand_dims.size() == 1);
  CHECK(info(chain, "g").operand_dims[0] == Map{0, 1, 2});
  CHECK(info(chain, "g").labels.empty());
  CHECK(info(chain, "a").type.dtype == DType::kF32);
}

TEST_CASE("a size of 1 broadcasts with an empty, a symbolic and another 1") {
  const VerifiedChain chain = verify_text(
      "chain c[M in 1..1](input x: f32[M, 0, 1], input y: f32[1, 1, 1]) {"
      " a = add(x, y) b = add(y, a) return b: f32 }");
  CHECK(info(chain, "a").type.shape[0] == Dim{1, true});
  CHECK(sizes(info(chain, "b").type) == Strides{1, 0, 1});
  CHECK(info(chain, "a").operand_dims[1] == Map{-1, -1, 2});
  CHECK(info(chain, "b").operand_dims[1] == Map{0, 1, 2});
}

TEST_CASE("broadcast by label") {
  const VerifiedChain chain = verify_text(
      "chain c(input x: bf16[6, 8], weight w: bf16[6, 8], weight s: f32[6], input t: f32[6, 6],"
      " input one: f32[6, 1]) {"
      " h = contract \"mk,nk->mn\"(x, w) r = mul(h, s @ \"m\") q = add(t @ \"nm\", r)"
      " p = add(q, one @ \"nm\") o = relu(p) return o: f32 }");
  CHECK(info(chain, "r").labels == "mn");
  CHECK(info(chain, "r").operand_dims[0] == Map{0, 1});
  CHECK(info(chain, "r").operand_dims[1] == Map{0, -1});
  // The first operand of full rank that has labels names the result's dimensions; an operand
  // without '@' is aligned by position.
  CHECK(info(chain, "q").labels == "nm");
  CHECK(info(chain, "q").operand_dims[0] == Map{0, 1});
  CHECK(info(chain, "q").operand_dims[1] == Map{0, 1});
  CHECK(info(chain, "p").operand_dims[1] == Map{0, -1});
  CHECK(info(chain, "o").labels == "nm");
}

TEST_CASE("labels on a parameter's use name the result, in any order") {
  const VerifiedChain chain = verify_text(
      "chain c(input x: bf16[4, 6], input y: bf16[6, 4], weight s: f32[4]) {"
      " a = mul(s @ \"m\", x @ \"mn\") b = add(a, y @ \"nm\") d = cast(b, f16) return d: f16 }");
  CHECK(info(chain, "a").labels == "mn");
  CHECK(info(chain, "a").operand_dims[0] == Map{0, -1});
  CHECK(sizes(info(chain, "b").type) == Strides{4, 6});
  CHECK(info(chain, "b").operand_dims[1] == Map{1, 0});
  CHECK(info(chain, "d").labels == "mn");
  CHECK(info(chain, "d").operand_dims[0] == Map{0, 1});
  CHECK(info(chain, "d").type.dtype == DType::kF16);
}

TEST_CASE("sum keeps the labels of its result") {
  const VerifiedChain chain = verify_text(
      "chain c(input x: bf16[2, 3, 4]) { s = sum \"abc->ca\"(x) t = sum \"ca->\"(s)"
      " return s: f32, t: f32 }");
  CHECK(sizes(info(chain, "s").type) == Strides{4, 2});
  CHECK(info(chain, "s").labels == "ca");
  CHECK(info(chain, "s").operand_dims[0] == Map{2, 0});
  CHECK(info(chain, "s").summed == llvm::SmallVector<int, 4>{1});
  CHECK(info(chain, "t").type.rank() == 0);
  CHECK(info(chain, "t").summed == llvm::SmallVector<int, 4>{0, 1});
}

TEST_CASE("strides, alignment and output types") {
  const VerifiedChain chain = verify_text(
      "chain c[M in 0..16](input x: bf16[M, 8], input b: f32[M, 8] strides[0, 1] align 4,"
      " input o: bf16[3, M, 8] strides[8, 24, 1]) {"
      " y = add(x, b) z = neg(o) return y: f16 strides[32, 1] align 64, y: f32,"
      " z: bf16 strides[8, 24, 1] }");
  CHECK(info(chain, "x").type.strides == Strides{8, 1});
  CHECK(info(chain, "x").type.shape[0] == Dim{16, true});
  CHECK(info(chain, "b").type.strides == Strides{0, 1});
  CHECK(info(chain, "b").type.align == 4);
  CHECK(chain.output_type(0).strides == Strides{32, 1});
  CHECK(chain.output_type(0).dtype == DType::kF16);
  CHECK(chain.output_type(0).align == 64);
  CHECK(chain.output_type(0).shape[0] == Dim{16, true});
  CHECK(chain.output_type(1).strides == Strides{8, 1});
  CHECK(chain.output_type(2).strides == Strides{8, 24, 1});
  CHECK(chain.parameters() == llvm::ArrayRef<ValueId>{0, 1, 2});
  CHECK(chain.num_values() == 5);
}

TEST_CASE("sizes of 1 outside of a symbolic dimension have a stride that does not depend on it") {
  for (const int hi : {16, 64}) {
    const VerifiedChain chain = verify_text(
        fmt::format("chain c[S in 1..{}](input x: bf16[1, 1, S, 40], weight w: bf16[24, 40]) {{"
                    " y = contract \"absk,nk->absn\"(x, w) return y: bf16 }}",
                    hi));
    CHECK(info(chain, "x").type.strides == Strides{40, 40, 40, 1});
    CHECK(chain.output_type(0).strides == Strides{24, 24, 24, 1});
  }
  const VerifiedChain chain = verify_text(
      "chain c[S in 1..16](input x: f32[S, 1, 8], input z: f32[1, 6, 8], input s: f32[1, S]) {"
      " y = neg(x) u = neg(z) v = neg(s) return y: f32, u: f32, v: f32 }");
  CHECK(info(chain, "x").type.strides == Strides{8, 8, 1});
  CHECK(info(chain, "z").type.strides == Strides{48, 8, 1});
  CHECK(info(chain, "s").type.strides == Strides{1, 1});
}

TEST_CASE("verify sets a symbolic dimension to the symbol's upper bound") {
  Chain built;
  built.name = "built";
  built.symbol = Symbol{"M", 0, 32};
  TensorType type;
  type.shape = {{0, true}, {4, false}};
  built.returns(built.elementwise(Op::kRelu, {{built.parameter(Role::kInput, "x", type), ""}}),
                DType::kF32);
  auto verified = verify(built);
  if (!verified) FAIL(take_report(verified.takeError()).message);
  CHECK(verified->value(0).type.shape[0] == Dim{32, true});
  CHECK(verified->info(1).type.shape[0] == Dim{32, true});
  CHECK(verified->output_type(0).shape[0] == Dim{32, true});
}

TEST_CASE("zero sizes are legal everywhere but in the number of groups") {
  const VerifiedChain chain = verify_text(
      "chain c(input x: bf16[0, 8], weight w: bf16[4, 8], input e: f32[0, 5] strides[0, 0]) {"
      " y = contract \"mk,nk->mn\"(x, w) z = neg(e) return y: bf16, z: f32 strides[0, 0] }");
  CHECK(sizes(chain.output_type(0)) == Strides{0, 4});
  CHECK(chain.output_type(0).strides == Strides{4, 1});
}

TEST_CASE("chains at the limits are accepted") {
  std::string text = "chain c(";
  for (int i = 0; i < kMaxParameters; ++i)
    text += fmt::format("{}input p{}: f32", i ? ", " : "", i);
  text += ") {";
  // 127 additions use every parameter, the rest fills up to kMaxOps.
  for (int i = 1; i < kMaxParameters; ++i) {
    text += fmt::format(" s{} = add({}, p{})", i, i == 1 ? "p0" : fmt::format("s{}", i - 1), i);
  }
  for (int i = kMaxParameters; i <= kMaxOps; ++i) text += fmt::format(" s{} = neg(s{})", i, i - 1);
  const VerifiedChain chain = verify_text(text + fmt::format(" return s{}: f32 }}", kMaxOps));
  CHECK(chain.num_values() == kMaxOps + kMaxParameters);
  CHECK(verify_text("chain c[M in 0..2147483648](input x: bf16[M, 16384]) { y = cast(x, bf16)"
                    " return y: bf16 }")
            .output_type(0)
            .shape[0]
            .size == 2147483648);
}

TEST_CASE("strides of sizes beyond 64 bits are the largest number") {
  constexpr i64 kMost = std::numeric_limits<i64>::max();
  const Dim shape[] = {{2, false}, {kMost, false}, {4, false}};
  const auto strides = contiguous_strides(shape);
  CHECK(llvm::ArrayRef<i64>(strides) == llvm::ArrayRef<i64>({kMost, 4, 1}));
}
