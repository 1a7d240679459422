// SPDX-License-Identifier: Apache-2.0
// The options of a gradient: what is saved, recomputed, accumulated, and in which dtype; the table
// of operands; refusals.
#include "ir/gradient/gradient.h"

#include <doctest/doctest.h>

#include "ir/algebraic_norms.h"
#include "ir/text/text.h"
#include "llvm/ADT/STLExtras.h"
#include "tests/support/gradient_chain.h"

using namespace catenary;

namespace {

std::string refusal(const std::string& text, const GradientOptions& options) {
  auto gradient = make_gradient(verified_text(text), options);
  REQUIRE_FALSE(static_cast<bool>(gradient));
  const ErrorReport report = take_report(gradient.takeError());
  const bool expected =
      report.code == ErrorCode::kInvalidArgument || report.code == ErrorCode::kUnsupported;
  CHECK(expected);
  return report.message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const Chain& chain_of(const Gradient& gradient, size_t i) {
  return gradient.chains[i].chain.chain();
}

int count(const Chain& chain, Op op) {
  return static_cast<int>(llvm::count_if(chain.values, [&](const Value& v) { return v.op == op; }));
}

std::vector<std::string> names(const GradientChain& part, GradientKind kind) {
  std::vector<std::string> found;
  for (const GradientOperand& operand : part.operands) {
    if (operand.kind == kind) found.push_back(operand.name);
  }
  return found;
}

using Names = std::vector<std::string>;

constexpr const char* kRagged =
    "chain c(input x: bf16[8, 4], weight w: bf16[2, 5, 4], input ends: i32[2]) {\n"
    "  y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n  return y: bf16 }";

}  // namespace

TEST_SUITE("ir") {
  TEST_CASE("by default the forward saves what no elementwise op can give again") {
    const Gradient gradient = gradient_of(gradient_chain("gated_mlp"));
    REQUIRE(gradient.chains.size() == 3);
    CHECK(gradient.saved_bytes == 2 * 32 * 64 * 2);
    CHECK(names(gradient.chains[0], GradientKind::kSaved) == Names{"g", "u"});
    CHECK(gradient.chains[1].pass == GradientPass::kDgrad);
    CHECK(gradient.chains[2].pass == GradientPass::kWgrad);
    CHECK(count(chain_of(gradient, 1), Op::kContract) == 3);
    CHECK(count(chain_of(gradient, 2), Op::kContract) == 3);
    CHECK(names(gradient.chains[1], GradientKind::kIntermediate) ==
          names(gradient.chains[2], GradientKind::kIntermediate));
  }

  TEST_CASE("chains of a gradient have the words of the forward; its norms their algebraic form") {
    const std::string text =
        "(input x: bf16[9, 64], weight g: bf16[64], weight w: bf16[24, 64]) {\n"
        "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.015625), 0.00001))\n"
        "  n = cast(mul(cast(mul(x @ \"mk\", s @ \"m\"), bf16) @ \"mk\", g @ \"k\"), bf16)\n"
        "  y = contract \"mk,nk->mn\"(n, w)\n  return y: bf16 }";
    const Gradient plain = gradient_of(verified_text("chain c" + text));
    const Gradient words =
        gradient_of(verified_text("chain c batch_invariant algebraic_norms " + text));
    REQUIRE(words.chains.size() == plain.chains.size());
    for (size_t i = 0; i < words.chains.size(); ++i) {
      CHECK(chain_of(words, i).words.batch_invariant);
      CHECK(chain_of(words, i).words.algebraic_norms);
      CHECK(chain_of(words, i).values == chain_of(plain, i).values);
      CHECK_FALSE(chain_of(plain, i).words.algebraic_norms);
    }
    // The forward saves the sum, so that only the product reads the rows.
    CHECK(algebraic_form(words.chains[0].chain).chain);
  }

  TEST_CASE("recompute saves nothing and repeats each contraction once") {
    GradientOptions options;
    options.recompute = Recompute::kAll;
    const Gradient gradient = gradient_of(gradient_chain("gated_mlp"), options);
    CHECK(gradient.saved_bytes == 0);
    CHECK(chain_of(gradient, 0).outputs.size() == 1);
    CHECK(count(chain_of(gradient, 1), Op::kContract) == 5);
    CHECK(count(chain_of(gradient, 2), Op::kContract) == 3);
  }

  TEST_CASE("a budget is kept, and nothing is repeated above it") {
    const VerifiedChain chain = gradient_chain("gated_mlp");
    GradientOptions options;
    options.recompute = Recompute::kBudget;
    for (const auto& [budget, bytes] :
         {std::pair<i64, i64>{8192, 8192}, {8191, 4096}, {4096, 4096}, {4095, 0}, {0, 0}}) {
      options.save_budget = budget;
      CHECK(gradient_of(chain, options).saved_bytes == bytes);
    }
  }

  TEST_CASE(
      "unstored: what the forward stores for its contractions is saved, and not stored again") {
    GradientOptions options;
    const Gradient fewest = gradient_of(gradient_chain("gated_mlp"), options);
    options.recompute = Recompute::kUnstored;
    const Gradient kept = gradient_of(gradient_chain("gated_mlp"), options);
    CHECK(kept.saved_bytes == fewest.saved_bytes + 32 * 64 * 2);
    CHECK(names(fewest.chains[0], GradientKind::kSaved) == Names{"g", "u"});
    CHECK(names(kept.chains[0], GradientKind::kSaved) == Names{"g", "u", "h"});
    CHECK(chain_of(kept, 1).outputs.size() + 1 == chain_of(fewest, 1).outputs.size());
    // A layer without another contraction after it stores nothing for one.
    options.recompute = Recompute::kNone;
    const i64 bytes = gradient_of(gradient_chain("linear_bias_silu"), options).saved_bytes;
    options.recompute = Recompute::kUnstored;
    CHECK(gradient_of(gradient_chain("linear_bias_silu"), options).saved_bytes == bytes);
  }

  TEST_CASE("an output that the forward returns anyway is not saved again") {
    const Gradient gradient = gradient_of(
        verified_text("chain c(input x: bf16[8, 16], weight w: bf16[4, 16]) {\n"
                      "  y = sigmoid(contract \"mk,nk->mn\"(x, w))\n  return y: bf16 }"));
    CHECK(gradient.saved_bytes == 0);
    CHECK(names(gradient.chains[1], GradientKind::kOutput) == Names{"y"});
    CHECK(names(gradient.chains[0], GradientKind::kSaved).empty());
  }

  TEST_CASE("dtypes of saved values and of weight gradients") {
    GradientOptions options;
    options.save_f32 = true;
    options.f32_weights = true;
    const Gradient gradient = gradient_of(gradient_chain("gated_mlp"), options);
    CHECK(gradient.saved_bytes == 2 * 32 * 64 * 4);
    CHECK(gradient.chains[2].chain.output_type(0).dtype == DType::kF32);
    CHECK(gradient.chains[1].chain.output_type(0).dtype == DType::kBF16);  // d_x
  }

  TEST_CASE("accumulated gradients are added in f32, those of inputs are not") {
    GradientOptions options;
    options.accumulate = true;
    const Gradient gradient = gradient_of(gradient_chain("linear_bias_silu"), options);
    CHECK(names(gradient.chains[1], GradientKind::kAccumulator) == Names{"sum_b"});
    CHECK(names(gradient.chains[2], GradientKind::kAccumulator) == Names{"sum_w"});
    const Chain& wgrad = chain_of(gradient, 2);
    REQUIRE(wgrad.outputs.back().in_place >= 0);
    CHECK(wgrad.values[wgrad.outputs.back().in_place].name == "sum_w");
    CHECK(wgrad.values.back().op == Op::kAdd);
    CHECK(wgrad.values.back().name == "d_w");
  }

  TEST_CASE("only what is wanted is computed") {
    GradientOptions options;
    options.wanted = {"x"};
    const Gradient dgrad = gradient_of(gradient_chain("gated_mlp"), options);
    REQUIRE(dgrad.chains.size() == 2);
    CHECK(dgrad.chains[1].pass == GradientPass::kBackward);
    CHECK(count(chain_of(dgrad, 1), Op::kContract) == 3);
    options.wanted = {"wd"};
    const Gradient wgrad = gradient_of(gradient_chain("gated_mlp"), options);
    REQUIRE(wgrad.chains.size() == 2);
    CHECK(count(chain_of(wgrad, 1), Op::kContract) == 1);
    CHECK(names(wgrad.chains[1], GradientKind::kWeight).empty());
  }

  TEST_CASE("a gradient passes a cast rounded as the cast rounds") {
    const VerifiedChain chain =
        verified_text("chain c(input x: f32[8]) {\n  y = mul(cast(x, f16), 3)\n  return y: f32 }");
    const Gradient gradient = gradient_of(chain);
    const Chain& backward = chain_of(gradient, 1);
    REQUIRE(count(backward, Op::kCast) == 1);
    CHECK(backward.values.back().type.dtype == DType::kF16);
    CHECK(gradient.chains[1].chain.output_type(0).dtype == DType::kF32);
  }

  TEST_CASE("a leading size of 1 before the symbol needs no strides") {
    const Gradient gradient = gradient_of(
        verified_text("chain c[S in 1..8](input x: bf16[1, S, 16], weight w: bf16[4, 16]) {\n"
                      "  y = sigmoid(contract \"bsk,nk->bsn\"(x, w))\n  return y: bf16 }"));
    for (const GradientChain& chain : gradient.chains) {
      for (const Output& output : chain.chain.chain().outputs) CHECK(output.strides.empty());
    }
  }

  TEST_CASE("the symbol and the layout of a parameter are those of its gradient") {
    const Gradient gradient = gradient_of(
        verified_text("chain c[M in 1..8](input x: bf16[3, M, 16] strides[16, 64, 1] align 2,\n"
                      "    weight w: bf16[4, 16]) {\n"
                      "  h = contract \"bmk,nk->bmn\"(x, w)\n  y = silu(h)\n"
                      "  return y: bf16 strides[4, 12, 1] }"));
    const TensorType& saved = gradient.chains[0].chain.output_type(1);
    CHECK(saved.strides == llvm::SmallVector<i64, 4>{4, 12, 1});  // M is outermost
    const TensorType& dx = gradient.chains[1].chain.output_type(0);
    CHECK(dx.strides == llvm::SmallVector<i64, 4>{16, 64, 1});
    CHECK(dx.align == 2);
    CHECK(dx.shape[1].symbolic);
  }

  TEST_CASE("a maximum is computed again from the elements that are compared with it") {
    const Gradient gradient = gradient_of(
        verified_text("chain c(input x: bf16[8, 16], weight w: bf16[4, 16]) {\n"
                      "  g = contract \"mk,nk->mn\"(x, w)\n  y = reduce_max \"mn->m\"(g)\n"
                      "  return y: f32 }"));
    CHECK(names(gradient.chains[0], GradientKind::kSaved) == Names{"g"});
    CHECK(names(gradient.chains[1], GradientKind::kOutput).empty());
    CHECK(count(chain_of(gradient, 1), Op::kReduceMax) == 1);
  }

  TEST_CASE("what is computed again from rounded values is compared with no stored value") {
    GradientOptions options;
    options.recompute = Recompute::kUnstored;
    // v and r are stored in f32 for their contractions; h, from which u comes again, in bf16.
    const Gradient clamped = gradient_of(
        verified_text("chain c(input x: bf16[8, 16], weight w: bf16[4, 16], weight b: f32[4],\n"
                      "        weight z: f32[6, 4]) {\n  h = contract \"mk,nk->mn\"(x, w)\n"
                      "  v = clamp(add(h, b), lo = -1, hi = 1)\n"
                      "  y = contract \"mk,nk->mn\"(v, z)\n  return y: f32 }"),
        options);
    for (size_t i = 1; i < clamped.chains.size(); ++i)
      CHECK(count(chain_of(clamped, i), Op::kEq) == 0);
    const Gradient largest = gradient_of(
        verified_text("chain c(input x: bf16[8, 16], weight w: bf16[4, 16], weight b: f32[4],\n"
                      "        weight z: f32[6, 8]) {\n  h = contract \"mk,nk->mn\"(x, w)\n"
                      "  r = reduce_max \"mn->m\"(add(h, b))\n"
                      "  y = contract \"m,km->k\"(r, z)\n  return y: f32 }"),
        options);
    CHECK(count(chain_of(largest, 1), Op::kReduceMax) == 1);
  }

  TEST_CASE("an operand that is summed for its gradient stays in f32") {
    GradientOptions options;
    options.wanted = {"w"};
    const Gradient gradient =
        gradient_of(verified_text("chain c(input x: f16[4096, 16], weight w: f16[8, 16]) {\n"
                                  "  s = sum \"mn->n\"(contract \"mk,nk->mn\"(x, w))\n"
                                  "  return s: f32 }"),
                    options);
    const Chain& last = chain_of(gradient, gradient.chains.size() - 1);
    const VerifiedChain& verified = gradient.chains.back().chain;
    for (ValueId id = 0; id < static_cast<ValueId>(last.values.size()); ++id) {
      if (last.values[id].op != Op::kContract) continue;
      for (const Use& use : last.values[id].operands)
        CHECK(verified.info(use.value).type.dtype == DType::kF32);
    }
    CHECK(count(last, Op::kContract) == 1);
  }

  TEST_CASE("a scalar's gradient is one f32") {
    GradientOptions options;
    options.wanted = {"s"};
    const Gradient gradient =
        gradient_of(verified_text("chain c(input x: bf16[8, 4], scalar s: f32) {\n"
                                  "  y = scale(x, s)\n  return y: bf16 }"),
                    options);
    const TensorType& ds = gradient.chains[1].chain.output_type(0);
    CHECK(ds.rank() == 0);
    CHECK(ds.dtype == DType::kF32);
    CHECK(names(gradient.chains[1], GradientKind::kScalarGradient) == Names{"d_s"});
  }

  TEST_CASE("the gradient of an operand by group is a sum by group") {
    GradientOptions options;
    options.accumulate = true;
    const Gradient gradient = gradient_of(gradient_chain("experts_biases"), options);
    // The values with the biases are saved: the backward finds no groups of rows.
    CHECK(names(gradient.chains[0], GradientKind::kSaved) == Names{"gb", "ub", "d"});
    const Chain& dgrad = chain_of(gradient, 1);
    for (const char* name : {"bg", "bu", "bd"}) {
      const auto found = llvm::find_if(dgrad.values, [&](const Value& v) {
        return v.name == "d_" + std::string(name) && v.op == Op::kAdd;
      });
      REQUIRE(found != dgrad.values.end());  // added to its accumulator
      const Value& sum = dgrad.values[found->operands[1].value];
      CHECK(sum.op == Op::kSum);
      CHECK(sum.ragged.has_value());
    }
    CHECK(names(gradient.chains[1], GradientKind::kWeightGradient) ==
          Names{"d_bg", "d_bu", "d_bd"});
    CHECK(names(gradient.chains[1], GradientKind::kAccumulator) ==
          Names{"sum_bg", "sum_bu", "sum_bd"});
  }

  TEST_CASE("a gain by group multiplies the gradient by group") {
    const Gradient gradient = gradient_of(
        verified_text("chain c(input x: bf16[8, 4], weight w: bf16[2, 5, 4], weight s: f32[2],\n"
                      "        input ends: i32[2]) {\n"
                      "  h = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n"
                      "  y = mul(h, s @ \"e\")\n  return y: bf16 }"));
    const Chain& dgrad = chain_of(gradient, 1);
    CHECK(llvm::count_if(dgrad.values, [](const Value& v) {
            return v.op == Op::kMul && v.ragged && v.ragged->group == 'e';
          }) == 1);
    CHECK(llvm::any_of(dgrad.values,
                       [](const Value& v) { return v.op == Op::kSum && v.equation == "mn->e"; }));
  }

  TEST_CASE("the gradient of a sum by group is taken by group") {
    const Gradient gradient = gradient_of(
        verified_text("chain c(input x: f32[8, 5], input ends: i32[2]) {\n"
                      "  y = sum \"mn->en\"(exp(x)) ragged m by ends over e\n  return y: f32 }"));
    const Chain& backward = chain_of(gradient, 1);
    CHECK(backward.values.back().op == Op::kMul);
    CHECK(backward.values.back().ragged.has_value());
  }

  TEST_CASE("refusals") {
    GradientOptions options;
    options.wanted = {"z"};
    CHECK(has(refusal(kRagged, options), "'z' is not a parameter of chain 'c'"));
    options.wanted = {"ends"};
    CHECK(has(refusal(kRagged, options), "parameter 'ends' is i32"));
    options.wanted = {};
    options.outputs = {"yy"};
    CHECK(has(refusal(kRagged, options), "'yy' is not an output of chain 'c'"));
    options.outputs = {};
    options.save_budget = 4;
    CHECK(has(refusal(kRagged, options), "saving is not by budget"));
    options.recompute = Recompute::kBudget;
    options.save_budget = -1;
    CHECK(has(refusal(kRagged, options), "-1 bytes: give 0 bytes or more"));
    const char* compared =
        "chain c(input x: f32[4], input z: f32[4]) {\n  y = lt(x, 0)\n  q = neg(z)\n"
        "  return y: f32, q: f32 }";
    options = {};
    options.wanted = {"x"};
    CHECK(has(refusal(compared, options), "no gradient reaches 'x', because 'lt' has none"));
    options.wanted = {"z"};
    options.outputs = {"y"};
    CHECK(has(refusal(compared, options), "no chosen output of chain 'c' depends on 'z'"));
    options.wanted = {};
    CHECK(has(refusal(compared, options), "chain 'c' has no gradient"));
    options = {};
    CHECK(has(
        refusal("chain c(input x: f32[4]) {\n  y = exp(x)\n  return y: f32 inplace x }", options),
        "output 'y' is in place of 'x'"));
    const char* fp8 =
        "chain c(input x: e4m3[8, 16], weight w: e4m3[4, 16], weight b: bf16[4]) {\n"
        "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: bf16 }";
    CHECK(has(refusal(fp8, options), "multiplies e4m3, which has no gradient: train in bf16"));
    options.wanted = {"r"};
    CHECK(has(refusal("chain c(input x: f32[4], input r: e4m3[4]) {\n  y = add(x, r)\n"
                      "  return y: f32 }",
                      options),
              "parameter 'r' is e4m3, which has no gradient"));
    options = {};
    CHECK(
        has(refusal("chain c(input x: f32[4]) {\n  y = cast(x, e5m2)\n  return y: e5m2 }", options),
            "rounds to e5m2, which has no gradient"));
    CHECK(has(
        refusal("chain c(input x: bf16[8, 4], weight w: bf16[2, 5, 4], weight b: bf16[8, 2],\n"
                "        input ends: i32[2]) {\n"
                "  h = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n"
                "  y = add(h, b @ \"me\")\n  return y: bf16 }",
                options),
        "'add' of 'y' takes 'b' by the row and by the group of the row, which has no gradient"));
  }

  TEST_CASE("gradients are chains: they print and parse") {
    for (const char* name : kGradientChains) {
      CAPTURE(name);
      for (const GradientChain& part : gradient_of(gradient_chain(name)).chains) {
        const Chain& chain = part.chain.chain();
        auto parsed = parse(print(chain));
        REQUIRE(static_cast<bool>(parsed));
        CHECK(*parsed == chain);
      }
    }
  }
}
