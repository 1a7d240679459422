// SPDX-License-Identifier: Apache-2.0
// The 64-bit shared-memory descriptor of a wgmma operand. PTX ISA 9.7.15.5 (matrix descriptor):
//
//   bits  0..13  start address / 16     bits 49..51  base offset
//   bits 16..29  leading bytes / 16     bits 62..63  swizzle: 0 none, 1 128 B, 2 64 B, 3 32 B
//   bits 32..45  stride bytes / 16      the rest is zero
//
// A core matrix is 8 lines of 16 bytes. With a swizzle of S bytes, an atom is 8 lines of S bytes.
//   K-major, swizzled    stride: from 8 rows to the next 8; leading: unused
//   K-major, none        stride: from 8 rows to the next 8; leading: from 16 bytes of K to the next
//   MN-major, swizzled   stride: from 8 k to the next 8; leading: from S bytes of MN to the next
//   MN-major, none       stride: from 16 bytes of MN to the next; leading: from 8 k to the next 8
//
// Within an atom of a K-major tile, the next k-block is its bytes further.
#pragma once

#include "ptx/device.cuh"
#include "shared/config.h"

namespace catenary {

// `address` is a 32-bit shared address below 2^18. All three values are multiples of 16. The base
// offset is 0: tiles are aligned to the 8 S bytes (1024, 512, 256) of a swizzle pattern.
constexpr CATENARY_DEVICE u64 wgmma_descriptor(u32 address, u32 leading_bytes, u32 stride_bytes,
                                               Swizzle swizzle) {
  const u64 layout = swizzle == Swizzle::k128  ? 1
                     : swizzle == Swizzle::k64 ? 2
                     : swizzle == Swizzle::k32 ? 3
                                               : 0;
  return (address >> 4 & 0x3fff) | static_cast<u64>(leading_bytes >> 4 & 0x3fff) << 16 |
         static_cast<u64>(stride_bytes >> 4 & 0x3fff) << 32 | layout << 62;
}

// The descriptor of the same operand, `bytes` further.
constexpr CATENARY_DEVICE u64 advance_descriptor(u64 descriptor, u32 bytes) {
  return descriptor + (bytes >> 4);
}

}  // namespace catenary
