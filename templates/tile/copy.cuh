// SPDX-License-Identifier: Apache-2.0
// Global -> shared copies of one operand's tile, one ring stage at a time. A tile is copied in pieces
// of copy_bytes along its contiguous dimension; pieces outside the matrix become zeros, so that tails
// of M, N and K need no care in the mainloop (zeros on both sides: no 0 * NaN).
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared.cuh"
#include "tile/tile.cuh"

namespace catenary {

// kRows: free rows of the tile (block_m or block_n). kThreads: all threads of the CTA copy.
template <MatrixOperand kOperand, int kRows, int kBlockK, int kElementBytes, int kThreads>
struct TileCopy {
  static constexpr bool kKMajor = kOperand.k_major;
  static constexpr int kLines = kOperand.k_major ? kRows : kBlockK;
  static constexpr int kLineElements = kOperand.k_major ? kBlockK : kRows;
  using Layout = Tile<kLines, kLineElements * kElementBytes, !kOperand.k_major && kElementBytes == 4>;

  static constexpr int kPieceBytes = kOperand.copy_bytes;
  static constexpr int kPieceElements = kPieceBytes / kElementBytes;
  static constexpr int kPiecesPerLine = kLineElements / kPieceElements;
  static constexpr int kPieces = kLines * kPiecesPerLine;
  static constexpr int kSteps = (kPieces + kThreads - 1) / kThreads;
  static constexpr i64 kLineStride = kOperand.k_major ? kOperand.stride_row : kOperand.stride_k;
  static constexpr i64 kElementStride = kOperand.k_major ? kOperand.stride_k : kOperand.stride_row;

  struct Piece {
    u32 line, element;  // within the tile
    u32 valid;          // bytes inside the matrix
    const u8* from;
  };

  // Piece number `step` of this thread. rows_left, k_left: elements of the matrix from the tile's
  // corner on, may be <= 0.
  static CATENARY_DEVICE Piece piece(const u8* corner, int step, i32 rows_left, i32 k_left) {
    const u32 i = threadIdx.x + step * kThreads;
    Piece p;
    p.line = i / kPiecesPerLine;
    p.element = i % kPiecesPerLine * kPieceElements;
    const i32 lines_left = kOperand.k_major ? rows_left : k_left;
    const i32 elements_left = kOperand.k_major ? k_left : rows_left;
    const i32 inside = elements_left - static_cast<i32>(p.element);
    const i32 take = inside < kPieceElements ? (inside < 0 ? 0 : inside) : kPieceElements;
    const bool live = static_cast<i32>(p.line) < lines_left && (kPieces % kThreads == 0 || i < kPieces);
    p.valid = live ? take * kElementBytes : 0;
    const i64 offset = static_cast<i64>(p.line) * kLineStride +
                       static_cast<i64>(p.element) * kElementStride;
    p.from = p.valid != 0 ? corner + offset * kElementBytes : corner;
    return p;
  }

  static CATENARY_DEVICE u32 address(u32 tile, const Piece& p) {
    const u32 byte = p.element * kElementBytes;
    return tile + Layout::offset(p.line, byte >> 4) + (byte & 15);
  }

  // Starts the copy of one stage into the tile at shared address `tile`. corner: address of the
  // tile's first element. The caller commits the group.
  static CATENARY_DEVICE void start(u32 tile, const u8* corner, i32 rows_left, i32 k_left) {
    if constexpr (kPieceBytes >= 4) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const Piece p = piece(corner, step, rows_left, k_left);
        if (kPieces % kThreads != 0 && threadIdx.x + step * kThreads >= kPieces) continue;
        if constexpr (kPieceBytes == 16) cp_async_16(address(tile, p), p.from, p.valid);
        if constexpr (kPieceBytes == 8) cp_async_8(address(tile, p), p.from, p.valid);
        if constexpr (kPieceBytes == 4) cp_async_4(address(tile, p), p.from, p.valid);
      }
    } else {
      start_elements(tile, corner, rows_left, k_left);
    }
  }

  // 2-byte pieces: cp.async takes no less than 4 bytes (PTX ISA 9.7.9.25), so elements go through
  // registers, kBatch loads in flight. The stores are ordered before the readers by the CTA barrier
  // that the ring has anyway.
  static CATENARY_DEVICE void start_elements(u32 tile, const u8* corner, i32 rows_left,
                                             i32 k_left) {
    constexpr int kBatch = 8;
#pragma unroll 1
    for (int base = 0; base < kSteps; base += kBatch) {
      u16 value[kBatch];
      u32 to[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const Piece p = piece(corner, base + j, rows_left, k_left);
        to[j] = address(tile, p);
        value[j] = p.valid != 0 ? ld_global_u16(p.from) : static_cast<u16>(0);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (threadIdx.x + (base + j) * kThreads < kPieces) st_shared_u16(to[j], value[j]);
      }
    }
  }
};

}  // namespace catenary
