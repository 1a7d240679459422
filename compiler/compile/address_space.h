// SPDX-License-Identifier: Apache-2.0
// How much address space a process may still take.
#pragma once

#include "shared/int.h"

namespace catenary {

// Bytes below the process's limit (RLIMIT_AS) that are not mapped; the largest i64 without a limit
// or without /proc. Other threads may take them meanwhile.
i64 address_space_left();

}  // namespace catenary
