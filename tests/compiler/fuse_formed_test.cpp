// SPDX-License-Identifier: Apache-2.0
// Which operands contractions form as they load the rows, and why others keep kernels of their own.
#include <doctest/doctest.h>

#include "compiler/fusion/fuse.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

struct Fused {
  VerifiedChain chain;
  FusionPlan plan;

  ValueId find(std::string_view name) const {
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      if (chain.value(id).name == name) return id;
    }
    FAIL("no value is named ", name);
    return -1;
  }
};

Fused with_formed(const std::string& text) {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  FusionOptions options;
  options.norms_inside = options.gains_inside = options.formed_operands = true;
  FusionPlan plan = fuse_chain(*chain, options);
  return {std::move(*chain), std::move(plan)};
}

// LayerNorm, rounded, then a product over `operand`; `more` lines and outputs.
std::string layer_norm(const std::string& more = "", const std::string& outputs = "y: bf16",
                       const std::string& operand = "n") {
  return fmt::format(
      "chain c(input x: bf16[8, 64], weight g: f32[64], weight b: f32[64],\n"
      "        weight w: bf16[48, 64]) {{\n"
      "  q = sum \"mk->m\"(x)\n  t = mul(q, 0.015625)\n  d = sub(x @ \"mk\", t @ \"m\")\n"
      "  v = sum \"mk->m\"(square(d))\n  s = rsqrt(add(mul(v, 0.015625), 0.00001))\n"
      "  n = cast(add(mul(mul(d, s @ \"m\"), g @ \"k\"), b @ \"k\"), bf16)\n{0}\n"
      "  y = contract \"mk,nk->mn\"({2}, w)\n  return {1} }}",
      more, outputs, operand);
}

}  // namespace

TEST_CASE("a LayerNorm moves into the contraction that reads it: a pass for each sum") {
  const Fused f = with_formed(layer_norm());
  REQUIRE(f.plan.groups.size() == 1);
  CHECK(f.plan.has_formed_operands);
  const FusionGroup& group = f.plan.groups[0];
  REQUIRE(group.formed);
  CHECK(group.formed->data == f.find("x"));
  CHECK(group.row_data == f.find("n"));
  REQUIRE(group.formed->passes.size() == 2);
  CHECK(group.formed->passes[0].sums[0] == f.find("q"));
  CHECK(group.formed->passes[0].rows[0] == f.find("t"));
  CHECK(group.formed->passes[1].sums[0] == f.find("v"));
  CHECK(group.formed->passes[1].rows[0] == f.find("s"));
  CHECK(group.why.find("it forms 'n' from 'x' as it loads it, after a pass over its rows for 'q', "
                       "then one for 'v'") != std::string::npos);
  CHECK(fuse_chain(f.chain, true).groups.size() > 1);
}

TEST_CASE("two sums of one pass; a gain and a cast without a sum") {
  const Fused f = with_formed(R"(chain c(input x: f32[8, 64], weight w: bf16[48, 64]) {
    t = mul(sum "mk->m"(x), 0.015625)
    v = sub(mul(sum "mk->m"(square(x)), 0.015625), square(t))
    n = cast(mul(sub(x @ "mk", t @ "m"), rsqrt(add(v, 0.00001)) @ "m"), bf16)
    y = contract "mk,nk->mn"(n, w)
    return y: bf16 })");
  REQUIRE(f.plan.groups.size() == 1);
  REQUIRE(f.plan.groups[0].formed);
  CHECK(f.plan.groups[0].formed->passes.size() == 1);
  CHECK(f.plan.groups[0].formed->passes[0].sums.size() == 2);
  const Fused cast = with_formed(R"(chain c(input x: f32[8, 64], weight w: bf16[48, 64]) {
    n = cast(x, bf16)
    y = contract "mk,nk->mn"(n, w)
    return y: bf16 })");
  REQUIRE(cast.plan.groups.size() == 1);
  CHECK(cast.plan.groups[0].formed->passes.empty());
}

TEST_CASE("rows that another kernel computes are stored in place of what is formed of them") {
  const Fused f = with_formed(R"(chain c(input p: bf16[8, 64], input r: bf16[8, 64],
      weight w: bf16[48, 64], weight u: bf16[32, 64]) {
    h = cast(add(p, r), bf16)
    s = rsqrt(sum "mk->m"(square(h)))
    n = cast(mul(h @ "mk", s @ "m"), bf16)
    y = contract "mk,nk->mn"(n, w)
    z = contract "mk,nk->mn"(n, u)
    return y: bf16, z: bf16 })");
  REQUIRE(f.plan.groups.size() == 3);
  CHECK(f.plan.groups[0].outputs[0].value == f.find("h"));
  for (const int g : {1, 2}) CHECK(f.plan.groups[g].formed);
  REQUIRE(f.plan.beside.size() == 1);
}

TEST_CASE("a norm of rows that another norm's result is added to") {
  const Fused f = with_formed(R"(chain c(input x: bf16[8, 64], weight w: bf16[64, 64],
      weight u: bf16[32, 64]) {
    a = cast(mul(x @ "mk", rsqrt(sum "mk->m"(square(x))) @ "m"), bf16)
    y = cast(add(contract "mk,nk->mn"(a, w), a), bf16)
    n = cast(mul(y @ "mk", rsqrt(sum "mk->m"(square(y))) @ "m"), bf16)
    z = contract "mk,nk->mn"(n, u)
    return z: bf16 })");
  const FusionGroup& last = f.plan.groups.back();
  REQUIRE(last.formed);
  CHECK(last.formed->data == f.find("y"));
  CHECK(last.formed->passes.size() == 1);
}

TEST_CASE("a norm keeps its kernels where something else reads a part of it; explain says what") {
  const auto reason = [](const std::string& text) {
    const Fused f = with_formed(text);
    return f.plan.has_formed_operands || f.plan.kept_apart.empty() ? std::string()
                                                                   : f.plan.kept_apart[0];
  };
  const std::string start = "'n' is formed by a kernel of its own: ";
  CHECK(reason(layer_norm()).empty());
  CHECK(reason(layer_norm("", "y: bf16, n: bf16")) == start + "the caller wants it");
  CHECK(reason(layer_norm("", "y: bf16, s: f32")) == start + "the caller wants 's'");
  CHECK(reason(layer_norm("  e = relu(n)", "y: bf16, e: f32")) ==
        start + "'e' reads it too, and not only as the rows of a product");
  CHECK(reason(layer_norm("  e = relu(d)", "y: bf16, e: f32")) == start + "'e' reads 'd' too");
  // Numbers for each row that no sum gives; two matrices.
  CHECK(reason(R"(chain c(input x: bf16[8, 64], input r: f32[8], weight w: bf16[48, 64]) {
    t = sum "mk->m"(x)
    n = cast(mul(sub(x @ "mk", t @ "m"), r @ "m"), bf16)
    y = contract "mk,nk->mn"(n, w)
    return y: bf16 })") == start + "'r' is a number for each row that no sum gives");
  CHECK(reason(R"(chain c(input x: bf16[8, 64], input z: bf16[8, 64], weight w: bf16[48, 64]) {
    t = sum "mk->m"(x)
    n = cast(add(sub(x @ "mk", t @ "m"), z), bf16)
    y = contract "mk,nk->mn"(n, w)
    return y: bf16 })") == start + "'z' is one of several matrices that it is computed from");
}
