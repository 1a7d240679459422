// SPDX-License-Identifier: Apache-2.0
// The register epilogue: the elementwise program runs on wgmma accumulators in their registers. A
// thread has pairs of adjacent columns (ptx/wgmma.cuh), so vectors are two wide. 16-bit results go
// through the warp's staging buffers: a TMA store writes a whole subtile as a box; a partial one,
// or an output without a tensor map, is stored by rows. f32 and fp8 results fill whole sectors from
// registers.
//
//   subtile   16 rows of one 64-row fragment, 64 or 32 columns. Its accumulators are copied to
//             registers of their own, so that one loop body handles all subtiles.
//   staging   two buffers, each one subtile of 16-bit results in chunks as subtile_chunk places
//             them; then the buffers of MatrixOperands
//
// TMA stores alternate between the buffers. Lane 0 issues each store as a bulk group of its own;
// before a buffer is written again it waits until only the other buffer's store may still read.
//
// Column operands are loaded once for all rows: for the whole tile before the mainloop, or one
// subtile ahead. Row operands are loaded once for all columns of a subtile. Their coordinates are
// clamped to the matrix: only stores need a guard. For operands that vary along both M and N see
// epilogue/matrix_operands.cuh.
#pragma once

#include "epilogue/column_sums.cuh"
#include "epilogue/config.cuh"
#include "epilogue/matrix_operands.cuh"
#include "epilogue/operand.cuh"
#include "epilogue/staging.cuh"
#include "epilogue/vec.cuh"
#include "ptx/atomic.cuh"
#include "ptx/bulk.cuh"
#include "ptx/convert.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// Copies the accumulators of one subtile. Register indices are constants. Columns past the tile are
// zeros.
template <bool kConstant, int kAccumulators, int kFragments, int kRegisters, int kSubtileRegisters>
CATENARY_DEVICE void copy_subtile(float (&out)[kAccumulators][kSubtileRegisters],
                                  const float (&d)[kAccumulators][kFragments][kRegisters],
                                  u32 subtile) {
  constexpr u32 kSubtiles = (kRegisters + kSubtileRegisters - 1) / kSubtileRegisters;
#pragma unroll
  for (u32 i = 0; i < kFragments * kSubtiles; ++i) {
    if (i != subtile) continue;
#pragma unroll
    for (u32 s = 0; s < kAccumulators; ++s) {
#pragma unroll
      for (u32 r = 0; r < kSubtileRegisters; ++r) {
        const u32 from = i % kSubtiles * kSubtileRegisters + r;
        out[s][r] = from < kRegisters ? d[s][i / kSubtiles][from < kRegisters ? from : 0] : 0.0f;
      }
      // If `subtile` is not a constant, this keeps a branch with one move per register. Selects
      // between all subtiles would be as many instructions as the rest of the epilogue.
      if constexpr (!kConstant) wgmma_pin(out[s]);
    }
  }
}

template <const EpilogueConfig& kConfig, class Epilogue>
struct RegisterEpilogue {
  static constexpr int kOutputs = Epilogue::kOutputCount;
  static constexpr int kAccumulators = kConfig.num_accumulators;
  static constexpr int kSubtileN = kConfig.subtile_n;
  static constexpr u32 kChunks = kSubtileN / 8;  // 16 bytes of 16-bit results each
  static constexpr u32 kSubtiles = (kConfig.block_n + kSubtileN - 1) / kSubtileN;  // in a fragment

  // No subtile ends past the tile, or past the rows of an M group.
  static constexpr bool kAllFull = !kConfig.m_grouped && kConfig.block_n % kSubtileN == 0;
  // No subtile ends past N: the addresses of column operands need no clamp, and become one base
  // address.
  static constexpr bool kWholeSubtiles = kConfig.whole_subtiles_n;
  static constexpr u32 kSubtileBytes = 16 * kSubtileN * 2;
  using Matrices = MatrixOperands<kConfig, Epilogue>;

  static constexpr bool any_tma_store() {
    bool any = false;
    for (const Operand& output : Epilogue::kOutputs) any = any || output.map >= 0;
    return any;
  }
  static constexpr bool kTmaStores = any_tma_store();

