// SPDX-License-Identifier: Apache-2.0
// Plans of a range of sizes: each bucket is planned as if its own range were the symbol's.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "compiler/plan.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

Plan planned(const std::string& text, const PlanOptions& options = {},
             const char* target = "h200") {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  auto plan = make_plan(*chain, *find_target(target), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

std::string linear(const std::string& range, i64 n, i64 k) {
  return fmt::format(
      "chain a[M in {}](input x: bf16[M, {}], weight w: bf16[{}, {}]) {{\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }}",
      range, k, n, k);
}

// A norm with a gain, then a linear layer: a reduction, a pointwise kernel and a contraction.
std::string norm_linear(const std::string& range) {
  return fmt::format(
      "chain a[M in {}](input x: bf16[M, 4096], weight w: bf16[4096, 4096], weight g: bf16[4096]) "
      "{{\n  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.000244140625), 0.00001))\n"
      "  n = cast(mul(mul(x @ \"mk\", s @ \"m\"), g @ \"k\"), bf16)\n"
      "  y = contract \"mk,nk->mn\"(n, w)\n  return y: bf16 }}",
      range);
}

void check_same(const PlanBucket& wide, const PlanBucket& own, i64 size) {
  REQUIRE(wide.kernels.size() == own.kernels.size());
  for (size_t i = 0; i < own.kernels.size(); ++i) {
    const KernelPlan& one = wide.kernels[i];
    const KernelPlan& other = own.kernels[i];
    // CTAs of a symbolic size are rounded up for each part, which may move the best number of
    // parts.
    if (one.family->name() == "reduce") continue;
    CHECK(one.config_text == other.config_text);
    CHECK(one.grid.ctas(size) == other.grid.ctas(size));
    if (wide.hi != size) continue;  // neighbours with the same kernels are one bucket
    CHECK(one.predicted.us == doctest::Approx(other.predicted.us));
    CHECK(one.predicted.bytes == other.predicted.bytes);
  }
}

constexpr i64 kEnds[] = {4, 8, 16, 24, 32, 64, 128, 512};

}  // namespace

TEST_CASE("a contraction: the bucket of a wide range is that of its own range") {
  for (const auto& [n, k] : {std::pair(4096, 4096), {512, 3584}, {1024, 4096}, {2112, 7168}}) {
    CAPTURE(n);
    const Plan wide = planned(linear("1..65536", n, k));
    for (const i64 size : kEnds) {
      CAPTURE(size);
      const Plan own = planned(linear(fmt::format("{0}..{0}", size), n, k));
      check_same(wide.buckets[find_bucket(wide, size)], own.buckets[0], size);
    }
  }
}

TEST_CASE("reductions and pointwise kernels: the same, with predictions that grow with the size") {
  const Plan wide = planned(norm_linear("1..4096"));
  double before = 0;
  for (const PlanBucket& bucket : wide.buckets) {
    CAPTURE(bucket.hi);
    const Plan own = planned(norm_linear(fmt::format("{}..{}", bucket.lo, bucket.hi)));
    REQUIRE(own.buckets.back().hi == bucket.hi);
    check_same(bucket, own.buckets.back(), bucket.hi);
    double us = 0;
    for (const KernelPlan& kernel : bucket.kernels) us += kernel.predicted.us;
    CHECK(us >= 0.95 * before);  // another number of kernels may round another way
    before = us;
  }
}

TEST_CASE("a reduction has no CTAs for rows that are not there") {
  const Plan plan =
      planned("chain a[M in 1..4096](input x: f32[M, 512]) { s = sum \"mk->m\"(x) return s: f32 }");
  const KernelPlan& kernel = plan.buckets[0].kernels[0];
  const i64 parts = kernel.config.get<ReduceConfig>().parts;
  CHECK(kernel.grid.ctas(1) == parts);
  CHECK(kernel.grid.ctas(4096) > parts);
}

TEST_CASE("a batch of none is planned, and launches nothing") {
  for (const char* target : {"h200", "a100", "b200"}) {
    for (const i64 rows : {1, 5, 40}) {
      CAPTURE(target);
      const std::string text = fmt::format(
          "chain z(input x: bf16[0, {}, 40], weight w: bf16[0, 24, 40]) {{\n"
          "  y = contract \"bmk,bnk->bmn\"(x, w)\n  return y: bf16 }}",
          rows);
      auto plan =
          make_plan(llvm::cantFail(verify(llvm::cantFail(parse(text)))), *find_target(target));
      REQUIRE_MESSAGE(plan, take_report(plan.takeError()).message);
      for (const KernelPlan& kernel : plan->buckets[0].kernels) CHECK(kernel.grid.ctas(0) == 0);
    }
  }
}

TEST_CASE("the bytes of a plan are those of its kernels") {
  const Plan plan = planned(
      "chain hop(input x: bf16[64, 256], weight w1: bf16[128, 256], weight w2: bf16[128, 256]) {\n"
      "  a = contract \"mk,nk->mn\"(x, w1)\n  b = contract \"mk,nk->mn\"(x, w2)\n"
      "  return a: bf16, b: bf16 }");
  REQUIRE(plan.buckets[0].kernels.size() == 1);
  CHECK(plan.fused_bytes == plan.buckets[0].kernels[0].predicted.bytes);
  CHECK(plan.unfused_bytes - plan.fused_bytes == 2 * 64 * 256);  // x is read once
}

TEST_CASE("a pointwise kernel has no CTAs for rows that are not there") {
  const Plan plan = planned(
      "chain a[M in 1..65536](input x: bf16[M, 4096], input z: bf16[M, 4096]) {\n"
      "  y = mul(silu(x), z)\n  return y: bf16 }");
  for (const PlanBucket& bucket : plan.buckets) {
    const KernelPlan& kernel = bucket.kernels[0];
    const auto& config = kernel.config.get<PointwiseConfig>();
    const i64 per_cta = i64{config.vec} * config.threads * config.unroll;
    for (const i64 size : {bucket.lo, bucket.hi})
      CHECK(kernel.grid.ctas(size) == ceil_div(size * 4096, per_cta));
  }
}

TEST_CASE("contractions have no CTAs for batch entries or columns that are not there") {
  const std::string batch =
      "chain a[B in 1..65536](input x: bf16[B, 16, 64], input y: bf16[B, 16, 64]) {\n"
      "  s = contract \"bmk,bnk->bmn\"(x, y)\n  return s: f32 }";
  const std::string columns =
      "chain a[M in 1..65536](input x: bf16[M, 1024], weight v: bf16[1024, 1024]) {\n"
      "  t = silu(contract \"mk,kn->nm\"(x, v))\n  return t: bf16 strides[65536, 1] }";
  for (const char* target : {"a100", "h200"}) {
    for (const std::string& text : {batch, columns}) {
      CAPTURE(target);
      const Plan plan = planned(text, {}, target);
      const GridRule& grid = plan.buckets[0].kernels[0].grid;
      CHECK(grid.ctas(1) <= 256);
      CHECK(grid.ctas(plan.buckets[0].hi) >= grid.ctas(1));
    }
  }
}

TEST_CASE("partial sums have the size of the bucket, not that of the range") {
  const Plan plan = planned(linear("1..65536", 1024, 16384), {}, "a100");
  int splits = 0;
  for (const PlanBucket& bucket : plan.buckets) {
    if (bucket.kernels.size() == 1) continue;
    ++splits;
    const i64 partial = bucket.kernels[1].config.get<ReduceConfig>().size.at[0].size;
    for (const SlotBinding& slot : bucket.kernels[1].slots) {
      if (slot.kind != SlotBinding::Kind::kWorkspace) continue;
      CHECK(slot.bytes == partial * bucket.hi * 1024 * 4);
    }
  }
  CHECK(splits > 0);
}
