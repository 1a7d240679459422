// SPDX-License-Identifier: Apache-2.0
// What no launch may exceed, whichever family planned it.
#pragma once

#include "compiler/plan.h"

namespace catenary {

// kResourceLimit: more than 2^31 - 1 CTAs. kInternal: shared memory, threads or registers that the
// target does not have, since a family offers only kernels that fit.
Error check_limits(const KernelPlan& kernel, const Target& target, i64 symbol_hi);

}  // namespace catenary
