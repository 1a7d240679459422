// SPDX-License-Identifier: Apache-2.0
// Number types that instructions add in memory: their size, and additions rounded once.
#pragma once

#include "sim/machine.h"

namespace catenary::sim {

u32 number_bytes(Number number);

// to[i] += from[i] for `count` numbers, each sum rounded to nearest, ties to even (kU32: modulo
// 2^32).
void add_numbers(void* to, const void* from, u32 count, Number number);

// Rounds `count` f32 numbers to 10 fraction bits, to nearest, ties to even, as TMA loads do with
// elements of type tf32. Infinities stay; every NaN becomes the same one. Neither the PTX ISA nor
// the driver API states it; "tensor load rounded to tf32" (tests/instructions) asks the hardware.
void round_numbers_to_tf32(void* numbers, u32 count);

}  // namespace catenary::sim
