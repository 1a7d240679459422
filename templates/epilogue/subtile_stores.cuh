// SPDX-License-Identifier: Apache-2.0
// How the register epilogue stores the results of a subtile. 16-bit results go through the warp's
// staging buffers: a TMA store writes a whole subtile as a box; a partial one, or an output without
// a tensor map, is stored by rows. fp8 results are stored by rows where their rows and the tile's
// columns are multiples of 16 bytes. Other fp8 and f32 results fill whole sectors from registers.
//
//   staging   two buffers, each one subtile of 16-bit results in chunks as subtile_chunk places
//             them
//
// TMA stores alternate between the buffers. Lane 0 issues each store as a bulk group of its own;
// before a buffer is written again it waits until only the other buffer's store may still read.
// Subtiles of 32 columns are stored in pairs, whose two boxes count as one.
//
// Outputs that are contiguous along M (D is computed transposed): 16 rows of a column would be a
// quarter of a line. The four warps of a warpgroup stage their rows together, 64 rows of a column
// in 128 bytes, and each stores a quarter of the columns. The warpgroup has one barrier for each
// subtile. A warp arrives after it has written its rows and after TMA has read its last store. So
// all rows are written before this subtile is stored, and the other buffer is free for the next.
#pragma once

#include "epilogue/column_sums.cuh"
#include "epilogue/config.cuh"
#include "epilogue/operand.cuh"
#include "epilogue/staging.cuh"
#include "epilogue/vec.cuh"
#include "ptx/atomic.cuh"
#include "ptx/bulk.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"

namespace catenary {

template <const EpilogueConfig& kConfig, class Epilogue>
struct SubtileStores {
  static constexpr int kOutputs = Epilogue::kOutputCount;
  static constexpr int kSubtileN = kConfig.subtile_n;
  static constexpr u32 kChunks = kSubtileN / 8;  // of 8 columns, or 16 bytes of 16-bit results
  // No subtile ends past the tile, or past the rows of an M group.
  static constexpr bool kAllFull = !kConfig.m_grouped && kConfig.block_n % kSubtileN == 0;
  static constexpr u32 kSubtileBytes = 16 * kSubtileN * 2;

  static constexpr bool any_tma_store() {
    bool any = false;
    for (const Operand& output : Epilogue::kOutputs) any = any || output.map >= 0;
    return any;
  }
  static constexpr bool kTmaStores = any_tma_store();

  // Are the 16-bit outputs contiguous along M? All of a kernel are, or none.
  static constexpr bool any_m_major() {
    bool any = false;
    for (const Operand& output : Epilogue::kOutputs)
      any = any || (is_m_major(output) && dtype_bytes(output.dtype) == 2);
    return any;
  }
  static constexpr bool kMMajor = any_m_major();
  static constexpr u32 kPartColumns = kSubtileN / 4;  // that a warp stores

  // Is every store one of a pair? Then it is the only one, of 16-bit results by TMA.
  static constexpr bool kPairs =
      kConfig.stores_pairs && kOutputs == 1 && Epilogue::kOutputs[0].rows == 1 && any_tma_store();

  // The results of a subtile as stored: a pair of columns is one word of 16-bit elements, half a
  // word of fp8, or two words.
  using Results = u32[kOutputs][kChunks][2][2];
  // The words of one output: [8 columns][row g, row g + 8][words of a pair].
  using Words = u32[kChunks][2][2];

  // Where a subtile is stored by rows: the 16-byte chunks that one lane stores.
  static constexpr u32 kRowsPerPass = 32 / kChunks;
  static constexpr u32 kPasses = 16 / kRowsPerPass;
  using SubtileRows = U32x4[kPasses];

  // `staging`: of this warp, or of its warpgroup where outputs are contiguous along M.
  static CATENARY_DEVICE void stage_words(u32 staging, const Words& word) {
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (u32 g = 0; g < kChunks; g += 2) {
      const U32x4 v = {word[g][0][0], word[g][1][0], word[g + 1][0][0], word[g + 1][1][0]};
      // Lane l addresses row l % 8 of matrix l / 8: rows 0-7 and 8-15 of chunk g, then of g + 1.
      // Transposed, a row of a matrix is a column of D.
      if constexpr (kMMajor) {
        const u32 column = 8 * (g + lane / 16) + lane % 8;
        stmatrix_x4_trans(subtile_chunk<8>(staging, column, 2 * warp + lane / 8 % 2), v);
      } else {
        stmatrix_x4(subtile_chunk<kChunks>(staging, lane % 16, g + lane / 16), v);
      }
    }
  }

