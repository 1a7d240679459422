// SPDX-License-Identifier: Apache-2.0
// Contractions with few results for each batch entry as sums of products: which ones, and what the
// chain then is.
#include "ir/summed_products.h"

#include <doctest/doctest.h>

#include "ir/text/text.h"
#include "tests/support/verified.h"

using namespace catenary;
using catenary::testing::verified;

namespace {

// One contraction of x and v.
RewrittenChain form_of(const std::string& x, const std::string& v, const std::string& equation,
                       const std::string& header = "chain c") {
  return summed_products(verified(fmt::format(
      "{}(input x: {}, input v: {}) {{\n  y = contract \"{}\"(x, v)\n  return y: f32 }}", header, x,
      v, equation)));
}

std::string values(const RewrittenChain& form) {
  REQUIRE(form.chain);
  const std::string text = print(form.chain->chain());
  const size_t begin = text.find("  y_products");
  return text.substr(begin, text.find("  return") - begin);
}

}  // namespace

TEST_CASE("a contraction without rows and columns is a sum of products") {
  const RewrittenChain form = form_of("bf16[40, 64]", "bf16[40, 64]", "mk,mk->m");
  CHECK(values(form) ==
        "  y_products = mul(x @ \"mk\", v @ \"mk\")\n  y = sum \"mk->m\"(y_products)\n");
  CHECK(form.rewritten == std::vector<std::string>{"'y' is a sum of products"});
}

TEST_CASE("the operand with all labels comes first") {
  CHECK(values(form_of("f16[9, 64]", "f16[9, 3, 64]", "bk,bnk->bn")) ==
        "  y_products = mul(v @ \"bnk\", x @ \"bk\")\n  y = sum \"bnk->bn\"(y_products)\n");
}

TEST_CASE("contractions that stay") {
  CHECK_FALSE(form_of("bf16[9, 64]", "bf16[9, 9, 64]", "bk,bnk->bn").chain);  // 9 results
  CHECK_FALSE(form_of("bf16[4, 64]", "bf16[2, 64]", "mk,nk->mn").chain);      // rows and columns
  CHECK_FALSE(form_of("f32[40, 64]", "f32[40, 64]", "mk,mk->m").chain);       // tf32
  CHECK_FALSE(form_of("e4m3[40, 64]", "e4m3[40, 64]", "mk,mk->m").chain);
  CHECK_FALSE(form_of("bf16[M, 64]", "bf16[64]", "mk,k->m", "chain c[M in 1..8]").chain);
  CHECK_FALSE(
      summed_products(verified("chain c(input x: bf16[8]) { y = neg(x) return y: f32 }")).chain);
}

TEST_CASE("a name that is taken is not taken again, and outputs are those of the chain") {
  const RewrittenChain form =
      summed_products(verified("chain c(input x: bf16[40, 64], input v: bf16[40, 64]) {\n"
                               "  y_products = relu(x)\n  y = contract \"mk,mk->m\"(x, v)\n"
                               "  return y_products: bf16, y: f32 }"));
  REQUIRE(form.chain);
  const Chain& chain = form.chain->chain();
  CHECK(chain.outputs.size() == 2);
  CHECK(form.chain->value(chain.outputs[0].value).name == "y_products");
  CHECK(form.chain->value(chain.outputs[1].value).name == "y");
  CHECK(print(chain).find("y_products2 = mul(") != std::string::npos);
}
