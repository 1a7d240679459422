// SPDX-License-Identifier: Apache-2.0
// cp.async fallback loads: operands that no tensor map describes (rows or base not 16-byte
// aligned). The four load warps load them into the stages of the pipeline (pipeline/pipeline.cuh),
// in the layout that TMA would write, with zeros outside the matrix.
//
//   line      128 bytes, 64 elements of 16 bits; 16-byte chunk c of line l is at c ^ (l % 8).
//             32-bit elements (only K-major) are rounded to tf32 after they arrive, as TMA would.
//   K-major   line = row of the tile, one block
//   MN-major  line = one k; a block of 64 lines for each 64 elements of the free dimension
//   vectors   128 / bytes lanes load a line; a pass loads 128 / lanes lines, one vector a thread
//
// Misaligned lines. cp.async copies at least 4 bytes (PTX ISA 9.7.9.25), but 16-bit elements may be
// 2-byte aligned: then a line may begin in the middle of a 4-byte word. A warp has every fourth
// line, so all of its lines are misaligned or none is, whether the pitch is odd or even. Lines that
// begin at a word are loaded as they are. In a misaligned line, word w > 0 is loaded from the
// memory word that holds elements 2w - 1 and 2w; word 0 is built from the edge elements, 63 and 0.
// When they have arrived, the warp rotates its lines by one element: word w becomes its own upper
// half and the lower half of word w + 1, modulo the line.
#pragma once

#include "ptx/convert.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "ptx/warp.cuh"
#include "shared/config.h"

namespace catenary {

// The loads of one operand tile by 128 threads. kRows: rows of the free dimension in the tile.
// kCheckRows, kCheckK: a tile may end past the matrix in that direction.
template <MatrixOperand kOperand, i32 kElementBytes, i32 kRows, bool kCheckRows, bool kCheckK>
struct FallbackTile {
  static constexpr bool kKMajor = kOperand.k_major;
  static constexpr bool kMayMisalign = kOperand.copy_bytes == 2;
  static constexpr bool kRoundsToTf32 = kElementBytes == 4;
  static_assert(kKMajor || !kRoundsToTf32, "tf32 operands are K-major");
  static constexpr u32 kVectorBytes = kMayMisalign ? 4 : kOperand.copy_bytes;
  static constexpr i32 kVectorElements = kVectorBytes / kElementBytes;
  static constexpr u32 kVectorsPerLine = 128 / kVectorBytes;
  static constexpr u32 kLinesPerPass = 128 / kVectorsPerLine;
  static constexpr u32 kLines = kKMajor ? kRows : 64;
  static constexpr u32 kBlocks = kKMajor ? 1 : kRows / 64;
  static constexpr u32 kPasses = (kLines + kLinesPerPass - 1) / kLinesPerPass;

  static constexpr i64 kLineStride =
      kElementBytes * (kKMajor ? kOperand.stride_row : kOperand.stride_k);
  static constexpr bool kCheckLines = kKMajor ? kCheckRows : kCheckK;
  static constexpr bool kCheckElements = kKMajor ? kCheckK : kCheckRows;

  // The address of the tile's first element, and the rows and k from there to the matrix's end.
  struct Source {
    const u8* corner;
    i32 rows_left, k_left;
    CATENARY_DEVICE i32 lines_left() const { return kKMajor ? rows_left : k_left; }
    CATENARY_DEVICE i32 elements_left(u32 block) const {
      return kKMajor ? k_left : rows_left - static_cast<i32>(block) * 64;
    }
  };

  // Bytes of a vector that are inside the matrix, if `left` elements are from its first one on.
  static CATENARY_DEVICE u32 valid_bytes(i32 left) {
    if constexpr (!kCheckElements) return kVectorBytes;
    return left <= 0                ? 0
           : left < kVectorElements ? static_cast<u32>(left) * kElementBytes
                                    : kVectorBytes;
  }

