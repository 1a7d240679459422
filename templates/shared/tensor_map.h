// SPDX-License-Identifier: Apache-2.0
// What host and device share about TMA: the tensor map as opaque bytes, which the host encodes and
// a kernel takes by value as part of its parameter, and L2 cache policies.
#pragma once

#include "shared/int.h"

namespace catenary {

// The layout of CUtensorMap; PTX ISA 5.5.8 asks for 64-byte alignment.
struct alignas(64) TensorMap {
  u8 bytes[128];
};
static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64, "the size of CUtensorMap");

// Operands of .L2::cache_hint, as createpolicy.fractional gives them for a fraction of 1.
inline constexpr u64 kEvictNormal = 0x1000000000000000;
inline constexpr u64 kEvictFirst = 0x12f0000000000000;  // read once by the whole grid
inline constexpr u64 kEvictLast = 0x14f0000000000000;   // read again by many CTAs

}  // namespace catenary
