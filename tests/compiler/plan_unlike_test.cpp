// SPDX-License-Identifier: Apache-2.0
// Contractions that could share a kernel, but whose operands have unlike layouts: together they
// have no TMA, or another innermost dimension than one of them wants.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "llvm/ADT/STLExtras.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

std::string lora(i64 rank, const std::string& words = "") {
  return fmt::format(
      "chain a{1}(input x: bf16[4096, 4096], weight w: bf16[4096, 4096], weight a: bf16[{0}, "
      "4096],\n"
      "    weight b: bf16[4096, {0}]) {{\n"
      "  t = cast(contract \"mk,rk->mr\"(x, a), bf16)\n"
      "  y = add(contract \"mk,nk->mn\"(x, w), contract \"mr,nr->mn\"(t, b))\n"
      "  return y: bf16 }}",
      rank, words);
}

std::string gated(const char* layout) {
  return fmt::format(
      "chain a(input x: bf16[4096, 4096], weight w: bf16[14336, 4096] {},\n"
      "    weight v: bf16[14336, 4096]) {{\n"
      "  y = mul(silu(contract \"mk,nk->mn\"(x, w)), contract \"mk,nk->mn\"(x, v))\n"
      "  return y: bf16 }}",
      layout);
}

size_t kernels(const Plan& plan) { return plan.buckets.back().kernels.size(); }

// The contractions that the kernel with the most of them adds or multiplies.
size_t most_contractions(const Plan& plan, const std::string& text) {
  const VerifiedChain chain = verified(text);
  size_t most = 0;
  for (const KernelPlan& kernel : plan.buckets.back().kernels) {
    if (!kernel.beside.empty()) continue;  // products of one launch, each for itself
    const auto is_product = [&](ValueId id) { return chain.value(id).op == Op::kContract; };
    most = std::max<size_t>(most, llvm::count_if(kernel.values, is_product));
  }
  return most;
}

}  // namespace

TEST_CASE("a sum of products is one kernel only if rows of all operands suit TMA") {
  CHECK(most_contractions(planned(lora(8)), lora(8)) == 2);
  for (const i64 rank : {2, 4, 12}) {
    CAPTURE(rank);
    const Plan plan = planned(lora(rank));
    CHECK(most_contractions(plan, lora(rank)) == 1);
    CHECK(llvm::any_of(plan.buckets.back().kept_apart, [](const std::string& why) {
      return why.find("with products of unlike layouts in one kernel") == 0;
    }));
    CHECK(llvm::any_of(plan.buckets.back().kernels, [](const KernelPlan& kernel) {
      return family_name(kernel) == "gemm_sm90";
    }));
  }
}

TEST_CASE("a dual GEMM is one kernel only if both weights have one dimension innermost") {
  CHECK(kernels(planned(gated(""))) == 1);
  CHECK(kernels(planned(gated("strides[1, 14336]"))) == 2);
  CHECK(kernels(planned(gated("strides[4104, 1]"))) == 1);
}

TEST_CASE("with batch_invariant one rule holds for every M") {
  CHECK(most_contractions(planned(lora(4, " batch_invariant")), lora(4)) == 2);
}
