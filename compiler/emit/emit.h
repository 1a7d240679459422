// SPDX-License-Identifier: Apache-2.0
// KernelPlan -> KernelSource: about 40 lines of facts. Prints no control flow, no macro and nothing
// that depends on time, path or address.
#pragma once

#include "compiler/emit/source.h"
#include "compiler/plan.h"

namespace catenary {

KernelSource emit(const VerifiedChain& chain, const Plan& plan, const KernelPlan& kernel);

}  // namespace catenary
