// SPDX-License-Identifier: Apache-2.0
// Text of a chain -> its plan and the `gemm_sm90` config in it. An error fails the test.
#pragma once

#include <doctest/doctest.h>

#include "compiler/plan.h"
#include "shared/gemm_sm90_config.h"
#include "tests/support/verified.h"

namespace catenary::testing {

inline Plan planned(const std::string& text, PlanOptions options = {},
                    const char* target = "h200") {
  auto plan = make_plan(verified(text), llvm::cantFail(find_target(target)), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

inline const KernelPlan& first_kernel(const Plan& plan) { return plan.buckets.back().kernels[0]; }
inline const GemmSm90Config& config(const Plan& plan) {
  return first_kernel(plan).config.get<GemmSm90Config>();
}

}  // namespace catenary::testing
