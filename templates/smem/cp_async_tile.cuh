// SPDX-License-Identifier: Apache-2.0
// Global -> shared copies of one operand's tile, one ring stage at a time. A tile is copied in
// pieces of copy_bytes along its contiguous dimension; pieces outside the matrix become zeros, so
// that tails of M, N and K need no care in the mainloop (zeros on both sides: no 0 * NaN).
//
//   thread t's pieces: i = t, t + threads, ...    line = i / pieces per line, column = i % pieces
//
// Successive pieces of a thread are a constant number of lines apart: the mainloop adds one offset
// per tile, the rest are immediates.
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "smem/tile.cuh"

namespace catenary {

// kRows: free rows of the tile (block_m or block_n). kThreads: all threads of the CTA copy.
// kCheckRows, kCheckK: tiles may reach over the matrix's end in that direction.
template <MatrixOperand kOperand, int kRows, int kBlockK, int kElementBytes, int kThreads,
          bool kCheckRows, bool kCheckK>
struct CpAsyncTile {
  static constexpr bool kKMajor = kOperand.k_major;
  static constexpr int kLines = kKMajor ? kRows : kBlockK;
  static constexpr int kLineElements = kKMajor ? kBlockK : kRows;
  using Layout = Tile<kLines, kLineElements * kElementBytes, !kKMajor && kElementBytes == 4>;

  static constexpr int kPieceBytes = kOperand.copy_bytes;
  static constexpr int kPieceElements = kPieceBytes / kElementBytes;
  static constexpr int kPiecesPerLine = kLineElements / kPieceElements;
  static constexpr int kPieces = kLines * kPiecesPerLine;
  static constexpr int kSteps = (kPieces + kThreads - 1) / kThreads;
  static constexpr int kLineStep = kThreads / kPiecesPerLine;
  static_assert(kThreads % kPiecesPerLine == 0, "a step of the CTA covers whole lines");

  static constexpr i64 kLineStride = kKMajor ? kOperand.stride_row : kOperand.stride_k;
  static constexpr i64 kElementStride = kKMajor ? kOperand.stride_k : kOperand.stride_row;
  static constexpr bool kCheckLines = kKMajor ? kCheckRows : kCheckK;
  static constexpr bool kCheckElements = kKMajor ? kCheckK : kCheckRows;

  // What does not change along K: this thread's first piece, and how much of the matrix is left.
  struct Thread {
    const u8* from;  // of the first piece, at k = 0
    u32 to;          // its offset within a tile
    u32 line, element;
    i32 rows_left;
  };

  // corner: address of the tile's row 0 at k = 0. rows_left: rows of the matrix from there on.
  static CATENARY_DEVICE Thread thread(const u8* corner, i32 rows_left) {
    Thread t;
    t.line = threadIdx.x / kPiecesPerLine;
    t.element = threadIdx.x % kPiecesPerLine * kPieceElements;
    t.from = corner + (static_cast<i64>(t.line) * kLineStride +
                       static_cast<i64>(t.element) * kElementStride) *
                          kElementBytes;
    t.to = offset(t.line, t.element);
    t.rows_left = rows_left;
    return t;
  }

  static CATENARY_DEVICE u32 offset(u32 line, u32 element) {
    const u32 byte = element * kElementBytes;
    return Layout::offset(line, byte >> 4) + (byte & 15);
  }

  // Offset of piece number `step`. The swizzle repeats every eight lines (tile.cuh).
  static CATENARY_DEVICE u32 step_offset(const Thread& t, int step) {
    if constexpr (kLineStep % 8 == 0)
      return t.to + step * kLineStep * kLineElements * kElementBytes;
    return offset(t.line + step * kLineStep, t.element);
  }

  // Bytes of a piece that lie inside the matrix along the contiguous dimension.
  static CATENARY_DEVICE u32 valid_bytes(const Thread& t, i32 k_left) {
    if constexpr (!kCheckElements) return kPieceBytes;
    const i32 inside = (kKMajor ? k_left : t.rows_left) - static_cast<i32>(t.element);
    if (inside <= 0) return 0;
    return inside < kPieceElements ? inside * kElementBytes : kPieceBytes;
  }

  static CATENARY_DEVICE bool has_line(const Thread& t, int step, i32 k_left) {
    const u32 line = t.line + step * kLineStep;
    if (kPieces % kThreads != 0 && line >= kLines) return false;
    return !kCheckLines || static_cast<i32>(line) < (kKMajor ? t.rows_left : k_left);
  }

  // Starts the copy of one stage into the tile at shared address `tile`. k_bytes: offset of the
  // stage's first k; k_left: k of the matrix from there on. The caller commits the group.
  static CATENARY_DEVICE void start(u32 tile, const Thread& t, i64 k_bytes, i32 k_left) {
    if constexpr (kPieceBytes < 4) {
      start_elements(tile, t, k_bytes, k_left);
    } else {
      const u8* from = t.from + k_bytes;
      const u32 bytes = valid_bytes(t, k_left);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        // Threads beyond the tile's last piece have nothing to write.
        if (kPieces % kThreads != 0 && t.line + step * kLineStep >= kLines) continue;
        const u32 to = tile + step_offset(t, step);
        const u32 valid = has_line(t, step, k_left) ? bytes : 0;
        const u8* p = from + step * kLineStep * kLineStride * kElementBytes;
        if constexpr (kPieceBytes == 16) cp_async_16(to, p, valid);
        if constexpr (kPieceBytes == 8) cp_async_8(to, p, valid);
        if constexpr (kPieceBytes == 4) cp_async_4(to, p, valid);
      }
    }
  }

  // 2-byte pieces: cp.async takes no less than 4 bytes (PTX ISA 9.7.9.25), so elements go through
  // registers, kBatch loads in flight. The stores are ordered before the readers by the CTA barrier
  // that the ring has anyway.
  static CATENARY_DEVICE void start_elements(u32 tile, const Thread& t, i64 k_bytes, i32 k_left) {
    constexpr int kBatch = kSteps < 8 ? kSteps : 8;
    const u32 bytes = valid_bytes(t, k_left);
#pragma unroll 1
    for (int base = 0; base < kSteps; base += kBatch) {
      u16 value[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const u8* p =
            t.from + k_bytes + static_cast<i64>(base + j) * kLineStep * kLineStride * kElementBytes;
        const bool inside = bytes != 0 && has_line(t, base + j, k_left);
        value[j] = inside ? ld_global_u16(p) : static_cast<u16>(0);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const u32 line = t.line + (base + j) * kLineStep;
        if (line < kLines) st_shared_u16(tile + offset(line, t.element), value[j]);
      }
    }
  }
};

}  // namespace catenary