  // A single 16-bit element goes through a register. cp.async could copy 2 of 4 bytes (PTX ISA
  // 9.7.9.25), but compute-sanitizer reports a 4-byte read past the tensor's end. The rotation that
  // follows orders this store as it orders the cp.async.
  static CATENARY_DEVICE void load_vector(u32 to, const u8* from, u32 valid) {
    if constexpr (kMayMisalign) {
      if (valid == 2) return st_shared_u32(to, ld_global_u16(from));
    }
    if constexpr (kVectorBytes == 16) cp_async_16(to, from, valid);
    if constexpr (kVectorBytes == 8) cp_async_8(to, from, valid);
    if constexpr (kVectorBytes == 4) cp_async_4(to, from, valid);
  }

  // Passes whose addresses are one register and constant offsets.
  static constexpr u32 kBatch = kPasses % 8 == 0 ? 8 : kPasses % 4 == 0 ? 4 : 2 - kPasses % 2;
  static_assert(kLinesPerPass != 4 || kBatch % 2 == 0, "load_batch alternates the swizzle term");

  // This thread's vectors of the tile; `misaligned` (0 or 1): of the warp's lines. The caller
  // commits the group.
  static CATENARY_DEVICE void load_vectors(u32 tile, const Source& source, u32 misaligned) {
    const u32 line = threadIdx.x / kVectorsPerLine;
    const u32 byte = threadIdx.x % kVectorsPerLine * kVectorBytes;
    const i32 element = static_cast<i32>(byte / kElementBytes - misaligned);
    const u8* corner =
        source.corner + static_cast<i64>(line) * kLineStride + kElementBytes * element;
    u32 to = tile + line * 128 + (byte ^ line % 8 * 16);
    if (kMayMisalign && element < 0) return;
#pragma unroll 1
    for (u32 block = 0; block < kBlocks; ++block) {
      const u32 bytes = valid_bytes(source.elements_left(block) - element);
      const u8* from = corner + block * 128;
      i32 lines_left = source.lines_left() - static_cast<i32>(line);
#pragma unroll 1
      for (u32 first = 0; first < kPasses; first += kBatch) {
        load_batch(to, from, bytes, lines_left,
                   static_cast<i32>(kLines - line - first * kLinesPerPass));
        to += kBatch * kLinesPerPass * 128;
        from += kBatch * kLinesPerPass * kLineStride;
        lines_left -= kBatch * kLinesPerPass;
      }
    }
  }

  // kBatch passes, where `lines_left` lines of the matrix and `tile_lines` of the tile remain.
  static CATENARY_DEVICE void load_batch(u32 to, const u8* from, u32 bytes, i32 lines_left,
                                         i32 tile_lines) {
#pragma unroll
    for (u32 i = 0; i < kBatch; ++i) {
      if (kLines % kLinesPerPass != 0 && static_cast<i32>(i * kLinesPerPass) >= tile_lines)
        continue;
      const bool has_line = !kCheckLines || static_cast<i32>(i * kLinesPerPass) < lines_left;
      // Four lines further, bit 2 of the line and so bit 6 of the swizzled offset flips.
      const u32 swizzle = kLinesPerPass == 4 ? i % 2 * 64 : 0;
      load_vector((to ^ swizzle) + i * kLinesPerPass * 128, from + i * kLinesPerPass * kLineStride,
                  has_line ? bytes : 0);
    }
  }

  // Lines of one warp, and words for their edge elements in each lane.
  static constexpr u32 kWarpLines = kBlocks * kLines / 4;
  static constexpr u32 kEdgeWords = (kWarpLines + 31) / 32;

  // Loads the edge elements of the warp's lines, as word 0 will hold them: 63 below, 0 above. Lane
  // i has lines i, i + 32, ... of the warp.
  static CATENARY_DEVICE void load_edge_elements(const Source& source, u32 (&word)[kEdgeWords]) {
#pragma unroll
    for (u32 i = 0; i < kEdgeWords; ++i) {
      const u32 number = threadIdx.x % 32 + 32 * i;
      const u32 line = threadIdx.x / 32 + 4 * number;
      const u32 block = line / kLines;
      const u8* p = source.corner + static_cast<i64>(line % kLines) * kLineStride + block * 128;
      const bool has_line =
          number < kWarpLines && static_cast<i32>(line % kLines) < source.lines_left();
      const i32 left = has_line ? source.elements_left(block) : 0;
      const u32 first = left > 0 ? ld_global_u16(p) : 0;
      const u32 last = left > 63 ? ld_global_u16(p + 126) : 0;
      word[i] = last | first << 16;
    }
  }

