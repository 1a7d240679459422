// SPDX-License-Identifier: Apache-2.0
// The register epilogue: the elementwise program runs on wgmma accumulators in their registers. A
// thread has pairs of adjacent columns (ptx/wgmma.cuh), so vectors are two wide. How results are
// stored: epilogue/subtile_stores.cuh.
//
//   subtile   16 rows of one 64-row fragment, 64 or 32 columns. Its accumulators are copied to
//             registers of their own, so that one loop body handles all subtiles.
//   staging   the buffers of SubtileStores, then those of MatrixOperands
//
// Column operands are loaded once for all rows: for the whole tile before the mainloop, or one
// subtile ahead. Row operands are loaded once for all columns of a subtile. Their coordinates are
// clamped to the matrix: only stores need a guard. For operands that vary along both M and N see
// epilogue/matrix_operands.cuh.
#pragma once

#include "epilogue/config.cuh"
#include "epilogue/matrix_operands.cuh"
#include "epilogue/operand.cuh"
#include "epilogue/row_reductions.cuh"
#include "epilogue/subtile_stores.cuh"
#include "epilogue/vec.cuh"
#include "ptx/convert.cuh"
#include "ptx/sync.cuh"
#include "ptx/wgmma.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// Copies the accumulators of one subtile. Register indices are constants. Columns past the tile are
// zeros. One branch is taken on every path: registers that a path leaves undefined would be live
// from the kernel's start, beside those of the mainloop.
template <bool kConstant, u32 kFrom = 0, int kAccumulators, int kFragments, int kRegisters,
          int kSums, int kSubtileRegisters>
CATENARY_DEVICE void copy_subtile(float (&out)[kSums][kSubtileRegisters],
                                  const float (&d)[kFragments][kAccumulators][kRegisters],
                                  u32 subtile) {
  constexpr u32 kSubtiles = (kRegisters + kSubtileRegisters - 1) / kSubtileRegisters;
  if constexpr (kFrom + 1 < kFragments * kSubtiles) {
    if (subtile != kFrom) return copy_subtile<kConstant, kFrom + 1>(out, d, subtile);
  }
#pragma unroll
  for (u32 s = 0; s < kSums; ++s) {
#pragma unroll
    for (u32 r = 0; r < kSubtileRegisters; ++r) {
      const u32 from = kFrom % kSubtiles * kSubtileRegisters + r;
      out[s][r] = from < kRegisters ? d[kFrom / kSubtiles][s][from < kRegisters ? from : 0] : 0.0f;
    }
    // If `subtile` is not a constant, this keeps a branch with one move per register. Selects
    // between all subtiles would be as many instructions as the rest of the epilogue.
    if constexpr (!kConstant) wgmma_pin(out[s]);
  }
}

// Puts values in the place of accumulators 0 of a subtile, which is a constant.
template <int kAccumulators, int kFragments, int kRegisters, int kSubtileRegisters>
CATENARY_DEVICE void replace_subtile(float (&d)[kFragments][kAccumulators][kRegisters],
                                     const float (&from)[kSubtileRegisters], u32 subtile) {
  constexpr u32 kSubtiles = (kRegisters + kSubtileRegisters - 1) / kSubtileRegisters;
#pragma unroll
  for (u32 r = 0; r < kSubtileRegisters; ++r) {
    const u32 to = subtile % kSubtiles * kSubtileRegisters + r;
    if (to < kRegisters) d[subtile / kSubtiles][0][to] = from[r];
  }
}

template <const EpilogueConfig& kConfig, class Epilogue>
struct RegisterEpilogue {
  static constexpr int kOutputs = Epilogue::kOutputCount;
  static constexpr int kAccumulators = kConfig.num_accumulators;
  static constexpr int kSubtileN = kConfig.subtile_n;
  static constexpr u32 kChunks = kSubtileN / 8;  // 16 bytes of 16-bit results each
  static constexpr u32 kSubtiles = (kConfig.block_n + kSubtileN - 1) / kSubtileN;  // in a fragment

