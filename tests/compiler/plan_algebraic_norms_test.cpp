// SPDX-License-Identifier: Apache-2.0
// Where the planner takes the algebraic form of norms, and what explain says of it.
#include <doctest/doctest.h>

#include "compiler/explain.h"
#include "compiler/plan.h"
#include "ir/text/text.h"
#include "shared/skinny_config.h"
#include "tests/support/verified.h"

using namespace catenary;
using testing::verified;

namespace {

// A norm as PyTorch writes it, with every rounding, and two products of it.
std::string layer(const std::string& rows, const std::string& word, bool gain,
                  const char* outputs = "y: bf16, z: bf16") {
  const bool symbolic = rows.find("..") != rows.npos;
  return fmt::format(
      "chain c{0} {1}(input x: bf16[{2}, 4096], weight w: bf16[4096, 4096],\n"
      "    weight v: bf16[1024, 4096]{3}) {{\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.000244140625), 0.00001))\n"
      "  n = cast(mul(x @ \"mk\", s @ \"m\"), bf16)\n{4}"
      "  y = contract \"mk,nk->mn\"({5}, w)\n  z = contract \"mk,nk->mn\"({5}, v)\n  return {6} }}",
      symbolic ? "[M in " + rows + "]" : "", word, symbolic ? "M" : rows,
      gain ? ", weight g: bf16[4096]" : "",
      gain ? "  ng = cast(mul(n @ \"mk\", g @ \"k\"), bf16)\n" : "", gain ? "ng" : "n", outputs);
}

Plan planned(const VerifiedChain& chain, PlanOptions options = {}, const char* target = "h200") {
  auto plan = make_plan(chain, llvm::cantFail(find_target(target)), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

std::string one_line(std::string text) {
  std::string result;
  for (char c : text) {
    if (c == '\n') c = ' ';
    if (c != ' ' || result.empty() || result.back() != ' ') result += c;
  }
  return result;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

PlanOptions algebraic() {
  PlanOptions options;
  options.algebraic_norms = true;
  return options;
}

}  // namespace

TEST_CASE("small M: one launch, the sum and the gain inside; explain names the form") {
  const VerifiedChain chain = verified(layer("8", "algebraic_norms ", true));
  PlanOptions options;
  options.prefer_inside = true;
  const Plan plan = planned(chain, options);
  REQUIRE(plan.buckets.size() == 1);
  const PlanBucket& bucket = plan.buckets[0];
  CHECK(bucket.form >= 0);
  REQUIRE(bucket.kernels.size() == 1);
  const KernelPlan& kernel = bucket.kernels[0];
  CHECK(kernel.beside.size() == 1);
  CHECK(kernel.config.get<SkinnyConfig>().row_squares);
  CHECK(kernel.config.get<SkinnyConfig>().gain.used);
  CHECK_FALSE(kernel.formed);
  CHECK(plan.fused_kernels == 1);
  const std::string text = one_line(explain_text(chain, plan));
  CHECK(has(text, ", algebraic norms"));
  CHECK(has(text, "algebraic form of norms 'ng' is the rows of 'x' without their scale"));
  CHECK(has(text, "y_unscaled, y"));
  const llvm::json::Value value = explain_json(chain, plan);
  const auto* first = (*value.getAsObject()->getArray("buckets"))[0].getAsObject();
  REQUIRE(first->getArray("algebraic") != nullptr);
  CHECK(first->getArray("algebraic")->size() == 1);
}

TEST_CASE("the option of the planner is the word of the chain; without both nothing is dropped") {
  for (const char* rows : {"8", "64", "512", "1..4096"}) {
    for (const bool gain : {false, true}) {
      CAPTURE(rows);
      CAPTURE(gain);
      const VerifiedChain exact = verified(layer(rows, "", gain));
      const Plan word = planned(verified(layer(rows, "algebraic_norms ", gain)));
      const Plan option = planned(exact, algebraic());
      CHECK(one_line(explain_text(exact, word)) == one_line(explain_text(exact, option)));
      const Plan written = planned(exact);
      CHECK(written.forms.empty());
      REQUIRE(written.buckets.size() > 0);
      double written_us = 0, us = 0;
      for (const PlanBucket& bucket : written.buckets) {
        CHECK(bucket.form == -1);
        for (const KernelPlan& kernel : bucket.kernels) {
          written_us += kernel.predicted.us;
          // Inside `skinny` the rows are formed with their roundings.
          if (kernel.formed) CHECK_FALSE(kernel.config.get<SkinnyConfig>().row_squares);
        }
      }
      for (const PlanBucket& bucket : word.buckets) {
        for (const KernelPlan& kernel : bucket.kernels) us += kernel.predicted.us;
      }
      if (word.buckets.size() == written.buckets.size()) CHECK(us <= written_us);
      CHECK_FALSE(has(explain_text(exact, written), "algebraic"));
    }
  }
}

TEST_CASE("many rows: the products read x, and scale their results, in every GEMM family") {
  for (const char* target : {"h200", "a100"}) {
    for (const char* rows : {"64", "512", "4096"}) {
      CAPTURE(target);
      CAPTURE(rows);
      const Plan plan = planned(verified(layer(rows, "algebraic_norms ", false)), {}, target);
      const PlanBucket& bucket = plan.buckets[0];
      CHECK(bucket.form >= 0);
      for (const KernelPlan& kernel : bucket.kernels) {
        for (const SlotBinding& slot : kernel.slots) {
          // No normalised rows in memory.
          if (slot.kind == SlotBinding::Kind::kWorkspace) CHECK(slot.bytes < 1 << 20);
        }
      }
    }
  }
}

TEST_CASE("explain says why the form is not taken, or that there is none") {
  const auto apart = [](const VerifiedChain& chain) {
    std::string all;
    const Plan plan = planned(chain, algebraic());
    for (const std::string& why : plan.buckets[0].kept_apart) all += why + "\n";
    return all;
  };
  const VerifiedChain wanted = verified(layer("8", "", false, "y: bf16, z: bf16, n: bf16"));
  CHECK(has(apart(wanted), "'n' keeps its roundings: the caller wants it\n"));
  const VerifiedChain large = verified(layer("4096", "", true));
  CHECK(has(apart(large), "with the algebraic form of norms "));
  const VerifiedChain layer_norm = verified(
      "chain c(input x: bf16[8, 1024], weight g: bf16[1024], weight b: bf16[1024],\n"
      "    weight w: bf16[2048, 1024]) {\n"
      "  t = mul(sum \"mk->m\"(x), 0.0009765625)\n  d = sub(x @ \"mk\", t @ \"m\")\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(d)), 0.0009765625), 0.00001))\n"
      "  n = cast(add(mul(mul(d, s @ \"m\"), g @ \"k\"), b @ \"k\"), bf16)\n"
      "  y = contract \"mk,nk->mn\"(n, w)\n  return y: bf16 }");
  CHECK(has(apart(layer_norm), "'n' keeps its roundings: it is no matrix times numbers"));
  CHECK(planned(layer_norm, algebraic()).forms.empty());
}

TEST_CASE("a form that no family computes has the reasons of the families") {
  const Plan plan =
      planned(verified("chain c[M in 1..16] (input x: bf16[M, 64], weight g: bf16[64],\n"
                       "    weight w: bf16[48, 64], weight v: bf16[64, 48]) {\n"
                       "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.015625), 1e-5))\n"
                       "  n = cast(mul(mul(x @ \"mk\", s @ \"m\"), g @ \"k\"), bf16)\n"
                       "  h = cast(silu(contract \"mk,nk->mn\"(n, w)), bf16)\n"
                       "  y = add(contract \"mn,kn->mk\"(h, v), x)\n  return y: bf16 }"),
              algebraic());
  int refused = 0;
  for (const std::string& why : plan.buckets[0].kept_apart) {
    CAPTURE(why);
    CHECK_FALSE(why.substr(why.size() - 2) == ": ");
    refused += has(why, "computes 't14' on h200: skinny: it has no tile for this shape") ? 1 : 0;
  }
  CHECK(refused > 0);
}

TEST_CASE("batch_invariant: one form for every M") {
  for (const char* rows : {"8", "1..4096"}) {
    const Plan plan = planned(verified(layer(rows, "batch_invariant algebraic_norms ", false)));
    CHECK(plan.forms.empty());
    for (const PlanBucket& bucket : plan.buckets) {
      CHECK(bucket.form == -1);
      REQUIRE(bucket.kept_apart.size() > 0);
      CHECK(has(bucket.kept_apart.back(), "norms are planned as written: with batch_invariant"));
    }
  }
}

TEST_CASE("a kernel for each op is planned as it is written") {
  PlanOptions options = algebraic();
  options.fuse = false;
  const Plan plan = planned(verified(layer("8", "", true)), options);
  CHECK(plan.forms.empty());
  CHECK(plan.buckets[0].form == -1);
}
