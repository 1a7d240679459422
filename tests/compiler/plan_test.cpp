// SPDX-License-Identifier: Apache-2.0
// What the planner decides, on chains small enough to work out by hand.
#include <doctest/doctest.h>

#include <set>

#include "compiler/fusion/fuse.h"
#include "compiler/kernel_family.h"
#include "compiler/plan.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"
#include "shared/gemm_sm80_config.h"
#include "shared/gemm_sm90_config.h"
#include "tests/support/verified.h"

using namespace catenary;
using testing::verified;

namespace {

// y = x w^T in bf16.
VerifiedChain linear(i64 m, i64 n, i64 k) {
  return verified(
      fmt::format("chain c(input x: bf16[{0}, {2}], weight w: bf16[{1}, {2}]) {{\n"
                  "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }}",
                  m, n, k));
}

Plan planned(const VerifiedChain& chain, const char* target = "h200", PlanOptions options = {}) {
  auto plan = make_plan(chain, llvm::cantFail(find_target(target)), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

const GemmSm80Config& gemm(const Plan& plan, size_t kernel = 0) {
  return plan.buckets[0].kernels[kernel].config.get<GemmSm80Config>();
}

// The error of a chain that verifies but has no plan.
ErrorReport refusal(const char* text) {
  const VerifiedChain chain = verified(text);
  auto plan = make_plan(chain, llvm::cantFail(find_target("h200")));
  if (plan) return {};
  return take_report(plan.takeError());
}

std::vector<std::string> slot_names(const KernelPlan& kernel) {
  std::vector<std::string> names;
  for (const SlotBinding& slot : kernel.slots) names.push_back(slot.name);
  return names;
}

std::vector<std::string> computed_names(const VerifiedChain& chain, const KernelPlan& kernel) {
  std::vector<std::string> names;
  for (ValueId id : kernel.values) names.push_back(chain.value(id).name);
  return names;
}

}  // namespace

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

TEST_CASE("weight streams go to the families that were measured fastest") {
  const auto family = [](i64 m, i64 n, i64 k) {
    const Plan plan = planned(linear(m, n, k));
    return std::string(family_name(plan.buckets[0].kernels[0]));
  };
  CHECK(family(17, 14336, 28672) == "gemm_sm90");
  CHECK(family(1, 2048, 4096) == "skinny");
  CHECK(family(64, 2048, 2048) == "gemm_sm90");
}

TEST_CASE("a dual GEMM is one kernel with one pass over x") {
  const VerifiedChain chain =
      verified(R"(chain c(input x: bf16[256, 128], weight wg: bf16[512, 128],
                                                  weight wu: bf16[512, 128]) {
    h = mul(silu(contract "mk,nk->mn"(x, wg)), contract "mk,nk->mn"(x, wu))
    return h: bf16
  })");
  const Plan plan = planned(chain);
  REQUIRE(plan.buckets[0].kernels.size() == 1);
  CHECK(gemm(planned(chain, "a100", {})).dual);
  CHECK(gemm(planned(chain, "a100", {})).a.slot == 0);
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
  const auto& config = plan.buckets[0].kernels[0].config.get<PointwiseConfig>();
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
  const VerifiedChain chain = linear(4096, 4096, 4096);
  PlanOptions options;
  std::set<std::string> seen;
  for (int i = 0; i < 4; ++i) {
    const Plan plan = planned(chain, "h200", options);
    const KernelPlan& kernel = plan.buckets[0].kernels[0];
    CHECK(seen.insert(kernel.config_text).second);
    options.rejected.push_back({kernel.signature, kernel.candidate});
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

TEST_CASE("split-K adds its partial sums in a fixed order") {
  const VerifiedChain chain = linear(8, 1024, 28672);
  PlanOptions options;
  options.force_tile = "16x64x128w1x4s5";
  options.split_k = 8;
  const Plan plan = planned(chain, "h200", options);
  REQUIRE(plan.buckets[0].kernels.size() == 2);
  CHECK(gemm(plan).schedule.split_k == 8);
  const auto& fix_up = plan.buckets[0].kernels[1].config.get<ReduceConfig>();
  CHECK(fix_up.size.at[0].size == gemm(plan).schedule.split_k);
  CHECK(fix_up.slices == 1);
  CHECK(plan.workspace_bytes >= i64{4} * gemm(plan).schedule.split_k * 8 * 1024);
}

TEST_CASE("the kernels of split-K have only the slots that they address") {
  const VerifiedChain chain =
      verified(R"(chain c(input x: bf16[8, 28672], weight w: bf16[1024, 28672],
                          weight b: f32[1024]) {
    y = contract "mk,nk->mn"(x, w)
    z = add(y, b)
    return z: bf16
  })");
  PlanOptions options;
  options.force_tile = "16x64x128w1x4s5";
  options.split_k = 8;
  const Plan plan = planned(chain, "h200", options);
  REQUIRE(plan.buckets[0].kernels.size() == 2);
  const KernelPlan& split = plan.buckets[0].kernels[0];
  const KernelPlan& fix_up = plan.buckets[0].kernels[1];
  using Names = std::vector<std::string>;
  CHECK(slot_names(split) == Names{"x", "w", "partial sums"});
  CHECK(slot_names(fix_up) == Names{"b", "z", "partial sums"});
  CHECK(computed_names(chain, split) == Names{"y"});
  CHECK(computed_names(chain, fix_up) == Names{"y", "z"});
}

TEST_CASE("launch edges are planned where the hardware has them") {
  const VerifiedChain chain = verified(R"(chain c(input x: bf16[64, 64], weight w: bf16[64, 64]) {
    h = cast(contract "mk,nk->mn"(x, w), bf16)
    y = contract "mk,nk->mn"(h, w)
    return y: bf16
  })");
  for (const Target& target : all_targets()) {
    const PlanBucket bucket = planned(chain, target.name.c_str()).buckets[0];
    REQUIRE(bucket.pdl.size() == bucket.kernels.size());
    for (bool edge : bucket.pdl) CHECK(edge == (target.compute_capability() >= 90));
  }
}

TEST_CASE("values that a kernel recomputes are among those it computes") {
  const VerifiedChain chain =
      verified(R"(chain c(input x: f32[64, 32], weight w: f32[32], weight b: f32[32]) {
    y = relu(add(mul(x, w), b))
    return y: f32
  })");
  const Plan plan = planned(chain);
  CHECK(plan.buckets[0].kernels[0].values.size() == 3);
  CHECK(plan.buckets[0].kernels[0].why.find("'y'") != std::string::npos);
}

