// SPDX-License-Identifier: Apache-2.0
// A plan for people and for programs: groups and why they end, configs, runner-ups, predicted time,
// bytes and flops saved against the unfused chain, the roofline bound.
#pragma once

#include <string>

#include "compiler/plan.h"
#include "ir/json.h"

namespace catenary {

std::string explain_text(const VerifiedChain& chain, const Plan& plan);
llvm::json::Value explain_json(const VerifiedChain& chain, const Plan& plan);

}  // namespace catenary
