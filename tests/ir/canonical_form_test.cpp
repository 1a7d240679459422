// SPDX-License-Identifier: Apache-2.0
// The canonical form: which casts go, which dimensions are one, what stays, and that its results
// are those of the chain.
#include "ir/canonical_form.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ir/random/fill.h"
#include "ir/random/random_chain.h"
#include "ir/reference/reference.h"
#include "ir/text/text.h"
#include "llvm/ADT/STLExtras.h"
#include "tests/support/verified.h"

using namespace catenary;
using catenary::testing::verified;

namespace {

RewrittenChain form_of(const std::string& parameters, const std::string& body,
                       const std::string& symbol = "") {
  return canonical_form(verified(fmt::format("chain c{}({}) {{\n{} }}", symbol, parameters, body)));
}

// The form's text without its first line.
std::string text_of(const RewrittenChain& form) {
  REQUIRE(form.chain);
  const std::string text = print(form.chain->chain());
  return text.substr(text.find('\n') + 1);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a cast to f32 goes where elementwise ops and sums read it") {
  const RewrittenChain form = form_of("input x: bf16[5, 64]",
                                      "  xf = cast(x, f32)\n  s = sum \"mk->m\"(square(xf))\n"
                                      "  n = cast(mul(xf @ \"mk\", s @ \"m\"), bf16)\n"
                                      "  return n: bf16");
  CHECK(form.rewritten == std::vector<std::string>{"'xf' is a cast that changes nothing"});
  const std::string text = text_of(form);
  CHECK(has(text, "square(x)"));
  CHECK(has(text, "mul(x @ \"mk\", s @ \"m\")"));
  CHECK_FALSE(has(text, "xf"));
}

TEST_CASE("labels of a cast go to its readers") {
  const std::string text =
      text_of(form_of("input x: f16[5, 64], input s: f32[5]",
                      "  xf = cast(x @ \"mk\", f32)\n  n = mul(xf, s @ \"m\")\n  return n: f32"));
  CHECK(has(text, "mul(x @ \"mk\", s @ \"m\")"));
}

TEST_CASE("a cast to the dtype that a value has goes everywhere") {
  const std::string text = text_of(form_of("input x: bf16[5, 64], weight w: bf16[24, 64]",
                                           "  a = cast(x, bf16)\n  b = cast(a, bf16)\n"
                                           "  y = contract \"mk,nk->mn\"(b, w)\n  return y: f32"));
  CHECK(has(text, "(x, w)"));
}

TEST_CASE("casts that stay") {
  // The operands of a product in tf32, a rounding, integers, fp8, an output.
  CHECK_FALSE(form_of("input x: bf16[5, 64], weight v: f32[24, 64]",
                      "  f = cast(x, f32)\n  y = contract \"mk,nk->mn\"(f, v)\n  return y: f32")
                  .chain);
  for (const std::string body : {"  f = cast(square(x), bf16)\n  y = neg(f)\n  return y: f32",
                                 "  f = cast(square(x), e4m3)\n  y = neg(f)\n  return y: f32",
                                 "  f = cast(x, f32)\n  return f: f32"}) {
    CAPTURE(body);
    CHECK_FALSE(form_of("input x: bf16[64]", body).chain);
  }
  // One reader of two: the other one keeps the cast.
  const RewrittenChain form =
      form_of("input x: bf16[5, 64], weight v: f32[24, 64]",
              "  f = cast(x, f32)\n  y = contract \"mk,nk->mn\"(f, v)\n  z = neg(f)\n"
              "  return y: f32, z: f32");
  CHECK(has(text_of(form), "neg(x)"));
  CHECK(has(text_of(form), "(f, v)"));
  CHECK(form.rewritten.empty());
}

TEST_CASE("equal products and sums are computed once, and so are their operands") {
  const RewrittenChain form =
      form_of("input x: bf16[5, 64], weight w: bf16[24, 64], weight v: bf16[24, 64]",
              "  s = sum \"mk->m\"(square(x))\n  n = cast(mul(x @ \"mk\", s @ \"m\"), bf16)\n"
              "  y = contract \"mk,nk->mn\"(n, w)\n  s2 = sum \"mk->m\"(square(x))\n"
              "  n2 = cast(mul(x @ \"mk\", s2 @ \"m\"), bf16)\n"
              "  z = contract \"mk,nk->mn\"(n2, v)\n  y2 = contract \"mk,nk->mn\"(n2, w)\n"
              "  t = mul(silu(y), y2)\n  return z: bf16, t: bf16");
  const std::string text = text_of(form);
  CHECK(form.rewritten ==
        std::vector<std::string>{"'s2' is computed once, as 's'", "'y2' is computed once, as 'y'"});
  CHECK(has(text, "contract \"mk,nk->mn\"(n, v)"));
  CHECK(has(text, ", y)"));
  CHECK_FALSE(has(text, "n2"));
  // Other labels, another op, other attributes.
  CHECK_FALSE(form_of("input x: f32[7, 7]",
                      "  a = sum \"mk->m\"(x)\n  b = sum \"mk->k\"(x)\n"
                      "  c = reduce_max \"mk->m\"(x)\n  return a: f32, b: f32, c: f32")
                  .chain);
  CHECK_FALSE(form_of("input x: f32[7, 9]",
                      "  a = sum \"mk->m\"(clamp(x, lo = 0, hi = 1))\n"
                      "  b = sum \"mk->m\"(clamp(x, lo = 0, hi = 2))\n  return a: f32, b: f32")
                  .chain);
}

TEST_CASE("columns with two labels are one dimension") {
  const RewrittenChain form =
      form_of("input x: bf16[M, 64], weight w: bf16[3, 8, 64], input b: f32[3, 8]",
              "  y = add(contract \"mk,hdk->mhd\"(x, w), b)\n  return y: bf16", "[M in 1..9]");
  const std::string text = text_of(form);
  CHECK(has(text, "weight w: bf16[24, 64]"));
  CHECK(has(text, "input b: f32[24]"));
  CHECK(has(text, "\"mk,hk->mh\""));
  CHECK(form.rewritten ==
        std::vector<std::string>{
            "dimensions that always follow each other are one, those of 'w', 'b', 'y'"});
}

TEST_CASE("summed dimensions, rows and three dimensions are one too") {
  CHECK(has(text_of(form_of("input x: bf16[5, 4, 16], weight w: bf16[24, 4, 16]",
                            "  y = contract \"mhd,nhd->mn\"(x, w)\n  return y: f32")),
            "\"mh,nh->mn\""));
  const std::string sums = text_of(
      form_of("input x: f32[2, 3, 4, 5]", "  y = sum \"abcd->d\"(neg(x))\n  return y: f32"));
  CHECK(has(sums, "input x: f32[24, 5]"));
  CHECK(has(sums, "\"ad->d\""));
  const std::string rows =
      text_of(form_of("input x: bf16[2, 3, 64] strides[240, 80, 1], weight w: bf16[24, 64]",
                      "  y = contract \"bsk,nk->bsn\"(x, w)\n  return y: bf16 strides[96, 32, 1]"));
  CHECK(has(rows, "input x: bf16[6, 64] strides[80, 1]"));
  CHECK(has(rows, "strides[32, 1]"));
}

TEST_CASE("a gap stays where a dimension of size 1 is before it") {
  const std::string text =
      text_of(form_of("input x: f32[2, 1, 3] strides[10, 3, 1]", "  y = neg(x)\n  return y: f32"));
  CHECK(has(text, "input x: f32[2, 3] strides[10, 1]"));
  const TensorType type =
      llvm::cantFail(
          verify(llvm::cantFail(parse("chain c(input x: f32[2, 1, 3] strides[10, 3, 1]) {\n"
                                      "  y = neg(x)\n  return y: f32 }"))))
          .info(0)
          .type;
  const Dim one[] = {{6, false}}, two[] = {{2, false}, {3, false}};
  CHECK_FALSE(with_merged_dimensions(type, one));
  CHECK(with_merged_dimensions(type, two)->strides == llvm::SmallVector<i64, 4>{10, 1});
  CHECK_FALSE(with_merged_dimensions(type, {{4, false}, {3, false}}));
}

TEST_CASE("a symbol is one with dimensions of size 1") {
  const std::string text =
      text_of(form_of("input x: bf16[B, 1, 64], weight w: bf16[24, 64]",
                      "  y = contract \"bsk,nk->bsn\"(x, w)\n  return y: bf16", "[B in 1..9]"));
  CHECK(has(text, "input x: bf16[B, 64]"));
  CHECK_FALSE(form_of("input x: bf16[B, 2, 64], weight w: bf16[24, 64]",
                      "  y = contract \"bsk,nk->bsn\"(x, w)\n  return y: bf16", "[B in 1..9]")
                  .chain);
}

TEST_CASE("dimensions that stay") {
  struct Case {
    const char* parameters;
    const char* body;
  };
  const Case cases[] = {
      // Another order, or gaps, in one tensor.
      {"input x: bf16[5, 64], weight w: bf16[3, 8, 64]",
       "  y = contract \"mk,hdk->hmd\"(x, w)\n  return y: bf16"},
      {"input x: bf16[5, 64], weight w: bf16[3, 8, 64] strides[1024, 64, 1]",
       "  y = contract \"mk,hdk->mhd\"(x, w)\n  return y: bf16"},
      {"input x: bf16[5, 64], weight w: bf16[3, 8, 64]",
       "  y = contract \"mk,hdk->mhd\"(x, w)\n  return y: bf16 strides[32, 10, 1]"},
      // Only one of them.
      {"input x: bf16[5, 64], weight w: bf16[3, 8, 64], input b: f32[8]",
       "  y = add(contract \"mk,hdk->mhd\"(x, w), b)\n  return y: bf16"},
      {"input x: f32[3, 8]",
       "  s = sum \"mk->m\"(x)\n  y = mul(x @ \"mk\", s @ \"m\")\n"
       "  return y: f32"},
      // More than 2^31 elements, or a size of 1 that is broadcast.
      {"input x: bf16[65536, 65536]", "  y = neg(x)\n  return y: bf16"},
      {"input x: f32[5, 3, 8], input r: f32[5, 1, 1]", "  y = mul(x, r)\n  return y: f32"},
      // In place of an input with dimensions of its own.
      {"input r: f32[2, 3, 4], input s: f32[2, 3, 4]",
       "  t = sum \"bsk->bk\"(r)\n  y = neg(s)\n  return t: f32, y: f32 inplace r"},
      // Both are rows of one tensor.
      {"input x: bf16[5, 64]", "  y = contract \"mk,nk->mn\"(x, x)\n  return y: f32"},
      // Groups of rows, and quantised matrices.
      {"input x: bf16[6, 64], weight w: bf16[2, 24, 64], input e: i32[2]",
       "  y = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n  return y: f32"},
      {"input x: bf16[5, 64], weight q: i4[2, 16, 64] packed, weight s: f32[2, 16, 2]",
       "  w = dequant(q, s) block (1, 32)\n  y = contract \"mk,enk->emn\"(x, w)\n"
       "  return y: f32"},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.body));
    CAPTURE(std::string(c.parameters));
    CHECK_FALSE(form_of(c.parameters, c.body).chain);
  }
}