  // Unrolling saves the copies of accumulators, which are most of a short epilogue. A long epilogue
  // compiles slowly if it is unrolled, so it is only where the mainloop is too short to hide it
  // (RESULTS sm90-7). With more than 128 accumulators no registers are left for loads that ptxas
  // hoists.
  static constexpr bool kUnrolled =
      (Epilogue::kShort || kConfig.short_mainloop) && kConfig.subtile_n * kAccumulators == 64;

  // The results of a subtile as stored: a pair of columns is one word of 16-bit elements, half a
  // word of fp8, or two words.
  using Results = u32[kOutputs][kChunks][2][2];

  // The operands that vary along N are prefetched for the whole tile, or for one subtile where that
  // takes too many registers. An empty struct has no words.
  static constexpr u32 kColumnWords = sizeof(typename Epilogue::Columns) / 4;
  static constexpr bool kPrefetchTile =
      kConfig.accumulator_registers + kColumnWords * kSubtiles * kChunks <= kConfig.max_registers;
  using Prefetched = typename Epilogue::Columns[kPrefetchTile ? kSubtiles : 1][kChunks];
  using SubtileColumns = typename Epilogue::Columns[kChunks];

  // The words of one output: [8 columns][row g, row g + 8][words of a pair].
  using Words = u32[kChunks][2][2];

  // The 16-byte chunks that a lane has of a subtile stored by rows.
  static constexpr u32 kRowsPerPass = 32 / kChunks;
  static constexpr u32 kPasses = 16 / kRowsPerPass;
  using SubtileRows = U32x4[kPasses];

