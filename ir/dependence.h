// SPDX-License-Identifier: Apache-2.0
// What values of a chain depend on.
#pragma once

#include "ir/verify/verify.h"

namespace catenary {

// Per value, whether it depends on a reduction by elementwise ops and casts only.
std::vector<bool> depend_on_reductions(const VerifiedChain& chain);

}  // namespace catenary
