// SPDX-License-Identifier: Apache-2.0
// What the benchmark measures with: sessions, tensors, timing, contests. Under its own namespace.
#pragma once

#include "tuner/setup.h"

namespace catenary::bench {
using namespace tuner;
}