  static CATENARY_DEVICE void stage_words(u32 staging, const Words& word) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 g = 0; g < kChunks; g += 2) {
      // Lane l addresses row l % 8 of matrix l / 8: rows 0-7 and 8-15 of chunk g, then of g + 1.
      const u32 to = subtile_chunk<kChunks>(staging, lane % 16, g + lane / 16);
      stmatrix_x4(to, {word[g][0][0], word[g][1][0], word[g + 1][0][0], word[g + 1][1][0]});
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

  // Waits until at most kPending TMA stores still read their buffers. Bulk groups belong to the
  // thread that issued the stores, lane 0.
  template <int kPending>
  static CATENARY_DEVICE void wait_tma_stores() {
    if constexpr (kTmaStores) {
      if (threadIdx.x % 32 == 0) bulk_wait_read<kPending>();
    }
  }

  // Stores a subtile as one box of the output's map: columns, rows, then the dimensions along which
  // the output has a stride, innermost first. TMA does not store past the tensor's end.
  template <Operand kOutput, class P>
  static CATENARY_DEVICE void tma_store_box(const P& params, u32 from, const Coord& coord, u32 m,
                                            u32 n) {
    constexpr int kRank = [] {
      int rank = 2;
      for (int d = 0; d < kMaxDims - 2; ++d) rank += kOutput.stride.at[d] != 0 ? 1 : 0;
      return rank;
    }();
    i32 map_coord[kRank] = {static_cast<i32>(n), static_cast<i32>(m)};
    int next = 2;
#pragma unroll
    for (int d = kMaxDims - 3; d >= 0; --d) {
      if (kOutput.stride.at[d] != 0) map_coord[next++] = static_cast<i32>(coord.dim[d]);
    }
    tma_store(params.map[kOutput.map], map_coord, from,
              kOutput.streamed ? kEvictFirst : kEvictNormal);
    bulk_commit();
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
      }
      buffer = kSubtileBytes - buffer;
    } else if constexpr (!kHasMap || !kAllFull) {
      SubtileRows rows;
      warp_barrier();
      read_rows(staging + buffer, rows);
      store_rows<kOutput>(params, rows, coord, m, m_end, n, n_end);
    }
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

  template <class P>
  static CATENARY_DEVICE void load_columns(const P& params, Coord coord, u32 n, u32 n_end,
                                           SubtileColumns& columns) {
#pragma unroll
    for (u32 g = 0; g < kChunks; ++g) {
      const u32 column = n + 8 * g + threadIdx.x % 4 * 2;
      coord.dim[kMaxDims - 1] = kWholeSubtiles || column < n_end ? column : n_end - 2;
      Epilogue::load_columns(params, coord, columns[g]);
    }
  }

  template <class P>
  static CATENARY_DEVICE void load_rows(const P& params, Coord coord, u32 m, u32 m_end,
                                        typename Epilogue::Rows (&rows)[2]) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      const u32 row = m + threadIdx.x % 32 / 4 + 8 * half;
      coord.dim[kMaxDims - 2] = row < m_end ? row : m_end - 1;
      Epilogue::load_rows(params, coord, rows[half]);
    }
  }

  // Converts results at once: a pair of 16-bit results takes one register, its values take two.
  template <int kOutput>
  static CATENARY_DEVICE void keep_results(const Vec<2> (&out)[kOutputs], u32 g, u32 half,
                                           Results& result) {
    if constexpr (kOutput < kOutputs) {
      constexpr DType kDType = Epilogue::kOutputs[kOutput].dtype;
      const Vec<2>& v = out[kOutput];
      if constexpr (kDType == DType::kF32) {
        result[kOutput][g][half][0] = f32_to_bits(v.v[0]);
        result[kOutput][g][half][1] = f32_to_bits(v.v[1]);
      } else if constexpr (is_fp8(kDType)) {
        result[kOutput][g][half][0] = narrow_8bit<kDType>(v.v[0], v.v[1]);
      } else {
        result[kOutput][g][half][0] = pack<kDType>(v.v[0], v.v[1]);
      }
      keep_results<kOutput + 1>(out, g, half, result);
    }
  }

  // Computes the results of subtile number `subtile`, whose rows begin at m. `matrices`: the
  // buffers of its matrix operands.
  template <class P>
  static CATENARY_DEVICE void compute(const P& params, const Coord& coord,
                                      const float (&d)[kAccumulators][kSubtileN / 2],
                                      const SubtileColumns& columns, u32 matrices, u32 subtile,
                                      u32 m, u32 m_end, Results& result) {
    typename Epilogue::Rows rows[2];
    load_rows(params, coord, m, m_end, rows);
#pragma unroll
    for (u32 g = 0; g < kChunks; g += 2) {
      typename Matrices::Chunks chunks;
      Matrices::read(matrices, subtile, g, chunks);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        const u32 chunk = g + i / 2, half = i % 2;
        const u32 r = 4 * chunk + 2 * half;
        Vec<2> out[kOutputs];
        const Vec<2> first = {d[0][r], d[0][r + 1]};
        const auto pair = chunks.pair(i / 2, half);
        if constexpr (kAccumulators == 1) {
          Epilogue::values(params, columns[chunk], rows[half], pair, first, out);
        } else {
          Epilogue::values(params, columns[chunk], rows[half], pair, first, {d[1][r], d[1][r + 1]},
                           out);
        }
        keep_results<0>(out, chunk, half, result);
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
      } else if constexpr (kOperand.dtype == DType::kF32) {
        store_pairs<kOperand>(params, coord, result[kOutput], m, m_end, n, n_end);
      } else if constexpr (is_fp8(kOperand.dtype)) {
        store_fp8<kOperand>(params, coord, result[kOutput], m, m_end, n, n_end);
      } else {
        store_subtile<kOperand>(params, staging, buffer, coord, result[kOutput], m, m_end, n,
                                n_end);
      }
      store_outputs<kOutput + 1>(params, staging, buffer, coord, result, m, m_end, n, n_end);
    }
  }

  static CATENARY_DEVICE u32 column_end(const WorkTile& work, i64 n) {
    return static_cast<u32>(n - work.n0 < kConfig.block_n ? n : work.n0 + kConfig.block_n);
  }

  static CATENARY_DEVICE Coord coordinates(const WorkTile& work) {
    Coord coord;
#pragma unroll
    for (int i = 0; i < kMaxDims - 2; ++i) coord.dim[i] = work.batch[i + 2];
    if constexpr (kConfig.split_k > 1) coord.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;
    if constexpr (kConfig.m_grouped) coord.group = row_group(work);
    coord.valid = 2;
    return coord;
  }

  // Before the mainloop: starts the copies of the first two subtiles' matrix operands.
  template <int kFragments, class P>
  static CATENARY_DEVICE void request(const P& params, u32 staging, const WorkTile& work,
                                      i64 m_warp, i64 n) {
    if constexpr (Matrices::kCount > 0) {
      for (u32 subtile = 0; subtile < 2; ++subtile)
        request_subtile<kFragments>(params, staging, coordinates(work), work, m_warp, n, subtile);
    }
  }

  // One group of cp.async, empty past the last subtile.
  template <int kFragments, class P>
  static CATENARY_DEVICE void request_subtile(const P& params, u32 staging, const Coord& coord,
                                              const WorkTile& work, i64 m_warp, i64 n,
                                              u32 subtile) {
    if (subtile >= kFragments * kSubtiles) return cp_async_commit();
    const u32 m = static_cast<u32>(m_warp) + subtile / kSubtiles * 64;
    const u32 n0 = static_cast<u32>(work.n0) + subtile % kSubtiles * kSubtileN;
    Matrices::request(params, staging + 2 * kSubtileBytes, subtile, coord, m,
                      static_cast<u32>(work.m_end), n0, column_end(work, n));
  }

  // Loads the columns of the tile, before the mainloop; or those of its first subtile, while the
  // last MMAs run.
  template <class P>
  static CATENARY_DEVICE void prefetch(const P& params, const WorkTile& work, i64, i64 n,
                                       Prefetched& prefetched) {
    const Coord coord = coordinates(work);
    const u32 n0 = static_cast<u32>(work.n0);
#pragma unroll
    for (u32 i = 0; i < (kPrefetchTile ? kSubtiles : 1); ++i) {
      load_columns(params, coord, n0 + i * kSubtileN, column_end(work, n), prefetched[i]);
    }
  }

  // Copies `from` to `to` if `taken`, word by word: a choice between structs would be one between
  // addresses, which puts them in local memory.
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

  // The columns of a subtile; `subtile` is a constant where subtiles are unrolled. Without the
  // whole tile, loads the columns of the next subtile.
  template <class P>
  static CATENARY_DEVICE void subtile_columns(const P& params, const Coord& coord, u32 n0,
                                              u32 n_end, u32 subtile, Prefetched& prefetched,
                                              SubtileColumns& columns) {
#pragma unroll
    for (u32 g = 0; g < kChunks; ++g) {
      columns[g] = prefetched[0][g];
      if constexpr (kPrefetchTile && kColumnWords > 0) {
#pragma unroll
        for (u32 i = 1; i < kSubtiles; ++i)
          select(columns[g], prefetched[i][g], subtile % kSubtiles == i);
      }
    }
    if constexpr (!kPrefetchTile) {
      load_columns(params, coord, n0 + (subtile + 1) % kSubtiles * kSubtileN, n_end, prefetched[0]);
    }
  }

  // After the last tile: shared memory must stay until the TMA stores have read it.
  static CATENARY_DEVICE void finish() { wait_tma_stores<0>(); }

  // Computes and stores this warp's rows of the tile, which begin at `m_warp` in fragment 0.
  template <class P, int kFragments, int kRegisters>
  static CATENARY_DEVICE void run(const P& params, u32 staging, const WorkTile& work, i64 m_warp,
                                  i64 n, const float (&d)[kAccumulators][kFragments][kRegisters],
                                  Prefetched& prefetched) {
    const u32 n0 = static_cast<u32>(work.n0);
    const u32 n_end = column_end(work, n);
    const u32 m_end = static_cast<u32>(work.m_end);
    const Coord coord = coordinates(work);
    constexpr int kUnroll = kUnrolled ? static_cast<int>(kFragments * kSubtiles) : 1;
    wait_tma_stores<0>();
    u32 buffer = 0;
#pragma unroll kUnroll
    for (u32 subtile = 0; subtile < kFragments * kSubtiles; ++subtile) {
      SubtileColumns columns;
      subtile_columns(params, coord, n0, n_end, subtile, prefetched, columns);
      float accumulators[kAccumulators][kSubtileN / 2];
      copy_subtile<kUnrolled>(accumulators, d, subtile);
      const u32 m = static_cast<u32>(m_warp) + subtile / kSubtiles * 64;
      const u32 matrices = staging + 2 * kSubtileBytes;
      Matrices::wait();
      Results result;
      compute(params, coord, accumulators, columns, matrices, subtile, m, m_end, result);
      if constexpr (Matrices::kCount > 0) {
        warp_barrier();  // all lanes have read the buffer
        request_subtile<kFragments>(params, staging, coord, work, m_warp, n, subtile + 2);
      }
      store_outputs<0>(params, staging, buffer, coord, result, m, m_end,
                       n0 + subtile % kSubtiles * kSubtileN, n_end);
    }
  }
};

}  // namespace catenary
