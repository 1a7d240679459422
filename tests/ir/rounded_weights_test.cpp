// SPDX-License-Identifier: Apache-2.0
// The rounded form of quantised weights: which chains have one, what it is, and what the reference
// then accepts.
#include "ir/rounded_weights.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ir/forms.h"
#include "ir/random/fill.h"
#include "ir/text/text.h"
#include "tests/support/verified.h"

using namespace catenary;
using catenary::testing::verified;

namespace {

constexpr const char* kWeights =
    "input x: bf16[5, 64], weight q: i4[24, 64] packed, weight s: f32[24, 2]";

std::string chain_text(const std::string& word, const std::string& parameters,
                       const std::string& body) {
  return fmt::format("chain c {} ({}) {{\n{} }}", word, parameters, body);
}

// The lines of the form's values and outputs.
std::string lines_of(const std::string& parameters, const std::string& body) {
  const RewrittenChain form = rounded_form(verified(chain_text("", parameters, body)));
  REQUIRE(form.chain);
  const std::string text = print(form.chain->chain());
  return text.substr(text.find(") {\n") + 4);
}

}  // namespace

TEST_SUITE("ir") {
  TEST_CASE("a contraction reads a cast of the weight") {
    CHECK(lines_of(kWeights,
                   "w = dequant(q, s) block (1, 32) y = contract \"mk,nk->mn\"(x, w) return y: "
                   "bf16") ==
          "  w = dequant(q, s) block (1, 32)\n  w_bf16 = cast(w, bf16)\n"
          "  y = contract \"mk,nk->mn\"(x, w_bf16)\n  return y: bf16\n}\n");
    const RewrittenChain form = rounded_form(verified(chain_text(
        "", kWeights,
        "w = dequant(q, s) block (1, 32) y = contract \"mk,nk->mn\"(x, w) return y: bf16")));
    REQUIRE(form.rewritten.size() == 1);
    CHECK(form.rewritten[0] == "'w' is rounded to bf16 before it is multiplied");
  }

  TEST_CASE("one cast for each weight and dtype, on either side, and names that are free") {
    const std::string lines =
        lines_of(std::string(kWeights) + ", input h: f16[5, 64]",
                 "w = dequant(q, s) block (1, 32)\n w_bf16 = cast(x, bf16)\n"
                 "y = contract \"mk,nk->mn\"(x, w) z = contract \"nk,mk->mn\"(w, h)\n"
                 "v = contract \"mk,nk->mn\"(w_bf16, w) return y: bf16, z: bf16, v: f32");
    CHECK(lines ==
          "  w = dequant(q, s) block (1, 32)\n  w_bf162 = cast(w, bf16)\n  w_f16 = cast(w, f16)\n"
          "  w_bf16 = cast(x, bf16)\n  y = contract \"mk,nk->mn\"(x, w_bf162)\n"
          "  z = contract \"nk,mk->mn\"(w_f16, h)\n"
          "  v = contract \"mk,nk->mn\"(w_bf16, w_bf162)\n"
          "  return y: bf16, z: bf16, v: f32\n}\n");
  }

  TEST_CASE("casts of the chain itself, other products and fp8 stay; the form is final") {
    CHECK_FALSE(rounded_form(verified(chain_text("", "input x: bf16[5, 64], weight w: bf16[24, 64]",
                                                 "y = contract \"mk,nk->mn\"(x, w) return y: f32")))
                    .chain);
    CHECK_FALSE(
        rounded_form(verified(chain_text("", kWeights,
                                         "w = cast(dequant(q, s) block (1, 32), bf16) y = contract "
                                         "\"mk,nk->mn\"(x, w) return y: bf16")))
            .chain);
    CHECK_FALSE(
        rounded_form(
            verified("chain c(input x: e4m3[5, 128], input s: f32[5, 1], weight w: e4m3[24, 128], "
                     "weight t: f32[1, 1]) {\n  y = contract \"mk,nk->mn\"(dequant(x, s) block "
                     "(1, 128), dequant(w, t) block (128, 128))\n  return y: bf16 }"))
            .chain);
    const VerifiedChain word = verified(chain_text(
        "rounded_weights", std::string(kWeights) + ", input r: bf16[5, 24]",
        "y = add(contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)), r) return y: bf16 "
        "inplace r"));
    CHECK(word.chain().words.rounded_weights);
    const RewrittenChain form = rounded_form(word);
    REQUIRE(form.chain);
    CHECK_FALSE(form.chain->chain().words.rounded_weights);
    CHECK(form.chain->chain().outputs[0].in_place == word.chain().outputs[0].in_place);
    CHECK_FALSE(rounded_form(*form.chain).chain);
  }

  TEST_CASE("ragged contractions and batches keep their equations") {
    CHECK(lines_of("input x: bf16[9, 64], weight q: i8[3, 24, 64], weight s: f32[3, 24, 1], input "
                   "e: i32[3]",
                   "w = dequant(q, s) block (1, 64) y = contract \"mk,enk->mn\"(x, w) ragged m by "
                   "e over e return y: bf16") ==
          "  w = dequant(q, s) block (1, 64)\n  w_bf16 = cast(w, bf16)\n"
          "  y = contract \"mk,enk->mn\"(x, w_bf16) ragged m by e over e\n  return y: bf16\n}\n");
  }

  TEST_CASE("forms of both words: algebraic norms, rounded weights, and both") {
    const std::string body =
        "t = rsqrt(add(sum \"mk->m\"(square(x)), 1))\n n = cast(mul(x @ \"mk\", t @ \"m\"), bf16)\n"
        "y = contract \"mk,nk->mn\"(n, dequant(q, s) block (1, 32)) return y: bf16";
    const VerifiedChain chain = verified(chain_text("", kWeights, body));
    CHECK(other_forms(chain, false, false).all.empty());
    const ChainForms rounded = other_forms(chain, false, true);
    REQUIRE(rounded.all.size() == 1);
    CHECK(rounded.all[0].rounded);
    CHECK_FALSE(rounded.all[0].algebraic);
    const ChainForms all = other_forms(chain, true, true);
    REQUIRE(all.all.size() == 3);
    CHECK(all.all[0].algebraic);
    CHECK_FALSE(all.all[0].rounded);
    CHECK(all.all[1].chain->chain() == rounded.all[0].chain->chain());
    CHECK(all.all[2].algebraic);
    CHECK(all.all[2].rounded);
    CHECK(all.all[2].rewritten.size() == 2);
    CHECK(all.all[2].chain->chain() == rounded_form(*all.all[0].chain).chain->chain());
  }

  TEST_CASE("the reference accepts both forms, and nothing much beyond them") {
    const std::string body =
        "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32";
    const VerifiedChain word = verified(chain_text("rounded_weights", kWeights, body));
    const VerifiedChain exact = verified(chain_text("", kWeights, body));
    const RewrittenChain form = rounded_form(exact);
    REQUIRE(form.chain);
    int only_form = 0, refused = 0;
    for (u64 seed = 1; seed <= 10; ++seed) {
      const ChainData data = fill_chain(word, 0, FillKind::kNormal, seed);
      Reference reference = llvm::cantFail(Reference::create(word, data.inputs));
      const auto all = reference.evaluate(1)[0];
      const auto written = llvm::cantFail(Reference::create(exact, data.inputs)).evaluate(1)[0];
      const auto rounded =
          llvm::cantFail(Reference::create(*form.chain, data.inputs)).evaluate(1)[0];
      for (size_t e = 0; e < all.size(); ++e) {
        CHECK(accepts(all[e], DType::kF32, round_to(DType::kF32, written[e].value)));
        CHECK(accepts(all[e], DType::kF32, round_to(DType::kF32, rounded[e].value)));
        CHECK(reference.output_element(0, static_cast<i64>(e)).error == all[e].error);
        only_form += accepts(written[e], DType::kF32, rounded[e].value) ? 0 : 1;
        // Twice as far on the other side.
        const double beyond = written[e].value - 2 * (rounded[e].value - written[e].value);
        refused += accepts(all[e], DType::kF32, round_to(DType::kF32, beyond)) ? 0 : 1;
      }
    }
    CHECK(only_form > 900);  // of 1200
    CHECK(refused > 900);
    CHECK(chain_is_exact(exact));
    CHECK_FALSE(chain_is_exact(word));
  }
}
