// SPDX-License-Identifier: Apache-2.0
// Plans of quantised weights: which random chains have a kernel, and what is refused elsewhere.
#include <doctest/doctest.h>

#include "compiler/plan.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"

using namespace catenary;

TEST_CASE("random quantised weights and small M have a kernel on sm_90a, and a refusal elsewhere") {
  RandomChainOptions options;
  options.small_m = true;
  options.no_dequant = false;
  int dequantised = 0, planned_here = 0, rounded = 0;
  for (u64 seed = 0; seed < 300; ++seed) {
    const VerifiedChain chain = llvm::cantFail(verify(random_chain(seed, options)));
    bool quantised = false;
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      quantised = quantised || chain.value(id).op == Op::kDequant;
    }
    if (!quantised) continue;
    ++dequantised;
    for (const char* target : {"h200", "a100", "b200"}) {
      auto plan = make_plan(chain, llvm::cantFail(find_target(target)));
      if (plan) {
        const bool hopper = std::string(target) == "h200";
        CHECK((hopper || chain.chain().words.rounded_weights));
        (hopper ? planned_here : rounded) += 1;
        continue;
      }
      CHECK(take_report(plan.takeError()).code == ErrorCode::kUnsupported);
    }
  }
  const std::string text =
      "chain c(input x: bf16[4, 128], weight q: i4[64, 128] packed, weight s: bf16[64, 1]) {\n"
      "  y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n  return y: bf16 }";
  const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(text))));
  PlanOptions split;
  split.split_k = 3;
  auto plan = make_plan(chain, llvm::cantFail(find_target("h200")), split);
  REQUIRE(!plan);
  const ErrorReport refused = take_report(plan.takeError());
  CHECK(refused.code == ErrorCode::kInvalidArgument);
  CHECK(refused.message ==
        "no tile for 'y' that fits h200 has split-K 3: leave it to the planner, or "
        "choose another one");
  CHECK(dequantised > 40);
  CHECK(planned_here * 10 > dequantised * 7);
  CHECK(rounded > 10);
}

TEST_CASE("quantised weights have no order of K for every number of rows: a sentence says so") {
  const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(
      parse("chain c[M in 1..8](input x: bf16[M, 128], weight q: i4[64, 128] packed,\n"
            "    weight s: bf16[64, 1]) {\n"
            "  y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n  return y: bf16 }"))));
  PlanOptions invariant;
  invariant.batch_invariant = true;
  auto plan = make_plan(chain, llvm::cantFail(find_target("h200")), invariant);
  REQUIRE(!plan);
  const ErrorReport refused = take_report(plan.takeError());
  CHECK(refused.code == ErrorCode::kUnsupported);
  CHECK(refused.message ==
        "no kernel of 'y' on h200 sums K in one order for every number of rows: plan it without "
        "batch_invariant; or give the chain the word rounded_weights: its dequantised weights are "
        "then rounded before they are multiplied");
}