TEST_CASE("random chains: the form has the results and bounds of the chain, and is canonical") {
  // The same numbers where only dimensions differ. The reference rounds in a cast to f32, which
  // kernels have rounded to already: without one, intervals overlap.
  const auto same = [](const Interval& a, const Interval& b, bool exactly) {
    if (std::isnan(a.value) || std::isnan(b.value))
      return std::isnan(a.value) == std::isnan(b.value) || !exactly;
    if (exactly && !std::isinf(a.error))
      return a.value == b.value && std::fabs(a.error - b.error) <= 1e-9 * a.error;
    return a.value == b.value || std::fabs(a.value - b.value) <= a.error + b.error;
  };
  int forms = 0, merged = 0;
  for (u64 seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    RandomChainOptions options;
    options.no_ragged = seed % 3 != 0;
    options.no_dequant = seed % 2 == 0;
    auto chain = verify(random_chain(seed, options));
    REQUIRE(chain);
    const RewrittenChain form = canonical_form(*chain);
    if (!form.chain) continue;
    ++forms;
    if (const RewrittenChain again = canonical_form(*form.chain); again.chain)
      FAIL(print(form.chain->chain()) << "\nis not canonical:\n" << print(again.chain->chain()));
    const i64 symbol = chain->chain().symbol ? chain->chain().symbol->hi : 0;
    const ChainData data = fill_chain(*chain, symbol, FillKind::kNormal, seed);
    const auto expected = llvm::cantFail(Reference::create(*chain, data.inputs)).evaluate(1);
    ReferenceInputs bound = data.inputs;
    for (size_t p = 0; p < bound.parameters.size(); ++p) {
      const TensorType type =
          with_symbol(form.chain->info(form.chain->parameters()[p]).type, symbol);
      const auto merged_type = with_merged_dimensions(bound.parameters[p].type, type.shape);
      REQUIRE(merged_type);
      bound.parameters[p].type = *merged_type;
    }
    const auto given = llvm::cantFail(Reference::create(*form.chain, bound)).evaluate(1);
    REQUIRE(given.size() == expected.size());
    const bool only_dimensions = llvm::none_of(
        chain->chain().values, [](const Value& value) { return value.op == Op::kCast; });
    for (size_t i = 0; i < expected.size(); ++i) {
      merged += form.chain->output_type(static_cast<int>(i)).rank() <
                chain->output_type(static_cast<int>(i)).rank();
      CHECK(span_elements(form.chain->output_type(static_cast<int>(i))) ==
            span_elements(chain->output_type(static_cast<int>(i))));
      REQUIRE(given[i].size() == expected[i].size());
      for (size_t e = 0; e < expected[i].size(); ++e) {
        if (same(given[i][e], expected[i][e], only_dimensions)) continue;
        FAIL("output " << i << ", element " << e << "\n"
                       << print(chain->chain()) << "\n"
                       << print(form.chain->chain()));
      }
    }
  }
  CHECK(forms > 50);
  CHECK(merged > 20);
}
