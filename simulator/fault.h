// SPDX-License-Identifier: Apache-2.0
// The rules that the simulator checks. fault.def is the list.
#pragma once

#include <string>

#include "shared/int.h"

namespace catenary::sim {

enum class FaultKind : u8 {
#define CATENARY_FAULT(id, name, rule) id,
#include "simulator/fault.def"
#undef CATENARY_FAULT
};

// The name ("out_of_bounds"), and the rule as a clause for messages.
const char* fault_name(FaultKind kind);
const char* fault_rule(FaultKind kind);

}  // namespace catenary::sim
