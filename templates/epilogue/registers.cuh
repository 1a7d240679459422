// SPDX-License-Identifier: Apache-2.0
// The epilogue on accumulators of wgmma where they lie. A thread has pairs of adjacent columns
// (ptx/wgmma.cuh), so vectors are two wide; results of 16 bits go by way of an area of shared
// memory that belongs to the warp, from where a tensor copy stores the piece as a box, or where an
// output has no map or a piece is not whole, the warp does by rows. Results in f32 fill whole
// sectors as they are.
//
//   piece: 16 rows of one fragment, 64 or 32 columns; the accumulators of one piece are copied to
//   registers of their own, so that one text serves all pieces
//   area: two pieces of 16-bit results, rows of 128 or 64 bytes in chunks of 16; chunk c of row r
//   lies at c ^ (r % 8), or at c ^ (r / 2 % 4) where two rows share 128 bytes: the swizzles of
//   tensor maps. So neither the eight rows that one stmatrix writes nor the 128 bytes that a
//   quarter of a warp reads meet a bank twice.
//
// Boxes take the area's halves in turns. Lane 0 starts their copies, each a group of its own, and
// waits before a half is written again until at most the copy of the other one reads.
//
// Operands may vary along M or along N, not along both: Columns are read once for all rows of the
// tile, before its products, or of a piece, one piece ahead; Rows once for all its columns.
// Coordinates are held inside the matrix, so that nothing but the stores needs a guard.
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/atomic.cuh"
#include "ptx/bulk.cuh"
#include "ptx/convert.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// Piece `number` of the fragments; the first index of every register is a constant. Columns beyond
// the tile's last are zeros.
template <bool kConstant, int kSums, int kFragments, int kRegisters, int kPieceRegisters>
CATENARY_DEVICE void copy_subtile(float (&piece)[kSums][kPieceRegisters],
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

template <const GemmSm90Config& kConfig, class Epilogue>
struct RegisterEpilogue {
  static constexpr int kOutputs = Epilogue::kOutputCount;
  static constexpr int kSums = kConfig.num_accumulators();
  static constexpr int kColumns = kConfig.subtile_n();
  static constexpr u32 kChunks = kColumns / 8;  // 16 bytes of 16-bit results each
  static constexpr u32 kPieces = (kConfig.block_n + kColumns - 1) / kColumns;  // of a fragment

  // Pieces that end inside the tile and inside their rows' group are whole.
  static constexpr bool kAllFull =
      kConfig.ragged != Ragged::kMGrouped && kConfig.block_n % kColumns == 0;
  // No tile has columns behind the matrix: columns' operands need no clamp, and have one address.
  static constexpr bool kWholeTiles = kConfig.n.scale == 0 && kConfig.n.size % kConfig.block_n == 0;
  static constexpr u32 kPieceBytes = 16 * kColumns * 2;

  static constexpr bool any_tma_store() {
    bool any = false;
    for (const Operand& output : Epilogue::kOutputs) any = any || output.map >= 0;
    return any;
  }
  static constexpr bool kBoxes = any_tma_store();

  // A piece's results as they are stored: a pair of columns is one word of 16-bit elements, or two.
  using Results = u32[kOutputs][kChunks][2][2];

  // What the tile, or where that would be too many registers a piece, needs of the operands that
  // vary along N. An empty struct has no words.
  static constexpr u32 kColumnWords = sizeof(typename Epilogue::Columns) / 4;
  static constexpr u32 kMostRegisters = kConfig.uses_cp_async() ? 136 : 160;
  static constexpr bool kPrefetchTile =
      kConfig.accumulator_registers() + kColumnWords * kPieces * kChunks <= kMostRegisters;
  using Ahead = typename Epilogue::Columns[kPrefetchTile ? kPieces : 1][kChunks];
  using SubtileColumns = typename Epilogue::Columns[kChunks];

  static CATENARY_DEVICE u32 chunk_address(u32 area, u32 row, u32 chunk) {
    const u32 turn = kChunks == 8 ? row % 8 : row / 2 % 4;
    return area + (row * kChunks + (chunk ^ turn)) * 16;
  }

  // Of one output: [8 columns][rows g, rows g + 8][pair's words].
  using Words = u32[kChunks][2][2];

  // A piece as rows: what a lane has of it.
  static constexpr u32 kRowsPerPass = 32 / kChunks;
  static constexpr u32 kPasses = 16 / kRowsPerPass;
  using SubtileRows = U32x4[kPasses];

  static CATENARY_DEVICE void stage_words(u32 area, const Words& word) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 g = 0; g < kChunks; g += 2) {
      // Lane l names row l % 8 of matrix l / 8: rows 0 to 7 and 8 to 15 of chunk g, then of g + 1.
      const u32 to = chunk_address(area, lane % 16, g + lane / 16);
      stmatrix_x4(to, {word[g][0][0], word[g][1][0], word[g + 1][0][0], word[g + 1][1][0]});
    }
  }

  static CATENARY_DEVICE void read_rows(u32 area, SubtileRows& rows) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 pass = 0; pass < kPasses; ++pass) {
      rows[pass] =
          ld_shared_v4(chunk_address(area, pass * kRowsPerPass + lane / kChunks, lane % kChunks));
    }
  }

  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_rows(const P& params, const SubtileRows& rows, Coord at, u32 m,
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

  // The sources of the copies may be written again: lane 0 started them, and so it waits.
  template <int kPending>
  static CATENARY_DEVICE void wait_tma_stores() {
    if constexpr (kBoxes) {
      if (threadIdx.x % 32 == 0) bulk_wait_read<kPending>();
    }
  }

  // A piece as a box of the output's map: columns, rows, then the dimensions along which it has a
  // stride, innermost first. What lies behind the tensor's last row or column is not stored.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void tma_store_box(const P& params, u32 from, const Coord& at, u32 m,
                                            u32 n) {
    constexpr int kRank = [] {
      int rank = 2;
      for (int d = 0; d < kMaxDims - 2; ++d) rank += kOutput.stride.at[d] != 0 ? 1 : 0;
      return rank;
    }();
    i32 place[kRank] = {static_cast<i32>(n), static_cast<i32>(m)};
    int to = 2;
#pragma unroll
    for (int d = kMaxDims - 3; d >= 0; --d) {
      if (kOutput.stride.at[d] != 0) place[to++] = static_cast<i32>(at.dim[d]);
    }
    tma_store(params.map[kOutput.map], place, from, kOutput.streamed ? kEvictFirst : kEvictNormal);
    bulk_commit();
  }

  // 16-bit results by way of the area, of which `half` is free next but for its last copy; behind
  // rows it stays so.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_subtile(const P& params, u32 area, u32& half, const Coord& at,
                                            const Words& word, u32 m, u32 m_end, u32 n, u32 n_end) {
    constexpr bool kMapped = kOutput.map >= 0;
    wait_tma_stores<1>();
    // The area is this warp's alone: the warp's own barrier orders its reuse.
    warp_barrier();
    stage_words(area + half, word);
    if (kMapped && (kAllFull || (m + 16 <= m_end && n + kColumns <= n_end))) {
      // Each lane for its own words: the copy, which lane 0 starts, reads by the asynchronous
      // proxy.
      fence_proxy_async_shared();
      warp_barrier();
      if constexpr (kMapped) {
        if (threadIdx.x % 32 == 0) tma_store_box<kOutput>(params, area + half, at, m, n);
      }
      half = kPieceBytes - half;
    } else if constexpr (!kMapped || !kAllFull) {
      SubtileRows rows;
      warp_barrier();
      read_rows(area + half, rows);
      store_rows<kOutput>(params, rows, at, m, m_end, n, n_end);
    }
  }

  // f32 results as they are: four lanes fill a sector.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_pairs(const P& params, Coord at, const Words& word, u32 m,
                                          u32 m_end, u32 n, u32 n_end) {
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
        if (row < m_end && column < n_end) store_words<2, false>(p, word[g][half]);
      }
    }
  }

  template <class P>
  static CATENARY_DEVICE void load_columns(const P& params, Coord at, u32 n, u32 n_end,
                                           SubtileColumns& columns) {
#pragma unroll
    for (u32 g = 0; g < kChunks; ++g) {
      const u32 column = n + 8 * g + threadIdx.x % 4 * 2;
      at.dim[kMaxDims - 1] = kWholeTiles || column < n_end ? column : n_end - 2;
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

  // At once, since a pair of 16-bit results takes one register where its values take two.
  template <int kOutput>
  static CATENARY_DEVICE void keep_results(const Vec<2> (&out)[kOutputs], u32 g, u32 half,
                                           Results& result) {
    if constexpr (kOutput < kOutputs) {
      constexpr DType kDType = Epilogue::kOutputs[kOutput].dtype;
      const Vec<2>& v = out[kOutput];
      if constexpr (kDType == DType::kF32) {
        result[kOutput][g][half][0] = f32_to_bits(v.v[0]);
        result[kOutput][g][half][1] = f32_to_bits(v.v[1]);
      } else {
        result[kOutput][g][half][0] = pack<kDType>(v.v[0], v.v[1]);
      }
      keep_results<kOutput + 1>(out, g, half, result);
    }
  }

  // One piece from column n and row m on: all results, then the outputs one after the other.
  template <class P>
  static CATENARY_DEVICE void compute(const P& params, const Coord& at,
                                      const float (&sums)[kSums][kColumns / 2],
                                      const SubtileColumns& columns, u32 m, u32 m_end,
                                      Results& result) {
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
        keep_results<0>(out, g, half, result);
      }
    }
  }

  // All outputs, one after the other.
  template <int kOutput, class P>
  static CATENARY_DEVICE void store_outputs(const P& params, u32 area, u32& half, const Coord& at,
                                            const Results& result, u32 m, u32 m_end, u32 n,
                                            u32 n_end) {
    if constexpr (kOutput < kOutputs) {
      constexpr Operand kTo = Epilogue::kOutputs[kOutput];
      if constexpr (kTo.dtype == DType::kF32) {
        store_pairs<kTo>(params, at, result[kOutput], m, m_end, n, n_end);
      } else {
        store_subtile<kTo>(params, area, half, at, result[kOutput], m, m_end, n, n_end);
      }
      store_outputs<kOutput + 1>(params, area, half, at, result, m, m_end, n, n_end);
    }
  }

  static CATENARY_DEVICE u32 column_end(const WorkTile& work, i64 n) {
    return static_cast<u32>(n - work.n0 < kConfig.block_n ? n : work.n0 + kConfig.block_n);
  }

  static CATENARY_DEVICE Coord coordinates(const WorkTile& work) {
    Coord at;
#pragma unroll
    for (int i = 0; i < kMaxDims - 2; ++i) at.dim[i] = work.batch[i + 2];
    if constexpr (kConfig.split_k > 1) at.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;
    at.valid = 2;
    return at;
  }

  // The columns of the tile, or of its first piece, to be called before the sums are complete:
  // those of the tile before its products, those of a piece beside the last ones.
  template <class P>
  static CATENARY_DEVICE void prefetch(const P& params, const WorkTile& work, i64 n, Ahead& ahead) {
    const Coord at = coordinates(work);
    const u32 n0 = static_cast<u32>(work.n0);
#pragma unroll
    for (u32 piece = 0; piece < (kPrefetchTile ? kPieces : 1); ++piece) {
      load_columns(params, at, n0 + piece * kColumns, column_end(work, n), ahead[piece]);
    }
  }

  // Word by word: a choice between structs would be one between addresses, of local memory.
  static CATENARY_DEVICE void select(typename Epilogue::Columns& to,
                                     const typename Epilogue::Columns& from, bool taken) {
    struct Words {
      u32 word[kColumnWords];
    };
    Words words = __builtin_bit_cast(Words, to);
    const Words others = __builtin_bit_cast(Words, from);
#pragma unroll
    for (u32 i = 0; i < kColumnWords; ++i) words.word[i] = taken ? others.word[i] : words.word[i];
    to = __builtin_bit_cast(typename Epilogue::Columns, words);
  }

  // The columns of piece `piece`; its number is a constant where the pieces are unrolled.
  template <class P>
  static CATENARY_DEVICE void subtile_columns(const P& params, const Coord& at, u32 n0, u32 n_end,
                                              u32 piece, Ahead& ahead, SubtileColumns& columns) {
#pragma unroll
    for (u32 g = 0; g < kChunks; ++g) {
      columns[g] = ahead[0][g];
      if constexpr (kPrefetchTile && kColumnWords > 0) {
#pragma unroll
        for (u32 i = 1; i < kPieces; ++i) select(columns[g], ahead[i][g], piece % kPieces == i);
      }
    }
    if constexpr (!kPrefetchTile) {
      load_columns(params, at, n0 + (piece + 1) % kPieces * kColumns, n_end, ahead[0]);
    }
  }

  // Behind the last tile: the area stays until the copies have read it.
  static CATENARY_DEVICE void finish() { wait_tma_stores<0>(); }

  // This warp's rows of the tile, which begin at `m_warp` in fragment 0; `ahead` is prefetch()'s.
  template <class P, int kFragments, int kRegisters>
  static CATENARY_DEVICE void run(const P& params, u32 area, const WorkTile& work, i64 m_warp,
                                  i64 n, const float (&d)[kSums][kFragments][kRegisters],
                                  Ahead& ahead) {
    const u32 n0 = static_cast<u32>(work.n0);
    const u32 n_end = column_end(work, n);
    const u32 m_end = static_cast<u32>(work.m_end);
    const Coord at = coordinates(work);
    // A text of its own for each piece saves the copies of accumulators, which are most of a short
    // epilogue. A long one is much to compile, worth it where few products hide it (8192x3072x768
    // with gelu_tanh on an H200: 61.1 us, 63.3 with one text for all pieces). More than 128
    // accumulators leave no registers for what it moves ahead.
    constexpr i64 kFewSteps = 16;
    constexpr bool kShortSum =
        kConfig.k.scale == 0 && kConfig.k.size * kConfig.k_outer <= kFewSteps * kConfig.block_k();
    constexpr bool kUnrolled = (Epilogue::kShort || kShortSum) && kConfig.subtile_n() * kSums == 64;
    constexpr int kUnroll = kUnrolled ? static_cast<int>(kFragments * kPieces) : 1;
    wait_tma_stores<0>();
    u32 half = 0;
#pragma unroll kUnroll
    for (u32 piece = 0; piece < kFragments * kPieces; ++piece) {
      SubtileColumns columns;
      subtile_columns(params, at, n0, n_end, piece, ahead, columns);
      float sums[kSums][kColumns / 2];
      copy_subtile<kUnrolled>(sums, d, piece);
      const u32 m = static_cast<u32>(m_warp) + piece / kPieces * 64;
      Results result;
      compute(params, at, sums, columns, m, m_end, result);
      store_outputs<0>(params, area, half, at, result, m, m_end, n0 + piece % kPieces * kColumns,
                       n_end);
    }
  }
};

}  // namespace catenary