TEST_CASE("rows with gaps are predicted as rows without") {
  const auto text = [](const char* strides) {
    return fmt::format(
        "chain c(input x: bf16[64, 4096]{}, weight w: bf16[4096, 4096]) {{\n"
        "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }}",
        strides);
  };
  const Plan rows = planned(verified(text("")));
  const Plan slice = planned(verified(text(" strides[1048576, 1]")));
  CHECK(slice.roofline_us == rows.roofline_us);
  CHECK(slice.buckets[0].kernels[0].predicted.us == rows.buckets[0].kernels[0].predicted.us);
}

TEST_CASE("work beyond 64 bits is predicted, not overflown") {
  const Plan plan = planned(linear(4194304, 4194304, 8388608));
  CHECK(plan.buckets[0].kernels[0].predicted.flops == 0x1p68);
  CHECK(plan.roofline_us > 0);
}

TEST_CASE("the roofline takes the rate of the kernel's instruction") {
  const char* text = R"(chain c(input x: f32[4096, 4096], weight w: f32[4096, 4096]) {{
    y = contract "mk,nk->mn" {} (x, w)
    return y: f32
  }})";
  const Target target = llvm::cantFail(find_target("h200"));
  const double flops = 2.0 * 4096 * 4096 * 4096;
  const VerifiedChain tf32 = verified(fmt::format(fmt::runtime(text), "").c_str());
  CHECK(planned(tf32).roofline_us == doctest::Approx(flops / (target.tf32_tflops * 1e6)));
  const VerifiedChain f32 = verified(fmt::format(fmt::runtime(text), "f32").c_str());
  CHECK(planned(f32).roofline_us == doctest::Approx(flops / (target.f32_tflops * 1e6)));
}