  static CATENARY_DEVICE void store_edge_elements(u32 tile, const u32 (&word)[kEdgeWords]) {
#pragma unroll
    for (u32 i = 0; i < kEdgeWords; ++i) {
      const u32 number = threadIdx.x % 32 + 32 * i;
      const u32 line = threadIdx.x / 32 + 4 * number;
      if (number < kWarpLines) st_shared_u32(tile + line * 128 + line % 8 * 16, word[i]);
    }
  }

  // Issues the loads of the tile at shared address `tile`. Returns whether the warp's lines are
  // misaligned: rotate_lines() must then follow when they have arrived.
  static CATENARY_DEVICE bool issue(u32 tile, const Source& source) {
    if constexpr (!kMayMisalign) {
      load_vectors(tile, source, 0);
      return false;
    } else {
      const u8* first = source.corner + static_cast<i64>(threadIdx.x / 32) * kLineStride;
      const u32 misaligned = static_cast<u32>(__builtin_bit_cast(u64, first)) >> 1 & 1;
      // The edge elements wait in registers while the vectors are issued.
      u32 word[kEdgeWords];
      if (misaligned != 0) load_edge_elements(source, word);
      load_vectors(tile, source, misaligned);
      if (misaligned != 0) store_edge_elements(tile, word);
      return misaligned != 0;
    }
  }

  // Rotates the warp's misaligned lines by one element. All lanes; the lines have arrived and are
  // visible to the whole warp.
  static CATENARY_DEVICE void rotate_lines(u32 tile) {
    constexpr u32 kLinesPerBatch = 8;
    const u32 warp = threadIdx.x / 32;
    const u32 lane = threadIdx.x % 32;
    const u32 address = tile + warp * 128 + (lane * 4 ^ warp * 16);
#pragma unroll 1
    for (u32 first = 0; first < kWarpLines; first += kLinesPerBatch) {
      const u32 batch = address + first * 512;
      u32 word[kLinesPerBatch];
#pragma unroll
      for (u32 i = 0; i < kLinesPerBatch; ++i) {
        if (kWarpLines % kLinesPerBatch == 0 || first + i < kWarpLines)
          word[i] = ld_shared_u32((batch ^ i % 2 * 64) + i * 512);
      }
#pragma unroll
      for (u32 i = 0; i < kLinesPerBatch; ++i) {
        if (kWarpLines % kLinesPerBatch != 0 && first + i >= kWarpLines) continue;
        const u32 right = shuffle_index(word[i], (lane + 1) % 32);
        st_shared_u32((batch ^ i % 2 * 64) + i * 512, word[i] >> 16 | right << 16);
      }
    }
  }

  // Rounds the warp's lines to tf32. All lanes; the lines have arrived and are visible to the whole
  // warp. A warp has kLinesPerPass / 4 adjacent lines of each pass; it rounds four of 16 at a time.
  static CATENARY_DEVICE void round_to_tf32(u32 tile) {
    constexpr u32 kAdjacent = kLinesPerPass / 4;
    constexpr u32 kVectorsPerBatch = 4;
    const u32 line_of_four = threadIdx.x % 32 / 8;
    const u32 line = threadIdx.x / 32 * kAdjacent + line_of_four % kAdjacent +
                     line_of_four / kAdjacent * kLinesPerPass;
    const u32 address = tile + line * 128 + threadIdx.x % 8 * 16;
#pragma unroll 1
    for (u32 first = 0; first < kLines; first += 16 * kVectorsPerBatch) {
      U32x4 vector[kVectorsPerBatch];
#pragma unroll
      for (u32 i = 0; i < kVectorsPerBatch; ++i) {
        const u32 offset = first + 16 * i;
        if (line + offset < kLines) vector[i] = ld_shared_v4(address + offset * 128);
      }
#pragma unroll
      for (u32 i = 0; i < kVectorsPerBatch; ++i) {
        const u32 offset = first + 16 * i;
        const U32x4 rounded = {f32_to_tf32(vector[i].x), f32_to_tf32(vector[i].y),
                               f32_to_tf32(vector[i].z), f32_to_tf32(vector[i].w)};
        if (line + offset < kLines) st_shared_v4(address + offset * 128, rounded);
      }
    }
  }
};

}  // namespace catenary
