// SPDX-License-Identifier: Apache-2.0
// What the planner decides, on chains small enough to work out by hand.
#include <doctest/doctest.h>

#include <set>

#include "compiler/fuse.h"
#include "compiler/plan.h"
#include "ir/text.h"

using namespace catenary;

namespace {

VerifiedChain verified(const char* text) {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  return std::move(*chain);
}

Plan planned(const VerifiedChain& chain, const char* target = "h200", PlanOptions options = {}) {
  auto plan = make_plan(chain, llvm::cantFail(find_target(target)), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

const GemmConfig& gemm(const Plan& plan, size_t kernel = 0) {
  return std::get<GemmConfig>(plan.buckets[0].kernels[kernel].config);
}

}  // namespace

TEST_CASE("empty values between kernels have places of their own") {
  const VerifiedChain chain = verified(R"(chain c(input x0: f32[0, 1], input x2: f16[1, 0]) {
    v3 = cast(x0, f16)
    v4 = contract "bg,mb->gm"(v3, x2)
    v6 = sum "ab->a"(v4)
    return v6: bf16
  })");
  const Plan plan = planned(chain);
  std::set<i64> offsets;
  int workspaces = 0;
  for (const SlotBinding& slot : plan.buckets[0].kernels[1].slots) {
    if (slot.kind != SlotBinding::Kind::kWorkspace) continue;
    offsets.insert(slot.workspace_offset);
    ++workspaces;
  }
  CHECK(workspaces == 2);
  CHECK(offsets.size() == 2);
}

TEST_CASE("an operand that is broadcast along K is copied element by element") {
  const VerifiedChain chain = verified(
      R"(chain c(weight w: bf16[16, 1] strides[0, 1], input x: bf16[1, 7, 13, 16] align 8) {
    v = contract "ib,bgmi->bgm"(w, x)
    return v: f32
  })");
  const Plan plan = planned(chain);
  CHECK(gemm(plan).a.stride_k == 0);
  CHECK(gemm(plan).a.copy_bytes == 2);
  CHECK(gemm(plan).b.copy_bytes == 8);
}

TEST_CASE("a gated pair is one kernel with one pass over x") {
  const VerifiedChain chain =
      verified(R"(chain c(input x: bf16[256, 128], weight wg: bf16[512, 128],
                                                  weight wu: bf16[512, 128]) {
    h = mul(silu(contract "mk,nk->mn"(x, wg)), contract "mk,nk->mn"(x, wu))
    return h: bf16
  })");
  const Plan plan = planned(chain);
  REQUIRE(plan.buckets[0].kernels.size() == 1);
  CHECK(gemm(plan).gated);
  CHECK(gemm(plan).a.slot == 0);
  CHECK(plan.unfused_kernels == 4);
  CHECK(plan.fused_bytes < plan.unfused_bytes);
}

TEST_CASE("a use in another order cuts the group") {
  const VerifiedChain chain = verified(R"(chain c(input x: bf16[64, 32], weight w: bf16[64, 32]) {
    y = contract "mk,nk->mn"(x, w)
    z = add(y, y @ "nm")
    return z: f32
  })");
  const FusionPlan fusion = fuse_chain(chain, true);
  REQUIRE(fusion.groups.size() == 2);
  CHECK(fusion.groups[1].why.find("another order") != std::string::npos);
  CHECK(fusion.groups[1].why.find("'z'") != std::string::npos);
}

TEST_CASE("axes merge only as far as 32-bit coordinates reach") {
  const VerifiedChain chain = verified(R"(chain c(input x: bf16[65536, 65536]) {
    y = relu(x)
    return y: bf16
  })");
  const Plan plan = planned(chain);
  const auto& config = std::get<PointwiseConfig>(plan.buckets[0].kernels[0].config);
  CHECK(config.size.at[kMaxDims - 1].size == 65536);
  CHECK(config.size.at[kMaxDims - 2].size == 65536);

  const VerifiedChain line = verified(R"(chain c(input x: bf16[8589934592]) {
    y = relu(x)
    return y: bf16
  })");
  auto refused = make_plan(line, llvm::cantFail(find_target("h200")));
  REQUIRE(!refused);
  const ErrorReport report = take_report(refused.takeError());
  CHECK(report.code == ErrorCode::kResourceLimit);
  CHECK(report.message.find("8589934592") != std::string::npos);
}

TEST_CASE("a refused candidate is not chosen again") {
  const VerifiedChain chain =
      verified(R"(chain c(input x: bf16[4096, 4096], weight w: bf16[4096, 4096]) {
    y = contract "mk,nk->mn"(x, w)
    return y: bf16
  })");
  PlanOptions options;
  std::set<std::string> seen;
  for (int i = 0; i < 4; ++i) {
    const Plan plan = planned(chain, "h200", options);
    const std::string& config = plan.buckets[0].kernels[0].config_text;
    CHECK(seen.insert(config).second);
    options.rejected.push_back(config);
  }
}

TEST_CASE("every candidate that is chosen fits its target") {
  const VerifiedChain chain =
      verified(R"(chain c[M in 1..4096](input x: f16[M, 1000], weight w: f16[1000, 777]) {
    y = contract "mk,kn->mn"(x, w)
    return y: f16
  })");
  for (const Target& target : all_targets()) {
    const Plan plan = planned(chain, target.name.c_str());
    i64 next = 1;
    for (const PlanBucket& bucket : plan.buckets) {
      CHECK(bucket.lo == next);
      next = bucket.hi + 1;
      for (const KernelPlan& kernel : bucket.kernels) {
        CHECK(kernel.smem_bytes <= target.smem_per_cta);
        CHECK(kernel.threads <= 1024);
      }
    }
    CHECK(next == 4097);
    CHECK(find_bucket(plan, 0) == -1);
    CHECK(find_bucket(plan, 1) == 0);
    CHECK(find_bucket(plan, 4096) == static_cast<int>(plan.buckets.size()) - 1);
    CHECK(find_bucket(plan, 4097) == -1);
  }
}

TEST_CASE("K is split in a fixed order where the grid would not fill the chip") {
  const VerifiedChain chain =
      verified(R"(chain c(input x: bf16[8, 8192], weight w: bf16[1024, 8192]) {
    y = contract "mk,nk->mn"(x, w)
    return y: bf16
  })");
  const Plan plan = planned(chain);
  REQUIRE(plan.buckets[0].kernels.size() == 2);
  CHECK(gemm(plan).split_k > 1);
  const auto& fix_up = std::get<ReduceConfig>(plan.buckets[0].kernels[1].config);
  CHECK(fix_up.size.at[0].size == gemm(plan).split_k);
  CHECK(fix_up.slices == 1);
  CHECK(plan.workspace_bytes >= i64{4} * gemm(plan).split_k * 8 * 1024);
}
