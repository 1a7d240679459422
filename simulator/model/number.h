// SPDX-License-Identifier: Apache-2.0
// The numbers that instructions add in memory: their bytes, and sums rounded as one addition.
#pragma once

#include "sim/machine.h"

namespace catenary::sim {

u32 number_bytes(Number number);

// to[i] += from[i] for `count` numbers, each sum rounded to nearest, ties to even (kU32: modulo
// 2^32).
void add_numbers(void* to, const void* from, u32 count, Number number);

// Rounds `count` f32 numbers to 10 fraction bits, to nearest, ties to even; infinities and NaNs
// stay as they are: what tensor copies make of elements of type tf32. Neither the PTX ISA nor the
// driver API says so; "tensor load rounded to tf32" (tests/instructions) asks the hardware.
void round_numbers_to_tf32(void* numbers, u32 count);

}  // namespace catenary::sim
