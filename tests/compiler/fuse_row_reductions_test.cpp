// SPDX-License-Identifier: Apache-2.0
// Which reductions of rows move into the kernel of their contraction, with what reads them, and
// which stay apart; what the planner says of both.
#include <doctest/doctest.h>

#include "compiler/explain.h"
#include "compiler/fusion/row_reductions.h"
#include "compiler/plan.h"
#include "ir/text/text.h"
#include "llvm/ADT/STLExtras.h"
#include "shared/gemm_sm90_config.h"
#include "tests/support/verified.h"

using namespace catenary;
using testing::verified;

namespace {

struct Fused {
  VerifiedChain chain;
  FusionPlan plan;

  const FusionGroup& first() const { return plan.groups.front(); }
  std::vector<std::string> outputs() const {
    std::vector<std::string> names;
    for (const GroupOutput& output : first().outputs)
      names.push_back(chain.value(output.value).name);
    return names;
  }
};

Fused fused(const std::string& text) {
  Fused result{verified(text), {}};
  FusionOptions options;
  options.row_reductions = true;
  result.plan = fuse_chain(result.chain, options);
  return result;
}

using Names = std::vector<std::string>;

// `body` of h [m, j, c], the contraction; `inputs`: further parameters.
std::string chain_of(const std::string& body, const std::string& inputs = "") {
  return "chain a(input x: bf16[200, 72], weight w: bf16[3, 128, 72]" + inputs +
         ") {\n  h = contract \"mk,jck->mjc\"(x, w)\n" + body + " }";
}

const std::string kRowInput = ", input r: f32[200, 3]";

Plan planned(const std::string& text, const char* target = "h200") {
  auto plan = make_plan(verified(text), llvm::cantFail(find_target(target)), {});
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

bool says(const Plan& plan, llvm::StringRef text) {
  return llvm::any_of(plan.buckets[0].kept_apart,
                      [&](const std::string& why) { return llvm::StringRef(why).contains(text); });
}

}  // namespace

TEST_CASE("a scale for each row and block, and what it divides, are one kernel") {
  const Fused f =
      fused(chain_of("  s = add(reduce_max \"mjc->mj\"(abs(h)), r)\n"
                     "  q = cast(div(h, s @ \"mj\"), e4m3)\n  return q: e4m3, s: f32",
                     kRowInput));
  CHECK(f.plan.groups.size() == 1);
  CHECK(f.plan.has_row_reductions);
  CHECK(f.outputs() == Names{"s", "q"});
  CHECK(reduced_columns(f.first()) == 128);
  CHECK(kept_dims(f.first()) == llvm::SmallVector<int, 8>{0, 1});
  CHECK(f.first().why.find("it reduces 128 columns of its tiles to ") != std::string::npos);
}

TEST_CASE("a second reduction may read the first") {
  const Fused f =
      fused(chain_of("  e = exp(sub(h, reduce_max \"mjc->mj\"(h) @ \"mj\"))\n"
                     "  y = div(e, sum \"mjc->mj\"(e) @ \"mj\")\n  return y: bf16"));
  CHECK(f.plan.groups.size() == 1);
  CHECK(f.first().row_reductions->values.size() == 2);
}

TEST_CASE("a value that a later kernel reads is still stored, others are not") {
  const Fused f =
      fused(chain_of("  s = sum \"mjc->mj\"(square(h))\n  y = mul(h, s @ \"mj\")\n"
                     "  t = sum \"mjc->jc\"(y)\n  return y: bf16, t: f32"));
  REQUIRE(f.plan.groups.size() == 2);
  CHECK(f.plan.groups[1].kind == FusionGroup::Kind::kReduction);
  CHECK(f.outputs() == Names{"y"});
}

TEST_CASE("what stays apart") {
  // Reductions over different columns: the first one moves only.
  const Fused two =
      fused(chain_of("  s = sum \"mjc->mj\"(h)\n  t = sum \"mjc->m\"(h)\n"
                     "  y = mul(h, s @ \"mj\")\n  return y: bf16, t: f32"));
  CHECK(two.plan.groups.size() == 2);
  CHECK(two.first().row_reductions->values.size() == 1);
  // Numbers of one block that another block reads.
  const Fused moved = fused(
      "chain a(input x: bf16[200, 72], weight w: bf16[3, 3, 72]) {\n"
      "  h = contract \"mk,jck->mjc\"(x, w)\n  s = sum \"mjc->mj\"(h)\n"
      "  y = mul(h, s @ \"mc\")\n  return y: bf16 align 2 }");
  CHECK(moved.plan.groups.size() == 2);
  // Numbers in another order, though of one shape.
  const Fused turned = fused(
      "chain a(input x: bf16[24, 24, 72], weight w: bf16[128, 72]) {\n"
      "  h = contract \"abk,ck->abc\"(x, w)\n  s = sum \"abc->ba\"(h)\n"
      "  y = mul(h, s @ \"ab\")\n  return y: bf16 }");
  CHECK_FALSE(turned.plan.has_row_reductions);
  // A sum over rows, and a term that its kernel computes.
  const Fused later = fused(
      chain_of("  t = sum \"mjc->jc\"(h)\n  u = add(h, t @ \"jc\")\n  s = sum \"mjc->mj\"(u)\n"
               "  return s: f32"));
  CHECK_FALSE(later.plan.has_row_reductions);
  // A number that no reduction gives, beside others.
  const Fused beside =
      fused(chain_of("  s = reduce_max \"mjc->mj\"(abs(h))\n  u = exp(r)\n  v = mul(s, u)\n"
                     "  y = mul(h, v @ \"mj\")\n  return y: bf16, v: f32, u: f32",
                     kRowInput));
  CHECK_FALSE(beside.plan.has_row_reductions);
  // An output in place of an input, which other blocks may still read.
  const Fused in_place =
      fused(chain_of("  s = add(reduce_max \"mjc->mj\"(abs(h)), r)\n  y = mul(h, s @ \"mj\")\n"
                     "  return y: bf16, s: f32 inplace r",
                     kRowInput));
  CHECK_FALSE(in_place.plan.has_row_reductions);
}

TEST_CASE("the planner takes it where a tile holds the columns, and says why not elsewhere") {
  const std::string head =
      "chain a(input x: bf16[4096, 1024], weight w: bf16[16, 128, 1024]) {\n"
      "  h = contract \"mk,jck->mjc\"(x, w)\n";
  const std::string quantised =
      head +
      "  s = reduce_max \"mjc->mj\"(abs(h))\n  q = cast(div(h, s @ \"mj\"), e4m3)\n"
      "  return q: e4m3, s: f32 }";
  const Plan plan = planned(quantised);
  REQUIRE(plan.buckets[0].kernels.size() == 1);
  const auto& config = plan.buckets[0].kernels[0].config.get<GemmSm90Config>();
  CHECK(config.epilogue.reduced_columns == 128);
  CHECK(config.space.n.size == 2048);
  CHECK(config.schedule.split_k == 1);

  const Plan ampere = planned(quantised, "a100");
  CHECK(ampere.buckets[0].kernels.size() > 1);
  CHECK(says(ampere, "rows reduced in the epilogue: no kernel family"));
  // A whole row is more than a tile.
  const Plan rows = planned(head +
                            "  s = reduce_max \"mjc->m\"(abs(h))\n"
                            "  q = cast(div(h, s @ \"m\"), e4m3)\n  return q: e4m3 }");
  CHECK(says(rows, "a row of 2048 columns is more than a tile of 256"));
  // Columns that are not neighbours in memory: the matrix's columns are the other label.
  const Plan apart = planned(
      "chain a(input x: bf16[4096, 1024], weight w: bf16[16, 128, 1024]) {\n"
      "  h = contract \"mk,jck->mjc\"(x, w)\n  s = reduce_max \"mjc->mj\"(abs(h))\n"
      "  y = mul(h, s @ \"mj\")\n  return y: bf16 strides[2048, 1, 16] }");
  CHECK(apart.buckets[0].kernels.size() > 1);
  CHECK(says(apart, "reduces columns of 'h' that are not neighbours"));
}
