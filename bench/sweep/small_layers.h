// SPDX-License-Identifier: Apache-2.0
// The sweep over small M: every M with many matrices.
#pragma once

#include "bench/cases/layer.h"

namespace catenary::bench {

// bf16, M in 1, 2, 3, 4, 8, 16, 17, 32, 48, 64 times K and N in 512 .. 28672. All M of a matrix are
// together; the group is M ("m16").
inline constexpr size_t kSmallLayerRows = 10;
std::vector<Layer> small_layers();

}  // namespace catenary::bench