  static CATENARY_DEVICE void read_rows(u32 staging, SubtileRows& rows) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 pass = 0; pass < kPasses; ++pass) {
      rows[pass] = ld_shared_v4(
          subtile_chunk<kChunks>(staging, pass * kRowsPerPass + lane / kChunks, lane % kChunks));
    }
  }

  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_rows(const P& params, const SubtileRows& rows, Coord coord,
                                         u32 m, u32 m_end, u32 n, u32 n_end) {
    const u32 lane = threadIdx.x % 32;
    const u32 column = n + lane % kChunks * 8;
    coord.dim[kMaxDims - 1] = column;
#pragma unroll
    for (u32 pass = 0; pass < kPasses; ++pass) {
      const u32 row = m + pass * kRowsPerPass + lane / kChunks;
      coord.dim[kMaxDims - 2] = row;
      const u32 word[4] = {rows[pass].x, rows[pass].y, rows[pass].z, rows[pass].w};
      u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + element_offset<kOutput>(coord) * 2;
      if (row < m_end && column < n_end) store_words<4, kOutput.streamed>(p, word);
    }
  }

  // Stores a warp's quarter of a staged subtile, for an output that is contiguous along M. The
  // warp's columns are in shared memory at `from`. Columns at or after n_end are not stored.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_columns(const P& params, u32 from, Coord coord, u32 m,
                                            u32 m_end, u32 n, u32 n_end) {
    const u32 chunk = threadIdx.x % 8;
    coord.dim[kMaxDims - 2] = m + 8 * chunk;
#pragma unroll
    for (u32 pass = 0; pass < kPartColumns / 4; ++pass) {
      const u32 column = pass * 4 + threadIdx.x % 32 / 8;
      const U32x4 w = ld_shared_v4(subtile_chunk<8>(from, column, chunk));
      coord.dim[kMaxDims - 1] = n + column;
      const u32 word[4] = {w.x, w.y, w.z, w.w};
      u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + element_offset<kOutput>(coord) * 2;
      if (m + 8 * chunk < m_end && n + column < n_end) store_words<4, kOutput.streamed>(p, word);
    }
  }

  // Waits until at most kPending TMA stores still read their buffers. Bulk groups belong to the
  // thread that issued the stores, lane 0.
  template <int kPending>
  static CATENARY_DEVICE void wait_tma_stores() {
    if constexpr (kTmaStores) {
      if (threadIdx.x % 32 == 0) bulk_wait_read<kPending>();
    }
  }

  // Stores a subtile as one box of the output's map: columns and rows, the contiguous ones first,
  // then the dimensions along which the output has a stride, innermost first. TMA does not store
  // past the tensor's end.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void tma_store_box(const P& params, u32 from, const Coord& coord, u32 m,
                                            u32 n) {
    constexpr int kRank = [] {
      int rank = 2;
      for (int d = 0; d < kMaxDims - 2; ++d) rank += kOutput.stride.at[d] != 0 ? 1 : 0;
      return rank;
    }();
    i32 map_coord[kRank] = {static_cast<i32>(kMMajor ? m : n), static_cast<i32>(kMMajor ? n : m)};
    int next = 2;
#pragma unroll
    for (int d = kMaxDims - 3; d >= 0; --d) {
      if (kOutput.stride.at[d] != 0) map_coord[next++] = static_cast<i32>(coord.dim[d]);
    }
    tma_store(params.map[kOutput.map], map_coord, from,
              kOutput.streamed ? kEvictFirst : kEvictNormal);
  }

  // The TMA stores since the last call are a bulk group, empty where there are none.
  static CATENARY_DEVICE void commit_tma_stores() {
    if (threadIdx.x % 32 == 0) bulk_commit();
  }

  // Stores 16-bit results through the staging buffer at offset `buffer`: that of the TMA store
  // before the last one. A store by rows leaves the buffer free, so `buffer` does not change.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_subtile(const P& params, u32 staging, u32& buffer,
                                            const Coord& coord, const Words& word, u32 m, u32 m_end,
                                            u32 n, u32 n_end) {
    constexpr bool kHasMap = kOutput.map >= 0;
    wait_tma_stores<1>();
    // Only this warp uses the staging buffers: the warp's barrier orders their reuse.
    warp_barrier();
    stage_words(staging + buffer, word);
    if (kHasMap && (kAllFull || (m + 16 <= m_end && n + kSubtileN <= n_end))) {
      // The TMA store reads through the async proxy: each lane fences its own writes.
      fence_proxy_async_shared();
      warp_barrier();
      if constexpr (kHasMap) {
        if (threadIdx.x % 32 == 0) tma_store_box<kOutput>(params, staging + buffer, coord, m, n);
        commit_tma_stores();
      }
      buffer = kSubtileBytes - buffer;
    } else if constexpr (!kHasMap || !kAllFull) {
      SubtileRows rows;
      warp_barrier();
      read_rows(staging + buffer, rows);
      store_rows<kOutput>(params, rows, coord, m, m_end, n, n_end);
    }
  }

  // Stores the subtile that is staged in the warp's, or the warpgroup's, buffer at `from`.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_staged(const P& params, u32 from, const Coord& coord, u32 m,
                                           u32 m_end, u32 n, u32 n_end) {
    constexpr bool kHasMap = kOutput.map >= 0;
    const u32 warp = threadIdx.x / 32 % 4;
    const u32 part = from + (kMMajor ? warp * kPartColumns * 128 : 0);
    const u32 row = kMMajor ? m - 16 * warp : m;
    const u32 column = kMMajor ? n + warp * kPartColumns : n;
    const u32 columns = kMMajor ? kPartColumns : kSubtileN;
    if (kHasMap && (kAllFull || ((kMMajor || m + 16 <= m_end) && column + columns <= n_end))) {
      if constexpr (kHasMap) {
        if (threadIdx.x % 32 == 0) tma_store_box<kOutput>(params, part, coord, row, column);
      }
    } else if constexpr (kMMajor && (!kHasMap || !kAllFull)) {
      store_columns<kOutput>(params, part, coord, row, m_end, column, n_end);
    } else if constexpr (!kHasMap || !kAllFull) {
      SubtileRows rows;
      read_rows(part, rows);
      store_rows<kOutput>(params, rows, coord, m, m_end, n, n_end);
    }
  }

  // The first row and column of a subtile.
  struct Place {
    u32 m, n;
  };

  // Stages subtile number `subtile`; the second of a pair, or the last one of a tile, has the pair
  // stored. A pair is one bulk group, even where subtiles of it are stored by rows. So at most one
  // group, that of the other buffers, may still be read. place_of(i): where subtile i is.
  template <class P, class PlaceOf>
  static CATENARY_DEVICE void store_in_pairs(const P& params, u32 staging, u32& buffer,
                                             const Coord& coord, const Words& word, u32 subtile,
                                             bool last, PlaceOf place_of, u32 m_end, u32 n_end) {
    constexpr Operand kOutput = Epilogue::kOutputs[0];
    const u32 base = kMMajor ? warpgroup_staging(staging) + 4 * buffer : staging + buffer;
    constexpr u32 kBytes = kMMajor ? 4 * kSubtileBytes : kSubtileBytes;
    const bool second = subtile % 2 != 0;
    if (!kMMajor && !second) {
      wait_tma_stores<1>();
      warp_barrier();
    }
    stage_words(base + (second ? kBytes : 0), word);
    if (!second && !last) return;
    fence_proxy_async_shared();
    if constexpr (kMMajor) {
      wait_tma_stores<0>();
      warpgroup_barrier();
    } else {
      warp_barrier();
    }
    const Place first = place_of(subtile & ~1u);
    store_staged<kOutput>(params, base, coord, first.m, m_end, first.n, n_end);
    if (second) {
      const Place at = place_of(subtile);
      store_staged<kOutput>(params, base + kBytes, coord, at.m, m_end, at.n, n_end);
    }
    commit_tma_stores();
    buffer = 2 * kSubtileBytes - buffer;
  }

  // All four warps: 128 arrivals.
  static CATENARY_DEVICE void warpgroup_barrier() {
    const u32 warpgroup = threadIdx.x / 128;
    if (warpgroup == 1) {
      named_barrier_sync<1>(128);
    } else if (warpgroup == 2) {
      named_barrier_sync<2>(128);
    } else {
      named_barrier_sync<3>(128);
    }
  }

  static CATENARY_DEVICE u32 warpgroup_staging(u32 staging) {
    return staging - threadIdx.x / 32 % 4 * kConfig.staging_bytes;
  }

  // Where this warp's staging has the buffers of MatrixOperands: after those of the results.
  static CATENARY_DEVICE u32 matrix_buffers(u32 staging) {
    if constexpr (!kMMajor) return staging + 2 * kSubtileBytes;
    return warpgroup_staging(staging) + 8 * kSubtileBytes +
           threadIdx.x / 32 % 4 * (kConfig.staging_bytes - 2 * kSubtileBytes);
  }

  // Before a tile's first subtile: no store reads the staging any more.
  static CATENARY_DEVICE void begin_tile() {
    wait_tma_stores<0>();
    if constexpr (kMMajor) warpgroup_barrier();
  }

  // The store_subtile() of an output that is contiguous along M.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_m_major(const P& params, u32 staging, u32& buffer,
                                            const Coord& coord, const Words& word, u32 m, u32 m_end,
                                            u32 n, u32 n_end) {
    constexpr bool kHasMap = kOutput.map >= 0;
    const u32 to = warpgroup_staging(staging) + 4 * buffer;
    stage_words(to, word);
    if constexpr (kHasMap) fence_proxy_async_shared();
    wait_tma_stores<0>();
    warpgroup_barrier();
    store_staged<kOutput>(params, to, coord, m, m_end, n, n_end);
    if constexpr (kHasMap) commit_tma_stores();
    buffer = kSubtileBytes - buffer;
  }

  // Stores f32 results from registers: four lanes fill a sector.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_pairs(const P& params, Coord coord, const Words& word, u32 m,
                                          u32 m_end, u32 n, u32 n_end) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 g = 0; g < kChunks; ++g) {
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        const u32 row = m + lane / 4 + 8 * half;
        const u32 column = n + 8 * g + lane % 4 * 2;
        coord.dim[kMaxDims - 2] = row;
        coord.dim[kMaxDims - 1] = column;
        u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + element_offset<kOutput>(coord) * 4;
        if (row < m_end && column < n_end) store_words<2, false>(p, word[g][half]);
      }
    }
  }

  // The same of an output that is contiguous along M: eight lanes fill a sector.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_each(const P& params, Coord coord, const Words& word, u32 m,
                                         u32 m_end, u32 n, u32 n_end) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 i = 0; i < 4 * kChunks; ++i) {
      const u32 half = i / 2 % 2;
      const u32 row = m + lane / 4 + 8 * half;
      const u32 column = n + 8 * (i / 4) + lane % 4 * 2 + i % 2;
      coord.dim[kMaxDims - 2] = row;
      coord.dim[kMaxDims - 1] = column;
      u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + element_offset<kOutput>(coord) * 4;
      if (row < m_end && column < n_end) store_words<1, false>(p, &word[i / 4][half][i % 2]);
    }
  }

  // Columns 2t and 2t + 1 of four groups of 8 columns, in lane t of the four lanes of a row, become
  // the 8 columns of group t: a transposition of pairs of fp8 elements.
  static CATENARY_DEVICE void gather_columns(const u32 (&pair)[4], u32 (&word)[2]) {
    const u32 lane = threadIdx.x % 4;
    const u32 low_groups = pair[0] | pair[1] << 16;
    const u32 high_groups = pair[2] | pair[3] << 16;
    // Lanes 0 and 1 take groups 0 and 1, lanes 2 and 3 the others; `first` is of lanes 0 or 1.
    const bool low = lane < 2;
    const u32 other = shuffle_xor(low ? high_groups : low_groups, 2);
    const u32 first = low ? low_groups : other;
    const u32 last = low ? other : high_groups;
    // Even lanes take the even group of the two. A word has two lanes' pairs of one group.
    const u32 even_group = (first & 0xffffu) | last << 16;
    const u32 odd_group = first >> 16 | (last & 0xffff0000u);
    const bool even = lane % 2 == 0;
    const u32 received = shuffle_xor(even ? odd_group : even_group, 1);
    const u32 even_lanes = even ? even_group : received;
    const u32 odd_lanes = even ? received : odd_group;
    word[0] = (even_lanes & 0xffffu) | odd_lanes << 16;
    word[1] = even_lanes >> 16 | (odd_lanes & 0xffff0000u);
  }

  // Are an output's fp8 results staged? Every column tile then begins at a multiple of 16 bytes.
  static constexpr bool stages_fp8(const Operand& output) {
    return output.vec >= 16 && kConfig.block_n % 16 == 0;
  }

  // 16 columns of a row of fp8 results, in the staging of a warp: rows of 64 or 32 bytes.
  static CATENARY_DEVICE u32 fp8_chunk(u32 staging, u32 row, u32 chunk) {
    if constexpr (kChunks == 8) {
      return subtile_chunk<4>(staging, row, chunk);
    } else {
      return subtile_column_chunk(staging, row, chunk);
    }
  }

  // Stores fp8 results through the staging buffer at offset `buffer`, which is free again after it.
  // stmatrix takes two pairs, of chunks g and g + 1, as the two 16-bit elements of a lane: in a
  // staged row, the pairs of both chunks alternate.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_staged_fp8(const P& params, u32 staging, Coord coord,
                                               const Words& result, u32 m, u32 m_end, u32 n,
                                               u32 n_end) {
    const u32 lane = threadIdx.x % 32;
    const auto pairs = [&](u32 g, u32 half) {
      return result[g][half][0] | result[g + 1][half][0] << 16;
    };
    wait_tma_stores<1>();
    // All lanes have read the last subtile.
    warp_barrier();
#pragma unroll
    for (u32 g = 0; g < kChunks; g += 4) {
      stmatrix_x4(fp8_chunk(staging, lane % 16, g / 2 + lane / 16),
                  {pairs(g, 0), pairs(g, 1), pairs(g + 2, 0), pairs(g + 2, 1)});
    }
    warp_barrier();
    constexpr u32 kRowChunks = kChunks / 2;
    const u32 column = n + lane % kRowChunks * 16;
    coord.dim[kMaxDims - 1] = column;
#pragma unroll
    for (u32 pass = 0; pass < kRowChunks / 2; ++pass) {
      const u32 in_subtile = pass * (32 / kRowChunks) + lane / kRowChunks;
      const U32x4 w = ld_shared_v4(fp8_chunk(staging, in_subtile, lane % kRowChunks));
      const u32 word[4] = {(w.x & 0xffffu) | w.y << 16, (w.z & 0xffffu) | w.w << 16,
                           w.x >> 16 | (w.y & 0xffff0000u), w.z >> 16 | (w.w & 0xffff0000u)};
      coord.dim[kMaxDims - 2] = m + in_subtile;
      u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + element_offset<kOutput>(coord);
      const bool in_row = m + in_subtile < m_end;
      if (in_row && column + 16 <= n_end) store_words<4, false>(p, word);
      if constexpr (!kConfig.whole_subtiles_n) {
        const u32 first[2] = {word[0], word[1]};
        if (in_row && column + 8 == n_end) store_words<2, false>(p, first);
      }
    }
  }

  // Stores fp8 results from registers: four lanes fill a sector with 32 columns of a row.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void store_fp8(const P& params, Coord coord, const Words& result, u32 m,
                                        u32 m_end, u32 n, u32 n_end) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 g = 0; g < kChunks; g += 4) {
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        const u32 pair[4] = {result[g][half][0], result[g + 1][half][0], result[g + 2][half][0],
                             result[g + 3][half][0]};
        u32 word[2];
        gather_columns(pair, word);
        const u32 row = m + lane / 4 + 8 * half;
        const u32 column = n + 8 * (g + lane % 4);
        coord.dim[kMaxDims - 2] = row;
        coord.dim[kMaxDims - 1] = column;
        u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + element_offset<kOutput>(coord);
        if (row < m_end && column < n_end) store_words<2, false>(p, word);
      }
    }
  }

  // Stores the outputs of a subtile, from kOutput on.
  template <int kOutput, class P>
  static CATENARY_DEVICE void store_outputs(const P& params, u32 staging, u32& buffer,
                                            const Coord& coord, const Results& result, u32 m,
                                            u32 m_end, u32 n, u32 n_end) {
    if constexpr (kOutput < kOutputs) {
      constexpr Operand kOperand = Epilogue::kOutputs[kOutput];
      if constexpr (kOperand.rows != 1) {
        store_column_sums<kOperand, kChunks>(params, coord, result[kOutput], m, m_end, n, n_end);
      } else if constexpr (kOperand.dtype == DType::kF32 && is_m_major(kOperand)) {
        store_each<kOperand>(params, coord, result[kOutput], m, m_end, n, n_end);
      } else if constexpr (kOperand.dtype == DType::kF32) {
        store_pairs<kOperand>(params, coord, result[kOutput], m, m_end, n, n_end);
      } else if constexpr (is_fp8(kOperand.dtype) && stages_fp8(kOperand)) {
        store_staged_fp8<kOperand>(params, staging + buffer, coord, result[kOutput], m, m_end, n,
                                   n_end);
      } else if constexpr (is_fp8(kOperand.dtype)) {
        store_fp8<kOperand>(params, coord, result[kOutput], m, m_end, n, n_end);
      } else if constexpr (kMMajor) {
        store_m_major<kOperand>(params, staging, buffer, coord, result[kOutput], m, m_end, n,
                                n_end);
      } else {
        store_subtile<kOperand>(params, staging, buffer, coord, result[kOutput], m, m_end, n,
                                n_end);
      }
      store_outputs<kOutput + 1>(params, staging, buffer, coord, result, m, m_end, n, n_end);
    }
  }
};

}  // namespace catenary
