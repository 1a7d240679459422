// SPDX-License-Identifier: Apache-2.0
// What a pack costs: bytes by family and architecture, and the time to open it, to find a chain in
// it, and to prepare one, without what the driver does. Needs no GPU.
#pragma once

#include <string>

#include "bench/record/record.h"

namespace catenary::bench {

// `quick`: fewer repetitions. Errors are those of Pack::open() and Engine::prepare().
// kInvalidArgument: no entry is for a GPU of targets.def with the default options.
Expected<PackCost> measure_pack_cost(const std::string& path, bool quick);

}  // namespace catenary::bench
