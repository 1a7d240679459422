// SPDX-License-Identifier: Apache-2.0
// The algebraic form of norms: which chains have one, what it is, and what the reference then
// accepts.
#include "ir/algebraic_norms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ir/random/fill.h"
#include "ir/random/random.h"
#include "ir/text/text.h"
#include "tests/support/float_kernel.h"
#include "tests/support/verified.h"

using namespace catenary;
using catenary::test::FloatKernel;
using catenary::testing::verified;

namespace {

struct Norm {
  std::string x = "bf16";
  std::string g = "bf16";
  std::string w = "bf16";
  std::string rows;  // lines from x and s to n
  std::string product = "contract \"mk,nk->mn\"(n, w)";
  std::string outputs = "y: f32";
  std::string more;  // after y
  std::string word = "algebraic_norms ";
};

// As PyTorch writes it: rounded, times the gain, rounded.
constexpr const char* kGained =
    "  a = cast(mul(x @ \"mk\", s @ \"m\"), bf16)\n  n = cast(mul(a @ \"mk\", g @ \"k\"), bf16)\n";

std::string text_of(const Norm& norm) {
  const std::string body = fmt::format(
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.015625), 0.00001))\n{}"
      "  y = {}\n{}  return {} }}",
      norm.rows.empty() ? kGained : norm.rows, norm.product, norm.more, norm.outputs);
  // A parameter that is not used is an error.
  std::string parameters = fmt::format("input x: {}[5, 64]", norm.x);
  if (body.find("g @") != body.npos) parameters += fmt::format(", weight g: {}[64]", norm.g);
  if (body.find(", w)") != body.npos) parameters += fmt::format(", weight w: {}[24, 64]", norm.w);
  if (body.find("(v,") != body.npos) parameters += fmt::format(", weight v: {}[16, 64]", norm.w);
  return fmt::format("chain c {}({}) {{\n{}", norm.word, parameters, body);
}

// The lines of the form after those of the row scale.
std::string lines_of(const AlgebraicForm& form) {
  REQUIRE(form.chain);
  const std::string text = print(form.chain->chain());
  const size_t scale = text.find("  s = ");
  return text.substr(text.find('\n', scale) + 1);
}

std::string lines_of(const Norm& norm) { return lines_of(algebraic_form(verified(text_of(norm)))); }