TEST_CASE("a sum over more terms than coordinates reach is refused by name") {
  const ErrorReport report = refusal(R"(chain c(input x: bf16[8589934592]) {
    total = sum "k->"(x)
    return total: f32
  })");
  CHECK(report.code == ErrorCode::kResourceLimit);
  CHECK(report.message.find("'total' has a dimension of 8589934592 elements") != std::string::npos);
}

TEST_CASE("a grid that no launch takes is refused, whatever the family") {
  for (const char* text :
       {R"(chain c(input x: bf16[8388608, 2097152]) {
    y = relu(x)
    return y: bf16
  })",
        R"(chain c(input x: bf16[2, 8388608, 1048576]) {
    y = sum "kmn->mn"(x)
    return y: bf16
  })",
        R"(chain c(input x: bf16[2147483648, 4, 4], weight w: bf16[2147483648, 4, 4]) {
    y = contract "bmk,bnk->bmn"(x, w)
    return y: bf16
  })"}) {
    const ErrorReport report = refusal(text);
    CAPTURE(report.message);
    CHECK(report.code == ErrorCode::kResourceLimit);
    CHECK(report.message.find("CTAs, above the limit of 2^31 - 1") != std::string::npos);
  }
}

TEST_CASE("a symbol that can only be 0 has its bucket, and no other size has") {
  const VerifiedChain chain = verified(R"(chain c[M in 0..0](input x: f32[M, 4]) {
    y = neg(x)
    return y: f32
  })");
  const Plan plan = planned(chain);
  CHECK(find_bucket(plan, 0) == 0);
  CHECK(find_bucket(plan, 1) == -1);
}

TEST_CASE("a leading size of 1 plans what the chain without it does") {
  const auto kernels = [](const char* one, const char* a) {
    const Plan plan = planned(verified(
        fmt::format("chain c[S in 1..512](input x: bf16[{0}S, 512], weight w: bf16[256, 512]) {{\n"
                    "  y = relu(contract \"{1}sk,nk->{1}sn\"(x, w))\n  return y: bf16 }}",
                    one, a)));
    std::vector<std::string> texts;
    for (const PlanBucket& bucket : plan.buckets) {
      for (const KernelPlan& kernel : bucket.kernels) texts.push_back(kernel.config_text);
    }
    return texts;
  };
  CHECK(kernels("1, ", "b") == kernels("", ""));
}

TEST_CASE("a symbolic summed label is walked by the inner loop, whatever its stride") {
  const VerifiedChain chain = verified(R"(chain c[M in 0..64](
      input x: bf16[32, M, 8] strides[1024, 16, 1], input w: bf16[16, M, 8] strides[1024, 16, 1]) {
    y = contract "mka,nka->mn"(x, w)
    return y: f32
  })");
  const Plan plan = planned(chain);
  CHECK(gemm(plan).space.k == Extent(64, 1));
  CHECK(gemm(plan).space.k_outer == 8);
  CHECK(gemm(plan).a.stride_outer == 1);

  const ErrorReport report = refusal(R"(chain c[M in 0..64](
      input x: bf16[32, M, 8, M] strides[65536, 1024, 16, 1],
      input w: bf16[16, M, 8, M] strides[65536, 1024, 16, 1]) {
    y = contract "mkab,nkab->mn"(x, w)
    return y: f32
  })");
  CHECK(report.code == ErrorCode::kUnsupported);
  CHECK(report.message.find("'y' = contract \"mkab,nkab->mn\"") != std::string::npos);
}

