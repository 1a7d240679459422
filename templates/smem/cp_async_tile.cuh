// SPDX-License-Identifier: Apache-2.0
// cp.async loads of one operand's tile into a pipeline stage, by all threads of the CTA. A thread
// copies vectors of copy_bytes along the contiguous dimension. Bytes outside the matrix become
// zeros in both operands (so there is no 0 * NaN), and the mainloop ignores tails of M, N and K.
//
//   thread t copies vectors t, t + threads, ...; vector i is in line i / (vectors per line)
//
// The vectors of a thread are a constant number of lines apart: the mainloop adds one offset per
// k-tile, the rest are immediates.
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "smem/tile.cuh"

namespace catenary {

// kRows: block_m or block_n. kThreads: threads of the CTA. kCheckRows, kCheckK: tiles may reach
// past the end of the matrix in that dimension.
template <MatrixOperand kOperand, int kRows, int kBlockK, int kElementBytes, int kThreads,
          bool kCheckRows, bool kCheckK>
struct CpAsyncTile {
  static constexpr bool kKMajor = kOperand.k_major;
  static constexpr int kLines = kKMajor ? kRows : kBlockK;
  static constexpr int kLineElements = kKMajor ? kBlockK : kRows;
  using Layout = Tile<kLines, kLineElements * kElementBytes, !kKMajor && kElementBytes == 4>;

  static constexpr int kVectorBytes = kOperand.copy_bytes;
  static constexpr int kVectorElements = kVectorBytes / kElementBytes;
  static constexpr int kVectorsPerLine = kLineElements / kVectorElements;
  static constexpr int kVectors = kLines * kVectorsPerLine;
  static constexpr int kPasses = (kVectors + kThreads - 1) / kThreads;
  static constexpr int kLinesPerPass = kThreads / kVectorsPerLine;
  static_assert(kThreads % kVectorsPerLine == 0, "a pass of the CTA covers whole lines");

  static constexpr i64 kLineStride = kKMajor ? kOperand.stride_row : kOperand.stride_k;
  static constexpr i64 kElementStride = kKMajor ? kOperand.stride_k : kOperand.stride_row;
  static constexpr bool kCheckLines = kKMajor ? kCheckRows : kCheckK;
  static constexpr bool kCheckElements = kKMajor ? kCheckK : kCheckRows;

  // What is the same for all k-tiles: this thread's first vector and the rows that are left.
  struct Thread {
    const u8* from;     // source of the first vector at k = 0
    u32 to;             // its offset in a tile
    u32 line, element;  // its position in a tile
    i32 rows_left;
  };

  // corner: address of the tile's row 0 at k = 0. rows_left: rows of the matrix from row 0 on.
  static CATENARY_DEVICE Thread thread(const u8* corner, i32 rows_left) {
    Thread t;
    t.line = threadIdx.x / kVectorsPerLine;
    t.element = threadIdx.x % kVectorsPerLine * kVectorElements;
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

  // Tile offset of this thread's vector of a pass. The swizzle repeats every eight lines.
  static CATENARY_DEVICE u32 pass_offset(const Thread& t, int pass) {
    if constexpr (kLinesPerPass % 8 == 0)
      return t.to + pass * kLinesPerPass * kLineElements * kElementBytes;
    return offset(t.line + pass * kLinesPerPass, t.element);
  }

  // Bytes of this thread's vectors that are inside the matrix along the contiguous dimension.
  static CATENARY_DEVICE u32 valid_bytes(const Thread& t, i32 k_left) {
    if constexpr (!kCheckElements) return kVectorBytes;
    const i32 inside = (kKMajor ? k_left : t.rows_left) - static_cast<i32>(t.element);
    if (inside <= 0) return 0;
    return inside < kVectorElements ? inside * kElementBytes : kVectorBytes;
  }

  static CATENARY_DEVICE bool has_line(const Thread& t, int pass, i32 k_left) {
    const u32 line = t.line + pass * kLinesPerPass;
    if (kVectors % kThreads != 0 && line >= kLines) return false;
    return !kCheckLines || static_cast<i32>(line) < (kKMajor ? t.rows_left : k_left);
  }

  // Issues the loads of one k-tile into shared address `tile`. k_bytes: offset of its first k;
  // k_left: elements of K from there on. The caller commits the cp.async group.
  static CATENARY_DEVICE void start(u32 tile, const Thread& t, i64 k_bytes, i32 k_left) {
    if constexpr (kVectorBytes < 4) {
      start_elements(tile, t, k_bytes, k_left);
    } else {
      const u8* from = t.from + k_bytes;
      const u32 bytes = valid_bytes(t, k_left);
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        // The last pass may have fewer vectors than threads.
        if (kVectors % kThreads != 0 && t.line + pass * kLinesPerPass >= kLines) continue;
        const u32 to = tile + pass_offset(t, pass);
        const u32 valid = has_line(t, pass, k_left) ? bytes : 0;
        const u8* p = from + pass * kLinesPerPass * kLineStride * kElementBytes;
        if constexpr (kVectorBytes == 16) cp_async_16(to, p, valid);
        if constexpr (kVectorBytes == 8) cp_async_8(to, p, valid);
        if constexpr (kVectorBytes == 4) cp_async_4(to, p, valid);
      }
    }
  }

  // 2-byte vectors: cp.async copies at least 4 bytes (PTX ISA 9.7.9.25), so elements go through
  // registers, kBatch loads in flight. The CTA barrier of the mainloop orders the st.shared before
  // the readers.
  static CATENARY_DEVICE void start_elements(u32 tile, const Thread& t, i64 k_bytes, i32 k_left) {
    constexpr int kBatch = kPasses < 8 ? kPasses : 8;
    const u32 bytes = valid_bytes(t, k_left);
#pragma unroll 1
    for (int base = 0; base < kPasses; base += kBatch) {
      u16 value[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const u8* p = t.from + k_bytes +
                      static_cast<i64>(base + j) * kLinesPerPass * kLineStride * kElementBytes;
        const bool inside = bytes != 0 && has_line(t, base + j, k_left);
        value[j] = inside ? ld_global_u16(p) : static_cast<u16>(0);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const u32 line = t.line + (base + j) * kLinesPerPass;
        if (line < kLines) st_shared_u16(tile + offset(line, t.element), value[j]);
      }
    }
  }
};

}  // namespace catenary
