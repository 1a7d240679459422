// SPDX-License-Identifier: Apache-2.0
// A matrix tile in shared memory. "Lines" are its rows in memory: K-major keeps one free row (of M
// or N) per line with K contiguous, MN-major one k per line with the free dimension contiguous. A
// line is a row of 16-byte chunks; chunk c of line l lies at c ^ xor(l), which lets ldmatrix read
// the same chunk of eight successive lines from eight different bank groups:
//
//   line of  32 B:  c ^ (l >> 2 & 1)      four lines fill the 128 bytes of all banks
//   line of  64 B:  c ^ (l >> 1 & 3)
//   line of 128 B+: c ^ (l & 7)
//   32-bit MN-major, read by ld.shared.f32 with four k and eight free elements per warp:
//                   c ^ (l & 3) * 2
#pragma once

#include "ptx/device.cuh"
#include "shared/config.h"

namespace catenary {

template <int kLines, int kLineBytes, bool kScalarRead>
struct Tile {
  static constexpr int kChunks = kLineBytes / 16;
  static constexpr int kBytes = kLines * kLineBytes;
  static_assert(kLineBytes % 16 == 0 && (kChunks & (kChunks - 1)) == 0,
                "a tile's line is a power of two of 16-byte chunks");

  static CATENARY_DEVICE u32 swizzle(u32 line) {
    if constexpr (kScalarRead && kChunks >= 8) return (line & 3) * 2;
    if constexpr (kChunks >= 8) return line & 7;
    if constexpr (kChunks == 4) return (line >> 1) & 3;
    if constexpr (kChunks == 2) return (line >> 2) & 1;
    return 0;
  }

  // Byte offset of 16-byte chunk `chunk` of `line`.
  static CATENARY_DEVICE u32 offset(u32 line, u32 chunk) {
    return line * kLineBytes + ((chunk ^ swizzle(line)) << 4);
  }
};

}  // namespace catenary
