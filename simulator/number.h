// SPDX-License-Identifier: Apache-2.0
// The numbers that instructions add in memory: their bytes, and sums rounded as one addition.
#pragma once

#include "sim/machine.h"

namespace catenary::sim {

u32 number_bytes(Number number);

// to[i] += from[i] for `count` numbers, each sum rounded to nearest, ties to even (kU32: modulo
// 2^32).
void add_numbers(void* to, const void* from, u32 count, Number number);

}  // namespace catenary::sim
