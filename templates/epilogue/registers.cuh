// SPDX-License-Identifier: Apache-2.0
// The epilogue on accumulators of wgmma where they lie. A thread has pairs of adjacent columns
// (ptx/wgmma.cuh), so vectors are two wide; results of 16 bits are turned into rows of 16-byte
// pieces by way of an area of shared memory that belongs to the warp, results in f32 fill whole
// sectors as they are.
//
//   piece: 16 rows of one fragment, 64 / sums columns; the accumulators of one piece are copied to
//   registers of their own, so that one text serves all pieces
//   area: a piece of 16-bit results, rows of 128 / sums bytes in chunks of 16; chunk c of row r
//   lies at c ^ (r % 8), or at c ^ (r / 2 % 4) where two rows share 128 bytes. So neither the eight
//   rows that one stmatrix writes nor the 128 bytes that a quarter of a warp reads meet a bank
//   twice.
//
// Operands may vary along M or along N, not along both: Columns are read once for all rows of a
// piece, one piece ahead; Rows once for all its columns. Coordinates are held inside the matrix, so
// that nothing but the stores needs a guard.
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/wgmma.cuh"
#include "tile/raster.cuh"

namespace catenary {

// Piece `number` of the fragments; the first index of every register is a constant. Columns beyond
// the tile's last are zeros.
template <bool kConstant, int kSums, int kFragments, int kRegisters, int kPieceRegisters>
CATENARY_DEVICE void take_piece(float (&piece)[kSums][kPieceRegisters],
                                const float (&d)[kSums][kFragments][kRegisters], u32 number) {
  constexpr u32 kPieces = (kRegisters + kPieceRegisters - 1) / kPieceRegisters;
#pragma unroll
  for (u32 i = 0; i < kFragments * kPieces; ++i) {
    if (i != number) continue;
#pragma unroll
    for (u32 s = 0; s < kSums; ++s) {
#pragma unroll
      for (u32 r = 0; r < kPieceRegisters; ++r) {
        const u32 from = i % kPieces * kPieceRegisters + r;
        piece[s][r] = from < kRegisters ? d[s][i / kPieces][from < kRegisters ? from : 0] : 0.0f;
      }
      // Where the number is no constant, this keeps a branch with one move per register: as selects
      // between all pieces it would be as many instructions as the rest of the epilogue.
      if constexpr (!kConstant) wgmma_pin(piece[s]);
    }
  }
}

template <GemmSm90Config kConfig, class Epilogue>
struct RegisterEpilogue {
  static constexpr int kOutputs = Epilogue::kOutputCount;
  static constexpr int kSums = kConfig.sums();
  static constexpr int kColumns = 64 / kSums;   // of a piece
  static constexpr u32 kChunks = kColumns / 8;  // 16 bytes of 16-bit results each
  static constexpr u32 kPieces = (kConfig.block_n + kColumns - 1) / kColumns;  // of a fragment

  using Values = Vec<2>[kOutputs][kChunks][2];

  // What a piece needs of the operands that vary along N.
  using Ahead = typename Epilogue::Columns[kChunks];

  static CATENARY_DEVICE u32 chunk_address(u32 area, u32 row, u32 chunk) {
    const u32 turn = kChunks == 8 ? row % 8 : row / 2 % 4;
    return area + (row * kChunks + (chunk ^ turn)) * 16;
  }

  // A piece's 16-bit words, two columns each: [8 columns][rows g, rows g + 8].
  using Words = u32[kChunks][2];

  // A piece as rows: what a lane has of it.
  static constexpr u32 kRowsPerPass = 32 / kChunks;
  static constexpr u32 kPasses = 16 / kRowsPerPass;
  using PieceRows = U32x4[kPasses];

