// SPDX-License-Identifier: Apache-2.0
// A matrix tile in shared memory, as lines of contiguous bytes: a K-major tile has a line per row
// of M or N, an MN-major tile has a line per k. A line is a row of 16-byte chunks. Chunk c of line
// l is stored at c ^ swizzle(l), so that ldmatrix reads the same chunk of eight successive lines
// from eight different bank groups:
//
//   bytes of a line   stored chunk
//   32                c ^ (l >> 2 & 1)     four lines fill the 128 bytes of all banks
//   64                c ^ (l >> 1 & 3)
//   128 or more       c ^ (l & 7)
//   128 or more, read by ld.shared.f32 (f32, MN-major: four k and eight rows per warp)
//                     c ^ (l & 3) * 2
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
