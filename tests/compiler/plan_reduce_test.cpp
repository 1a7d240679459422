// SPDX-License-Identifier: Apache-2.0
// Plans of reductions: neighbouring sizes take similar times, whether a size is odd, even or a
// symbol's, and the CTAs of few results fill the SMs.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/kernel_family.h"
#include "compiler/plan.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

struct Reduced {
  std::string symbol;  // "[M in 1..8]"
  std::string shape;
  std::string equation;
  std::string dtype = "bf16";
};

PlanBucket planned(const Reduced& of, const PlanOptions& options = {}) {
  const std::string text =
      fmt::format("chain a{}(input x: {}[{}]) {{\n  y = sum \"{}\"(x)\n  return y: f32 }}",
                  of.symbol, of.dtype, of.shape, of.equation);
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  auto plan = make_plan(*chain, *find_target("h200"), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return plan->buckets.back();
}

double predicted_us(const Reduced& of) {
  double us = 0;
  for (const KernelPlan& kernel : planned(of).kernels) us += kernel.predicted.us;
  return us;
}

void check_similar(const Reduced& one, const Reduced& other) {
  CAPTURE(one.dtype);
  CAPTURE(one.symbol);
  CAPTURE(one.shape);
  CAPTURE(other.shape);
  const double us = predicted_us(one), other_us = predicted_us(other);
  CHECK(us < 2 * other_us);
  CHECK(other_us < 2 * us);
}

}  // namespace

TEST_CASE("an odd number of adjacent terms takes a time like that of an even one") {
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    for (const i64 n : {28, 130, 1000, 4096, 50256, 2000000}) {
      for (const i64 m : {1, 64, 1024, 8192}) {
        if (m * n > i64{1} << 30) continue;
        for (const char* equation : {"mn->", "mn->m"}) {
          const auto of = [&](i64 size) {
            return Reduced{"", fmt::format("{}, {}", m, size), equation, dtype};
          };
          check_similar(of(n + 1), of(n));
        }
      }
    }
  }
}

TEST_CASE("terms along a symbol take a time like those of its largest size") {
  for (const i64 n : {1, 3, 4096, 4097}) {
    check_similar({"[M in 1..8192]", fmt::format("M, {}", n), "mn->"},
                  {"", fmt::format("8192, {}", n), "mn->"});
  }
  check_similar({"[M in 0..1048576]", "M", "m->", "f32"}, {"", "1048576", "m->", "f32"});
}

TEST_CASE("sums of many rows of few columns fill the SMs") {
  const int sms = find_target("h200")->sm_count;
  for (const char* dtype : {"bf16", "f32"}) {
    for (const i64 n : {2, 3, 4, 12, 33}) {
      const PlanBucket bucket = planned({"", fmt::format("1048576, {}", n), "mn->n", dtype});
      CAPTURE(dtype);
      CAPTURE(n);
      REQUIRE(bucket.kernels.size() == 2);
      const KernelPlan& terms = bucket.kernels[0];
      CHECK(terms.grid.ctas(0) >= sms);
      CHECK(terms.predicted.us < 6 * terms.predicted.floor_us);
    }
  }
}

TEST_CASE("reductions for every number of rows: terms have one order") {
  PlanOptions options;
  options.batch_invariant = true;
  const auto shape = [&](i64 m, i64 n) {
    const PlanBucket bucket = planned({"", fmt::format("{}, {}", m, n), "mn->m"}, options);
    REQUIRE(bucket.kernels.size() == 1);
    const auto config = bucket.kernels[0].config.get<ReduceConfig>();
    CHECK_FALSE(config.along_terms);
    CHECK(config.parts == 1);
    return config.slices;
  };
  for (const i64 n : {263, 264, 50257}) {
    for (const i64 m : {1, 7, 8192}) CHECK(shape(m, n) == shape(64, n));
  }
}

TEST_CASE("sums over many operands have narrower vectors, one term at a time and fewer threads") {
  const auto config = [](int count, const char* equation) {
    std::string parameters, body = "  s0 = neg(x0)\n";
    for (int i = 0; i < count; ++i) {
      parameters += fmt::format("{}input x{}: bf16[4096, 4096]", i > 0 ? ", " : "", i);
      if (i > 0) body += fmt::format("  s{} = add(s{}, x{})\n", i, i - 1, i);
    }
    const auto chain = llvm::cantFail(verify(llvm::cantFail(
        parse(fmt::format("chain c({}) {{\n{}  y = sum \"{}\"(s{})\n  return y: f32 }}", parameters,
                          body, equation, count - 1)))));
    const Plan plan = llvm::cantFail(make_plan(chain, *find_target("h200")));
    return plan.buckets[0].kernels[0].config.get<ReduceConfig>();
  };
  for (const char* equation : {"mn->n", "mn->m"}) {
    CAPTURE(equation);
    CHECK(config(3, equation).unroll == 4);
    CHECK(config(3, equation).vec == 8);
    CHECK(config(12, equation).unroll == 1);
    CHECK(config(12, equation).vec == 4);
    const ReduceConfig most = config(100, equation);
    CHECK(most.vec == 1);
    CHECK(most.lanes * most.slices <= 256);
  }
}