TEST_CASE("waves count the CTAs that an SM holds at their own size") {
  const VerifiedChain chain = verified(R"(chain c(input x: f32[256, 64]) {
    y = neg(x)
    return y: f32
  })");
  const Plan plan = planned(chain);
  const KernelPlan& kernel = plan.buckets[0].kernels[0];
  REQUIRE(kernel.threads == 64);
  CHECK(kernel.predicted.waves == doctest::Approx(kernel.grid.ctas(0) / (132.0 * (2048 / 64))));
}

TEST_CASE("many operands are read in narrower vectors") {
  // y = x0 + x1 + ...: all operands are loaded before the first sum.
  const auto vec = [](int count, const char* dtype) {
    std::string parameters, body = "  s1 = add(x0, x1)\n";
    for (int i = 0; i < count; ++i) {
      parameters += fmt::format("{}input x{}: {}[1024, 4096]", i > 0 ? ", " : "", i, dtype);
      if (i > 1) body += fmt::format("  s{} = add(s{}, x{})\n", i, i - 1, i);
    }
    const std::string text =
        fmt::format("chain c({}) {{\n{}  return s{}: {} }}", parameters, body, count - 1, dtype);
    const auto chain = llvm::cantFail(verify(llvm::cantFail(parse(text))));
    const Plan plan = llvm::cantFail(make_plan(chain, *find_target("h200")));
    const auto& config = plan.buckets[0].kernels[0].config.get<PointwiseConfig>();
    CHECK(count * config.vec * config.unroll < 255);
    return config.vec;
  };
  CHECK(vec(8, "bf16") == 8);
  CHECK(vec(24, "bf16") == 8);
  CHECK(vec(32, "bf16") == 4);
  CHECK(vec(64, "bf16") == 2);
  CHECK(vec(127, "bf16") == 1);
  CHECK(vec(48, "f32") == 4);
  CHECK(vec(64, "f32") == 2);
  CHECK(vec(127, "f32") == 1);
}

TEST_CASE("a tile spans the results' innermost label only where that fills it") {
  const auto columns = [](i64 c, const char* target) {
    const VerifiedChain chain =
        verified(fmt::format("chain c(input x: bf16[512, 256], weight w: bf16[768, 256, {}]) {{\n"
                             "  y = contract \"mk,nkc->mnc\"(x, w)\n  return y: bf16 align 2 }}",
                             c));
    const Plan plan = planned(chain, target);
    REQUIRE(plan.buckets[0].kernels.size() == 1);
    REQUIRE(family_name(plan.buckets[0].kernels[0]) == "gemm_sm80");
    return gemm(plan).space.n.size;
  };
  for (const i64 c : {2, 3, 8, 16}) {
    CHECK(columns(c, "h200") == 768);
    CHECK(columns(c, "a100") == 768);
  }
  for (const i64 c : {32, 128}) CHECK(columns(c, "a100") == c);
}

TEST_CASE("products with few results for each batch entry are sums where that is faster") {
  const auto families = [](const char* x, const char* v, const char* equation,
                           const PlanOptions& options = {}) {
    const Plan plan =
        planned(verified(fmt::format("chain c(input x: {}, input v: {}) {{\n"
                                     "  y = contract \"{}\"(x, v)\n  return y: f32 }}",
                                     x, v, equation)),
                "h200", options);
    return family_name(plan.buckets[0].kernels[0]);
  };
  CHECK(families("bf16[100000, 64]", "bf16[100000, 64]", "bk,bk->b") == "reduce");
  CHECK(families("bf16[100000000]", "bf16[100000000]", "k,k->") == "reduce");
  CHECK(families("f16[20000, 4, 64]", "f16[20000, 64]", "bmk,bk->bm") == "reduce");
  PlanOptions invariant;
  invariant.batch_invariant = true;
  CHECK(families("bf16[1000, 64]", "bf16[1000, 64]", "bk,bk->b", invariant) != "reduce");
}