  static CATENARY_DEVICE void leave_words(u32 area, const Words& word) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 g = 0; g < kChunks; g += 2) {
      // Lane l names row l % 8 of matrix l / 8: rows 0 to 7 and 8 to 15 of chunk g, then of g + 1.
      const u32 to = chunk_address(area, lane % 16, g + lane / 16);
      stmatrix_x4(to, {word[g][0], word[g][1], word[g + 1][0], word[g + 1][1]});
    }
  }

  static CATENARY_DEVICE void read_rows(u32 area, PieceRows& rows) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 pass = 0; pass < kPasses; ++pass) {
      rows[pass] =
          ld_shared_v4(chunk_address(area, pass * kRowsPerPass + lane / kChunks, lane % kChunks));
    }
  }

  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_rows(const P& params, const PieceRows& rows, Coord at, u32 m,
                                         u32 m_end, u32 n, u32 n_end) {
    const u32 lane = threadIdx.x % 32;
    const u32 column = n + lane % kChunks * 8;
    at.dim[kMaxDims - 1] = column;
#pragma unroll
    for (u32 pass = 0; pass < kPasses; ++pass) {
      const u32 row = m + pass * kRowsPerPass + lane / kChunks;
      at.dim[kMaxDims - 2] = row;
      const u32 word[4] = {rows[pass].x, rows[pass].y, rows[pass].z, rows[pass].w};
      u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + element_offset<kOutput>(at) * 2;
      if (row < m_end && column < n_end) store_words<4, kOutput.streamed>(p, word);
    }
  }

  // f32 results as they are: four lanes fill a sector.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_pairs(const P& params, Coord at,
                                          const Vec<2> (&value)[kChunks][2], u32 m, u32 m_end,
                                          u32 n, u32 n_end) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 g = 0; g < kChunks; ++g) {
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        const u32 row = m + lane / 4 + 8 * half;
        const u32 column = n + 8 * g + lane % 4 * 2;
        at.dim[kMaxDims - 2] = row;
        at.dim[kMaxDims - 1] = column;
        u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + element_offset<kOutput>(at) * 4;
        const u32 word[2] = {f32_to_bits(value[g][half].v[0]), f32_to_bits(value[g][half].v[1])};
        if (row < m_end && column < n_end) store_words<2, false>(p, word);
      }
    }
  }

  template <class P>
  static CATENARY_DEVICE void load_columns(const P& params, Coord at, u32 n, u32 n_end,
                                           Ahead& columns) {
#pragma unroll
    for (u32 g = 0; g < kChunks; ++g) {
      const u32 column = n + 8 * g + threadIdx.x % 4 * 2;
      at.dim[kMaxDims - 1] = column < n_end ? column : n_end - 2;
      Epilogue::load_columns(params, at, columns[g]);
    }
  }

  template <class P>
  static CATENARY_DEVICE void load_rows(const P& params, Coord at, u32 m, u32 m_end,
                                        typename Epilogue::Rows (&rows)[2]) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      const u32 row = m + threadIdx.x % 32 / 4 + 8 * half;
      at.dim[kMaxDims - 2] = row < m_end ? row : m_end - 1;
      Epilogue::load_rows(params, at, rows[half]);
    }
  }

  // One piece from column n and row m on: all results, then the outputs one after the other.
  template <class P>
  static CATENARY_DEVICE void compute(const P& params, const Coord& at,
                                      const float (&sums)[kSums][kColumns / 2],
                                      const Ahead& columns, u32 m, u32 m_end, Values& value) {
    typename Epilogue::Rows rows[2];
    load_rows(params, at, m, m_end, rows);
#pragma unroll
    for (u32 g = 0; g < kChunks; ++g) {
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        const u32 r = 4 * g + 2 * half;
        Vec<2> out[kOutputs];
        const Vec<2> first = {sums[0][r], sums[0][r + 1]};
        if constexpr (kSums == 1) {
          Epilogue::values(params, columns[g], rows[half], first, out);
        } else {
          Epilogue::values(params, columns[g], rows[half], first, {sums[1][r], sums[1][r + 1]},
                           out);
        }
#pragma unroll
        for (u32 o = 0; o < kOutputs; ++o) value[o][g][half] = out[o];
      }
    }
  }

  template <DType kDType>
  static CATENARY_DEVICE void pack_words(const Vec<2> (&value)[kChunks][2], Words& word) {
#pragma unroll
    for (u32 i = 0; i < kColumns / 4; ++i) {
      const Vec<2>& v = value[i / 2][i % 2];
      word[i / 2][i % 2] = pack<kDType>(v.v[0], v.v[1]);
    }
  }

  // All outputs, one after the other.
  template <int kOutput, class P>
  static CATENARY_DEVICE void store_outputs(const P& params, u32 area, const Coord& at,
                                            const Values& value, u32 m, u32 m_end, u32 n,
                                            u32 n_end) {
    if constexpr (kOutput < kOutputs) {
      constexpr Operand kTo = Epilogue::kOutputs[kOutput];
      if constexpr (kTo.dtype == DType::kF32) {
        store_pairs<kTo>(params, at, value[kOutput], m, m_end, n, n_end);
      } else {
        Words word;
        PieceRows rows;
        pack_words<kTo.dtype>(value[kOutput], word);
        // The area is this warp's alone: the warp's own barrier orders its reuse.
        warp_barrier();
        leave_words(area, word);
        warp_barrier();
        read_rows(area, rows);
        store_rows<kTo>(params, rows, at, m, m_end, n, n_end);
      }
      store_outputs<kOutput + 1>(params, area, at, value, m, m_end, n, n_end);
    }
  }

  static CATENARY_DEVICE u32 column_end(const TileWork& work, i64 n) {
    return static_cast<u32>(n - work.n0 < kConfig.block_n ? n : work.n0 + kConfig.block_n);
  }

  static CATENARY_DEVICE Coord coordinates(const TileWork& work) {
    Coord at;
#pragma unroll
    for (int i = 0; i < kMaxDims - 2; ++i) at.dim[i] = work.batch[i + 2];
    if constexpr (kConfig.split_k > 1) at.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;
    at.valid = 2;
    return at;
  }

  // The first piece's columns: to be called before the sums are complete, so that the loads run
  // beside the last products.
  template <class P>
  static CATENARY_DEVICE void prefetch(const P& params, const TileWork& work, i64 n, Ahead& ahead) {
    load_columns(params, coordinates(work), static_cast<u32>(work.n0), column_end(work, n), ahead);
  }

  // This warp's rows of the tile, which begin at `m_warp` in fragment 0; `ahead` is prefetch()'s.
  template <class P, int kFragments, int kRegisters>
  static CATENARY_DEVICE void run(const P& params, u32 area, const TileWork& work, i64 m_warp,
                                  i64 n, const float (&d)[kSums][kFragments][kRegisters],
                                  Ahead& ahead) {
    const u32 n0 = static_cast<u32>(work.n0);
    const u32 n_end = column_end(work, n);
    const u32 m_end = static_cast<u32>(work.m_end);
    const Coord at = coordinates(work);
    // A text of its own for each piece saves the copies of accumulators, which are most of a short
    // epilogue; a long one would be too much to compile.
    constexpr int kUnroll = Epilogue::kShort ? static_cast<int>(kFragments * kPieces) : 1;
#pragma unroll kUnroll
    for (u32 piece = 0; piece < kFragments * kPieces; ++piece) {
      Ahead columns;
#pragma unroll
      for (u32 g = 0; g < kChunks; ++g) columns[g] = ahead[g];
      load_columns(params, at, n0 + (piece + 1) % kPieces * kColumns, n_end, ahead);
      float sums[kSums][kColumns / 2];
      take_piece<(kUnroll > 1)>(sums, d, piece);
      const u32 m = static_cast<u32>(m_warp) + piece / kPieces * 64;
      Values value;
      compute(params, at, sums, columns, m, m_end, value);
      store_outputs<0>(params, area, at, value, m, m_end, n0 + piece % kPieces * kColumns, n_end);
    }
  }
};

}  // namespace catenary