// Why the only candidate keeps its roundings.
std::string kept(const Norm& norm) {
  const AlgebraicForm form = algebraic_form(verified(text_of(norm)));
  CHECK_FALSE(form.chain);
  CHECK(form.rewritten.empty());
  REQUIRE(form.kept.size() == 1);
  return form.kept[0];
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("ir") {
  TEST_CASE("the row scale moves after the sum, and the gain stays with the rows") {
    CHECK(lines_of(Norm{}) ==
          "  n_gained = mul(x @ \"mk\", g @ \"k\")\n  n = cast(n_gained, bf16)\n"
          "  y_unscaled = contract \"mk,nk->mn\"(n, w)\n  y = mul(y_unscaled, s @ \"m\")\n"
          "  return y: f32\n}\n");
    Norm norm;
    norm.rows = "  n = cast(mul(x @ \"mk\", s @ \"m\"), bf16)\n";
    const std::string plain =
        "  y_unscaled = contract \"mk,nk->mn\"(x, w)\n  y = mul(y_unscaled, s @ \"m\")\n"
        "  return y: f32\n}\n";
    CHECK(lines_of(norm) == plain);
    norm.x = norm.w = "f16";
    norm.rows = "  n = cast(mul(x @ \"mk\", s @ \"m\"), f16)\n";
    CHECK(lines_of(norm) == plain);
    norm.x = norm.w = "f32";
    norm.rows = "  n = mul(x @ \"mk\", s @ \"m\")\n";
    CHECK(lines_of(norm) == plain);
  }

  TEST_CASE("what is below the row scale stays, what is above it may be in any order") {
    Norm norm;
    norm.x = norm.g = "f32";
    norm.rows = "  n = cast(mul(mul(x @ \"mk\", s @ \"m\"), g @ \"k\"), bf16)\n";
    CHECK(has(lines_of(norm),
              "  n_gained = mul(x @ \"mk\", g @ \"k\")\n  n = cast(n_gained, bf16)\n"));
    norm.rows = "  b = cast(x, bf16)\n  n = cast(mul(b @ \"mk\", s @ \"m\"), bf16)\n";
    CHECK(
        has(lines_of(norm), "  b = cast(x, bf16)\n  y_unscaled = contract \"mk,nk->mn\"(b, w)\n"));
    norm.rows = "  h = mul(x @ \"mk\", g @ \"k\")\n  n = cast(mul(h, s @ \"m\"), bf16)\n";
    CHECK(has(lines_of(norm), "  h = mul(x @ \"mk\", g @ \"k\")\n  n = cast(h, bf16)\n"));
    // By a root, twice, with a constant.
    norm.rows =
        "  r = recip(s)\n  a = div(mul(x, 3) @ \"mk\", r @ \"m\")\n  b = mul(2, a)\n"
        "  n = cast(div(mul(b, s @ \"m\") @ \"mk\", g @ \"k\"), bf16)\n";
    const std::string lines = lines_of(norm);
    CHECK(has(lines, "n_gained = div("));
    CHECK(has(lines, "n_scale = mul(s, "));
    CHECK(has(lines, " = div(n_scale, r)\n"));
    norm.rows = "  r = recip(s)\n  n = cast(div(x @ \"mk\", r @ \"m\"), bf16)\n";
    CHECK(has(lines_of(norm), "  n_one = constant(1)\n  n_scale = div(n_one, r)\n"));
  }

  TEST_CASE("every contraction of the rows, on either side; each operand has its own scale") {
    Norm norm;
    norm.more = "  z = contract \"na,ma->nm\"(v, n)\n";
    norm.outputs = "y: f32, z: bf16";
    const AlgebraicForm form = algebraic_form(verified(text_of(norm)));
    CHECK(form.rewritten.size() == 1);
    const std::string lines = lines_of(form);
    CHECK(has(lines, "  y = mul(y_unscaled, s @ \"m\")\n"));
    CHECK(has(lines,
              "  z_unscaled = contract \"na,ma->nm\"(v, n)\n  z = mul(z_unscaled, s @ \"m\")\n"));
    const AlgebraicForm both =
        algebraic_form(verified("chain c(input x: bf16[5, 64], input h: bf16[7, 64]) {\n"
                                "  s = sum \"mk->m\"(square(x))\n  t = sum \"mk->m\"(square(h))\n"
                                "  a = cast(mul(x @ \"mk\", s @ \"m\"), bf16)\n  b = cast(mul(h @ "
                                "\"mk\", t @ \"m\"), bf16)\n"
                                "  y = contract \"mk,nk->mn\"(a, b)\n  return y: f32 }"));
    CHECK(both.rewritten.size() == 2);
    CHECK(has(lines_of(both),
              "  y_scaled = mul(y_unscaled, s @ \"m\")\n"
              "  y = mul(y_scaled, t @ \"n\")\n"));
  }

  TEST_CASE("parameters and outputs keep their places, and the form is final") {
    Norm norm;
    norm.more = "  r = add(x, 1)\n";
    norm.outputs = "r: bf16 inplace x, y: f32 strides[32, 1]";
    const VerifiedChain chain = verified(text_of(norm));
    CHECK(chain.chain().words.algebraic_norms);
    const AlgebraicForm form = algebraic_form(chain);
    REQUIRE(form.chain);
    CHECK_FALSE(form.chain->chain().words.algebraic_norms);
    REQUIRE(form.chain->parameters().size() == chain.parameters().size());
    for (size_t p = 0; p < chain.parameters().size(); ++p) {
      CHECK(form.chain->value(form.chain->parameters()[p]) == chain.value(chain.parameters()[p]));
    }
    for (int i = 0; i < 2; ++i) CHECK(form.chain->output_type(i) == chain.output_type(i));
    CHECK(form.chain->chain().outputs[0].in_place == chain.chain().outputs[0].in_place);
    const AlgebraicForm again = algebraic_form(*form.chain);
    CHECK_FALSE(again.chain);
    CHECK(again.kept.empty());
  }

  TEST_CASE("operands that keep their roundings, and why") {
    Norm norm;
    norm.outputs = "y: f32, n: bf16";
    CHECK(kept(norm) == "'n' keeps its roundings: the caller wants it");
    norm = {};
    norm.more = "  z = add(n, 1)\n";
    norm.outputs = "y: f32, z: bf16";
    CHECK(kept(norm) == "'n' keeps its roundings: 'z' does not only sum products of its rows");
    norm = {};
    norm.x = norm.g = norm.w = "f16";
    norm.rows = "  n = cast(mul(mul(x @ \"mk\", s @ \"m\"), g @ \"k\"), f16)\n";
    CHECK(kept(norm) ==
          "'n' keeps its roundings: 'x' times a gain, or in f32, may be too large for f16");
    norm.x = "f32";
    norm.rows = "  n = cast(mul(x @ \"mk\", s @ \"m\"), f16)\n";
    CHECK(has(kept(norm), "may be too large for f16"));
    norm = {};
    norm.w = "f32";
    norm.rows = "  n = mul(x @ \"mk\", s @ \"m\")\n";
    CHECK(has(kept(norm), "'x' is bf16 and the product's operands are f32"));
    norm = {};
    norm.w = "e4m3";
    norm.rows = "  n = cast(mul(x @ \"mk\", s @ \"m\"), e4m3)\n";
    CHECK(has(kept(norm), "it is no matrix times numbers for each row"));
    norm = {};
    norm.rows = "  n = cast(add(mul(x @ \"mk\", s @ \"m\"), g @ \"k\"), bf16)\n";
    CHECK(has(kept(norm), "it is no matrix times numbers for each row"));
    norm.rows = "  d = sub(x @ \"mk\", s @ \"m\")\n  n = cast(mul(d, s @ \"m\"), bf16)\n";
    CHECK(has(kept(norm), "'d', which is scaled, depends on a reduction too"));
    norm.rows =
        "  d = cast(sub(x @ \"mk\", s @ \"m\"), bf16)\n  n = cast(mul(d, s @ \"m\"), bf16)\n";
    CHECK(has(lines_of(norm), "contract \"mk,nk->mn\"(d, w)"));
    // The product of the gradient of w sums over the rows.
    norm.rows = "";
    norm.product = "contract \"mn,mk->nk\"(cast(mul(x, 1), bf16), n)";
    CHECK(has(kept(norm), "it is no matrix times numbers for each row"));
  }

  TEST_CASE("the reference accepts both forms, and nothing much beyond them") {
    for (const char* x : {"bf16", "f32"}) {
      CAPTURE(x);
      Norm norm;
      norm.x = x;
      const VerifiedChain word = verified(text_of(norm));
      norm.word = "";
      const VerifiedChain exact = verified(text_of(norm));
      const AlgebraicForm form = algebraic_form(exact);
      REQUIRE(form.chain);
      // A norm that multiplies by the gain twice.
      norm.rows =
          "  h = mul(mul(x @ \"mk\", s @ \"m\"), g @ \"k\")\n"
          "  n = cast(mul(h @ \"mk\", g @ \"k\"), bf16)\n";
      const VerifiedChain wrong = verified(text_of(norm));
      i64 only_form = 0, refused = 0;
      for (u64 seed = 1; seed <= 20; ++seed) {
        const ChainData data = fill_chain(word, 0, FillKind::kNormal, seed);
        Reference reference = llvm::cantFail(Reference::create(word, data.inputs));
        Reference strict = llvm::cantFail(Reference::create(exact, data.inputs));
        Reference other = llvm::cantFail(Reference::create(*form.chain, data.inputs));
        const auto all = reference.evaluate(1);
        const auto written = strict.evaluate(1), moved = other.evaluate(1);
        const auto mistaken = llvm::cantFail(Reference::create(wrong, data.inputs)).evaluate(1);
        const FloatKernel kernel(exact, data.inputs), form_kernel(*form.chain, data.inputs);
        for (i64 m = 0; m < 5; ++m) {
          for (i64 n = 0; n < 24; ++n) {
            const i64 e = m * 24 + n;
            const Interval interval = all[0][e];
            CHECK(interval.value == written[0][e].value);
            CHECK(reference.output_element(0, e).error == interval.error);
            const double farthest = std::fabs(moved[0][e].value - written[0][e].value) +
                                    moved[0][e].error + written[0][e].error;
            CHECK(interval.error <= farthest);
            const double got = kernel.element(exact.chain().outputs[0].value, {m, n});
            const double got_form =
                form_kernel.element(form.chain->chain().outputs[0].value, {m, n});
            CHECK(accepts(interval, DType::kF32, round_to(DType::kF32, got)));
            CHECK(accepts(interval, DType::kF32, round_to(DType::kF32, got_form)));
            only_form +=
                accepts(written[0][e], DType::kF32, round_to(DType::kF32, got_form)) ? 0 : 1;
            refused += accepts(interval, DType::kF32, mistaken[0][e].value) ? 0 : 1;
          }
        }
      }
      CHECK(only_form > 1000);  // of 2400
      CHECK(refused > 2300);
    }
  }

  TEST_CASE("products of any order and number of factors: kernels of both forms are right") {
    for (u64 seed = 1; seed <= 200; ++seed) {
      Random random(seed);
      Norm norm;
      norm.outputs = "y: f32";
      std::string value = "x";
      bool uses_gain = false, uses_scale = false;
      const i64 count = random.range(1, 5);
      for (i64 f = 0; f < count || !uses_scale; ++f) {
        const i64 kind = f < count ? random.range(0, 4) : 0;
        const std::string next = fmt::format("a{}", f);
        const bool divides = random.range(0, 2) == 0;
        const auto line = [&](const std::string& vector) {
          norm.rows += divides ? fmt::format("  {} = div({} @ \"mk\", {})\n", next, value, vector)
                               : fmt::format("  {} = mul({}, {} @ \"mk\")\n", next, vector, value);
        };
        if (kind <= 1) {
          uses_scale = true;
          line(divides ? "r @ \"m\"" : "s @ \"m\"");
        } else if (kind == 2) {
          uses_gain = true;
          line("h @ \"k\"");
        } else if (kind == 3) {
          norm.rows += fmt::format("  {} = {}({}, 3)\n", next, divides ? "div" : "mul", value);
        } else {
          norm.rows += fmt::format("  {} = cast({}, bf16)\n", next, value);
        }
        value = next;
      }
      std::string before;
      if (norm.rows.find("r @") != norm.rows.npos) before += "  r = recip(s)\n";
      if (uses_gain) before += "  h = add(square(g @ \"k\"), 0.5)\n";
      norm.rows = before + norm.rows + fmt::format("  n = cast({}, bf16)\n", value);
      const std::string text = text_of(norm);
      CAPTURE(text);
      const VerifiedChain chain = verified(text);
      const AlgebraicForm form = algebraic_form(chain);
      REQUIRE(form.chain);
      const ChainData data = fill_chain(chain, 0, FillKind::kNormal, seed);
      Reference reference = llvm::cantFail(Reference::create(chain, data.inputs));
      const FloatKernel kernel(chain, data.inputs), moved(*form.chain, data.inputs);
      for (i64 e = 0; e < 5 * 24; e += 7) {
        const Interval interval = reference.output_element(0, e);
        double largest = 0;  // of the row
        for (i64 n = 0; n < 24; ++n)
          largest =
              std::max(largest, std::fabs(reference.output_element(0, e / 24 * 24 + n).value));
        // Both forms are one function of real numbers: they differ by roundings to 8 bits.
        CHECK(interval.error <= 0.05 * largest);
        const llvm::SmallVector<i64, 4> at = {e / 24, e % 24};
        CHECK(accepts(interval, DType::kF32, kernel.element(chain.chain().outputs[0].value, at)));
        CHECK(accepts(interval, DType::kF32,
                      moved.element(form.chain->chain().outputs[0].value, at)));
      }
    }
  }

  TEST_CASE("a NaN or an infinity makes its row anything or NaN, and no other") {
    for (const FillKind fill : {FillKind::kNanPlant, FillKind::kInfPlant}) {
      const VerifiedChain chain = verified(text_of(Norm{}));
      const ChainData data = fill_chain(chain, 0, fill, 3);
      const auto all = llvm::cantFail(Reference::create(chain, data.inputs)).evaluate(1)[0];
      i64 finite = 0;
      for (const Interval& interval : all)
        finite += std::isfinite(interval.value) && std::isfinite(interval.error) ? 1 : 0;
      CHECK(finite == 4 * 24);
    }
  }
}