  // No subtile ends past N: the addresses of column operands need no clamp, and become one base
  // address.
  static constexpr bool kWholeSubtiles = kConfig.whole_subtiles_n;
  using Matrices = MatrixOperands<kConfig, Epilogue>;
  using Stores = SubtileStores<kConfig, Epilogue>;
  using Results = typename Stores::Results;
  static constexpr bool kReduces = kConfig.reduced_columns > 1;
  using Reductions = RowReductions<kConfig, Epilogue, kReduces>;
  // Accumulators that the values read.
  static constexpr int kSums = Reductions::kSumsAfter;
  using Numbers = typename Reductions::Numbers;
  template <int kFragments>
  using NumbersOfTile = Numbers[kFragments * Reductions::kBlocks][2];

  // Unrolling saves the copies of accumulators, which are most of a short epilogue. A long epilogue
  // compiles slowly if it is unrolled, so it is only where the mainloop is too short to hide it
  // (RESULTS sm90-7, sm90-148). ptxas moves the loads of operands to its start. Registers of a long
  // one are then too few for operands that vary along both M and N. An empty struct has no words.
  static constexpr u32 kColumnWords = sizeof(typename Epilogue::Columns) / 4;
  static constexpr bool kLoads = kColumnWords > 0 || sizeof(typename Epilogue::Rows) / 4 > 0;
  static constexpr bool kUnrolled =
      Epilogue::kShort ||
      (kConfig.short_mainloop && !Epilogue::kLong && !kConfig.scarce_registers &&
       kConfig.matrices == 0 && !kReduces);
  // Must accumulators be dead once they are read? Their registers are those of values that take
  // their place, or of operands beside more than 160 of them.
  static constexpr bool kFreesAccumulators =
      Reductions::kReplaces || (kUnrolled && kConfig.scarce_registers && kLoads);

  // The operands that vary along N are prefetched for the whole tile, or for one subtile where that
  // takes too many registers. Row reductions have loaded them into L1 when the epilogue reads them.
  static constexpr bool kPrefetchTile =
      !kReduces &&
      kConfig.accumulator_registers + kColumnWords * kSubtiles * kChunks <= kConfig.max_registers;
  using Prefetched = typename Epilogue::Columns[kPrefetchTile ? kSubtiles : 1][kChunks];
  using SubtileColumns = typename Epilogue::Columns[kChunks];

  template <class P>
  static CATENARY_DEVICE void load_columns(const P& params, Coord coord, u32 n, u32 n_end,
                                           SubtileColumns& columns) {
#pragma unroll
    for (u32 g = 0; g < kChunks; ++g) {
      const u32 column = n + 8 * g + threadIdx.x % 4 * 2;
      if constexpr (kConfig.odd_n) {
        coord.dim[kMaxDims - 1] = column < n_end ? column : n_end - 1;
        coord.valid = column + 1 < n_end ? 2 : 1;
      } else {
        coord.dim[kMaxDims - 1] = kWholeSubtiles || column < n_end ? column : n_end - 2;
      }
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
                                      const float (&d)[kSums][kSubtileN / 2],
                                      const SubtileColumns& columns, const Numbers (&numbers)[2],
                                      u32 matrices, u32 subtile, u32 m, u32 m_end,
                                      Results& result) {
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
        if constexpr (kSums == 1) {
          Reductions::values(params, columns[chunk], rows[half], pair, numbers[half], out, first);
        } else {
          const Vec<2> second = {d[1][r], d[1][r + 1]};
          Reductions::values(params, columns[chunk], rows[half], pair, numbers[half], out, first,
                             second);
        }
        keep_results<0>(out, chunk, half, result);
      }
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
    Matrices::request(params, Stores::matrix_buffers(staging), subtile, coord, m,
                      static_cast<u32>(work.m_end), n0, column_end(work, n));
  }

