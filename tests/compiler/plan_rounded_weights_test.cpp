// SPDX-License-Identifier: Apache-2.0
// Where the planner rounds quantised weights first, what explain says of it, and which kernels
// casts of dequantised weights have.
#include <doctest/doctest.h>

#include "compiler/explain.h"
#include "compiler/kernel_family.h"
#include "ir/text/text.h"
#include "llvm/ADT/StringExtras.h"
#include "tests/support/verified.h"

using namespace catenary;
using catenary::testing::verified;

namespace {

Plan planned(const VerifiedChain& chain, const char* target = "h100", PlanOptions options = {}) {
  auto plan = make_plan(chain, llvm::cantFail(find_target(target)), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

std::string refusal(const VerifiedChain& chain, const char* target, PlanOptions options = {}) {
  auto plan = make_plan(chain, llvm::cantFail(find_target(target)), options);
  REQUIRE_FALSE(static_cast<bool>(plan));
  const ErrorReport report = take_report(plan.takeError());
  CHECK(report.code == ErrorCode::kUnsupported);
  return report.message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string one_line(std::string text) {
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\n') text[i] = ' ';
    const bool again = i > 0 && text[i] == ' ' && text[i - 1] == ' ';
    again ? text.erase(i, 1) : text.erase(i, 0);
    i += again ? 0 : 1;
  }
  return text;
}

std::string families(const PlanBucket& bucket) {
  std::string names;
  for (const KernelPlan& kernel : bucket.kernels)
    names += (names.empty() ? "" : " ") + std::string(family_name(kernel));
  return names;
}

// y = x w^T of 4 bits; `packed` and `block` as in the text.
std::string linear(const std::string& rows, const std::string& word,
                   const std::string& packed = "packed", const std::string& block = "1, 128") {
  const bool symbol = rows.find("..") != rows.npos;
  const i64 scales = block == "1, 128" ? 32 : 1;
  return fmt::format(
      "chain c{} {}(input x: bf16[{}, 4096], weight q: i4[4096, 4096] {}, weight s: bf16[{}, {}]) "
      "{{\n  y = contract \"mk,nk->mn\"(x, dequant(q, s) block ({}))\n  return y: bf16 }}",
      symbol ? fmt::format("[M in {}]", rows) : "", word, symbol ? "M" : rows, packed,
      block == "1, 128" ? 4096 : 64, scales, block);
}

}  // namespace

TEST_CASE("small M reads the packed weight, large M one that is rounded first") {
  const VerifiedChain chain = verified(linear("1..4096", "rounded_weights"));
  const Plan plan = planned(chain);
  REQUIRE(plan.forms.size() == 1);
  REQUIRE(plan.buckets.size() > 1);
  CHECK(plan.buckets.front().form == -1);
  CHECK(families(plan.buckets.front()) == "skinny_dequant");
  CHECK(plan.buckets.back().form == 0);
  CHECK(families(plan.buckets.back()) == "dequantise gemm_sm90");
  // What is slower is not taken, whatever the bucket.
  const Plan written = planned(verified(linear("1..4096", "")));
  double written_us = 0;
  for (const KernelPlan& kernel : written.buckets.back().kernels) written_us += kernel.predicted.us;
  double us = 0;
  for (const KernelPlan& kernel : plan.buckets.back().kernels) us += kernel.predicted.us;
  CHECK(us < written_us);
  const std::string text = one_line(explain_text(chain, plan));
  CHECK(has(text, ", rounded weights"));
  CHECK(has(text, "rounded weights 't3' is rounded to bf16 before it is multiplied"));
  CHECK(has(text, "with weights dequantised in the products"));
  CHECK(has(text, "with rounded weights"));
  const llvm::json::Value value = explain_json(chain, plan);
  const auto& buckets = *value.getAsObject()->getArray("buckets");
  CHECK(buckets.front().getAsObject()->getArray("rounded") == nullptr);
  REQUIRE(buckets.back().getAsObject()->getArray("rounded") != nullptr);
  CHECK(buckets.back().getAsObject()->getArray("rounded")->size() == 1);
}

TEST_CASE("where no kernel reads the weight, it is rounded; without the word, that is the fix") {
  const std::string fix =
      "; or give the chain the word rounded_weights: its dequantised weights are then rounded "
      "before they are multiplied";
  const auto check = [&](const std::string& text, const std::string& word, const char* target) {
    CAPTURE(target);
    CAPTURE(text);
    const std::string message = refusal(verified(text), target);
    CAPTURE(message);
    CHECK(message.size() > fix.size());
    CHECK(message.substr(message.size() - fix.size()) == fix);
    const Plan plan = planned(verified(word), target);
    for (const PlanBucket& bucket : plan.buckets) {
      CHECK(bucket.form == 0);
      REQUIRE(bucket.kernels.size() >= 2);
      CHECK(family_name(bucket.kernels[0]) == "dequantise");
      // Why the chain is not computed as it is written.
      CHECK(has(bucket.kept_apart.back(), "weights dequantised in the products: "));
    }
  };
  for (const char* target : {"a100", "b200", "l4"}) {
    for (const char* rows : {"8", "512", "1..64"})
      check(linear(rows, ""), linear(rows, "rounded_weights"), target);
  }
  for (const char* rows : {"8", "512"}) {
    check(linear(rows, "", ""), linear(rows, "rounded_weights", ""), "h100");
    check(linear(rows, "", "packed", "64, 4096"),
          linear(rows, "rounded_weights", "packed", "64, 4096"), "h100");
  }
}

TEST_CASE("batch_invariant: weights are rounded for every M, and never without the word") {
  const Plan plan = planned(verified(linear("1..512", "batch_invariant rounded_weights")));
  for (const PlanBucket& bucket : plan.buckets) {
    CHECK(bucket.form == 0);
    CHECK(family_name(bucket.kernels[0]) == "dequantise");
    CHECK(has(bucket.kept_apart.back(), "weights are rounded: with batch_invariant"));
  }
  CHECK(has(refusal(verified(linear("1..512", "batch_invariant")), "h100"),
            "plan it without batch_invariant; or give the chain the word rounded_weights"));
}

TEST_CASE("a kernel for each op has the rounded form too") {
  PlanOptions options;
  options.fuse = false;
  const Plan plan = planned(verified(linear("64", "rounded_weights")), "a100", options);
  CHECK(plan.buckets[0].form == 0);
  CHECK(family_name(plan.buckets[0].kernels[0]) == "dequantise");
}

TEST_CASE("pairs and contractions side by side have their weights first, and then share a kernel") {
  const std::string weights =
      "weight q: i4[512, 1024] packed, weight s: bf16[512, 8], weight p: i4[512, 1024] packed, "
      "weight t: bf16[512, 8]";
  const std::string products =
      "g = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n"
      "u = contract \"mk,nk->mn\"(x, dequant(p, t) block (1, 128))\n";
  const Plan gated = planned(
      verified(fmt::format("chain c rounded_weights(input x: bf16[512, 1024], {}) {{\n{}  y = "
                           "mul(silu(g), u) return y: bf16 }}",
                           weights, products)),
      "a100");
  CHECK(families(gated.buckets[0]) == "dequantise dequantise gemm_sm80");
  const Plan apart = planned(
      verified(fmt::format("chain c rounded_weights(input x: bf16[8, 1024], {}) {{\n{}  return g: "
                           "bf16, u: bf16 }}",
                           weights, products)),
      "a100");
  REQUIRE(apart.buckets[0].kernels.size() == 3);
  CHECK(apart.buckets[0].kernels[2].beside.size() == 1);
}

TEST_CASE("a cast of a dequantised weight is stored, whatever reads it") {
  const std::string weight = "weight q: i4[64, 128], weight s: f32[64, 1], input b: f32[64, 128]";
  const auto kernels = [&](const std::string& body) {
    const Plan plan = planned(verified(fmt::format(
        "chain c({}) {{\n  w = cast(dequant(q, s) block (1, 128), bf16)\n{} }}", weight, body)));
    return families(plan.buckets[0]);
  };
  CHECK(kernels("  v = add(w, b) return w: bf16, v: bf16") == "dequantise pointwise");
  CHECK(kernels("  v = add(w, b) return v: bf16") == "dequantise pointwise");
  CHECK(kernels("  v = sum \"nk->n\"(mul(w @ \"nk\", b)) return v: f32") == "dequantise reduce");
  const std::string pointwise = kernels(
      "  v = relu(add(b, 1)) u = add(w, v) z = sum \"nk->k\"(u) return u: bf16, z: "
      "f32");
  CHECK(pointwise.find("dequantise ") == 0);
}

TEST_CASE("both words: the algebraic form is rounded too") {
  const VerifiedChain chain = verified(
      "chain c algebraic_norms rounded_weights(input x: bf16[2048, 1024], weight q: i4[2048, 1024] "
      "packed,\n    weight s: bf16[2048, 8]) {\n"
      "  t = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.0009765625), 0.00001))\n"
      "  n = cast(mul(x @ \"mk\", t @ \"m\"), bf16)\n"
      "  y = contract \"mk,nk->mn\"(n, dequant(q, s) block (1, 128))\n  return y: bf16 }");
  const Plan plan = planned(chain, "a100");
  REQUIRE(plan.forms.size() == 3);
  REQUIRE(plan.buckets[0].form >= 0);
  CHECK(plan.forms[plan.buckets[0].form].rounded);
  if (plan.forms[plan.buckets[0].form].algebraic) {
    CHECK(has(explain_text(chain, plan), "\nalgebraic form of norms, rounded weights\n"));
  }
  // The norm keeps its form for every M, and the weight is rounded for every M.
  PlanOptions invariant;
  invariant.batch_invariant = true;
  const Plan one = planned(chain, "a100", invariant);
  REQUIRE(one.forms.size() == 1);
  CHECK(one.forms[0].rounded);
  CHECK_FALSE(one.forms[0].algebraic);
}

TEST_CASE("a packed weight that is no whole words is refused by name, and no word is the fix") {
  const std::string text =
      "chain c {}(input x: bf16[8, 128], weight q: i4[64, 128] packed align 2, weight s: "
      "f32[64, 1]) {{\n  y = contract \"mk,nk->mn\"(x, {})\n  return y: bf16 }}";
  const std::string dequant = "dequant(q, s) block (1, 128)";
  CHECK(
      refusal(verified(fmt::format(fmt::runtime(text), "", "cast(" + dequant + ", bf16)")),
              "a100") ==
      "'q' of 't4' is packed and aligned to 2 bytes: a kernel loads words of it, so align it to 4 "
      "or more bytes");
  CHECK_FALSE(has(refusal(verified(fmt::format(fmt::runtime(text), "", dequant)), "a100"),
                  "rounded_weights"));
}