  // Loads the columns of the tile, before the mainloop; or those of its first subtile, while the
  // last MMAs run.
  template <class P>
  static CATENARY_DEVICE void prefetch(const P& params, const WorkTile& work, i64, i64 n,
                                       Prefetched& prefetched) {
    if constexpr (kReduces) return;
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
  // whole tile, loads the columns of the next subtile; after row reductions, those of this one.
  template <class P>
  static CATENARY_DEVICE void subtile_columns(const P& params, const Coord& coord, u32 n0,
                                              u32 n_end, u32 subtile, Prefetched& prefetched,
                                              SubtileColumns& columns) {
    if constexpr (kReduces) {
      load_columns(params, coord, n0 + subtile % kSubtiles * kSubtileN, n_end, columns);
      return;
    }
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
  static CATENARY_DEVICE void finish() { Stores::template wait_tma_stores<0>(); }

  // The numbers of this warp's rows for each block of the tile. Accumulators are read, and replaced
  // by what a pass keeps, where they are: copies would take registers beside those of the mainloop.
  template <class P, int kFragments, int kRegisters>
  static CATENARY_DEVICE void reduce_rows(const P& params, const Coord& coord,
                                          float (&d)[kFragments][kAccumulators][kRegisters],
                                          u32 m_warp, u32 m_end, u32 n0, u32 n_end,
                                          NumbersOfTile<kFragments>& numbers) {
#pragma unroll
    for (u32 block = 0; block < kFragments * Reductions::kBlocks; ++block) {
      const u32 m = m_warp + block / Reductions::kBlocks * 64;
      const u32 subtile = block * Reductions::kBlockSubtiles;
      const u32 n = n0 + subtile % kSubtiles * kSubtileN;
      typename Epilogue::Rows rows[2];
      load_rows(params, coord, m, m_end, rows);
      const auto load = [&](u32 i, SubtileColumns& columns, auto& accumulators) {
        load_columns(params, coord, n + i * kSubtileN, n_end, columns);
        copy_subtile<true>(accumulators, d, subtile + i);
      };
      const auto keep = [&](u32 i, const auto& kept) { replace_subtile(d, kept, subtile + i); };
      Reductions::template run<0>(params, rows, n, n_end, load, keep, numbers[block]);
      Reductions::store(params, coord, m, m_end, n, n_end, numbers[block]);
    }
  }

  // Computes and stores this warp's rows of the tile, which begin at `m_warp` in fragment 0.
  template <class P, int kFragments, int kRegisters>
  static CATENARY_DEVICE void run(const P& params, u32 staging, const WorkTile& work, i64 m_warp,
                                  i64 n, float (&d)[kFragments][kAccumulators][kRegisters],
                                  Prefetched& prefetched) {
    const u32 n0 = static_cast<u32>(work.n0);
    const u32 n_end = column_end(work, n);
    const u32 m_end = static_cast<u32>(work.m_end);
    const Coord coord = coordinates(work);
    constexpr int kUnroll = kUnrolled ? static_cast<int>(kFragments * kSubtiles) : 1;
    Stores::begin_tile();
    u32 buffer = 0;
    NumbersOfTile<kFragments> of_tile;
    if constexpr (kReduces)
      reduce_rows(params, coord, d, static_cast<u32>(m_warp), m_end, n0, n_end, of_tile);
#pragma unroll kUnroll
    for (u32 subtile = 0; subtile < kFragments * kSubtiles; ++subtile) {
      Numbers numbers[2];
      Reductions::take(of_tile, subtile, numbers);
      SubtileColumns columns;
      subtile_columns(params, coord, n0, n_end, subtile, prefetched, columns);
      float accumulators[kSums][kSubtileN / 2];
      copy_subtile<kUnrolled>(accumulators, d, subtile);
      const u32 m = static_cast<u32>(m_warp) + subtile / kSubtiles * 64;
      const u32 matrices = Stores::matrix_buffers(staging);
      Matrices::wait();
      Results result;
      compute(params, coord, accumulators, columns, numbers, matrices, subtile, m, m_end, result);
      if constexpr (Matrices::kCount > 0) {
        warp_barrier();  // all lanes have read the buffer
        request_subtile<kFragments>(params, staging, coord, work, m_warp, n, subtile + 2);
      }
      if constexpr (Stores::kPairs) {
        const auto place_of = [&](u32 i) -> typename Stores::Place {
          return {static_cast<u32>(m_warp) + i / kSubtiles * 64, n0 + i % kSubtiles * kSubtileN};
        };
        Stores::store_in_pairs(params, staging, buffer, coord, result[0], subtile,
                               subtile + 1 == kFragments * kSubtiles, place_of, m_end, n_end);
      } else {
        Stores::template store_outputs<0>(params, staging, buffer, coord, result, m, m_end,
                                          n0 + subtile % kSubtiles * kSubtileN, n_end);
      }
    }
  }
};

}  // namespace catenary
