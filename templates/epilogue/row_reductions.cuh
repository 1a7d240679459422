// SPDX-License-Identifier: Apache-2.0
// Sums and maxima of each row over blocks of a tile's columns, in the register epilogue. The four
// lanes of a quad have a row's columns: lane t has columns 2t and 2t + 1 of every 8. A block is
// whole subtiles, or all columns of D.
//
//   pass p          each subtile of the block: the terms of the pass's reductions, combined by lane
//                   in ascending order; then butterflies over the quad, so that all its lanes have
//                   the results. The last element from which all later lines follow replaces
//                   accumulator 0
//   after pass p    the numbers of each row that follow; terms of later passes may read them
//   after all       the epilogue's values, subtile by subtile; one lane stores the row's numbers
//
// The order of a reduction depends only on the block's columns, not on the tile.
#pragma once

#include "epilogue/config.cuh"
#include "epilogue/reduction.cuh"
#include "epilogue/vec.cuh"
#include "ptx/warp.cuh"

namespace catenary {

// Selects a pass among the overloads of an emitted epilogue.
template <int kPass>
struct Pass {};

// One number of a row and the block whose first column is at `at`.
template <Operand kOutput, class P>
CATENARY_DEVICE void store_number(const P& params, const Coord& at, float number) {
  const i64 offset = element_offset<kOutput>(at) / kOutput.columns;
  u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + offset * dtype_bytes(kOutput.dtype);
  store_element<kOutput.dtype>(p, number);
}

template <const EpilogueConfig& kConfig, class Epilogue, bool kReduces>
struct RowReductions {
  using Numbers = typename Epilogue::Numbers;
  using Columns = typename Epilogue::Columns;
  using Rows = typename Epilogue::Rows;
  static constexpr u32 kSubtileN = kConfig.subtile_n;
  static constexpr u32 kChunks = kSubtileN / 8;
  static constexpr u32 kBlockSubtiles = ceil_div(kConfig.reduced_columns, kConfig.subtile_n);
  // Blocks of columns in a tile.
  static constexpr u32 kBlocks = ceil_div(kConfig.block_n, kConfig.subtile_n) / kBlockSubtiles;
  static constexpr int kReductions = Epilogue::kPassBegin[Epilogue::kPasses];
  // Accumulators that a pass reads: one after a pass that keeps its values.
  static constexpr int sums_of(int pass) {
    for (int i = 0; i < pass; ++i) {
      if (Epilogue::kKeeps[i]) return 1;
    }
    return kConfig.num_accumulators;
  }
  static constexpr int kSumsAfter = sums_of(Epilogue::kPasses);
  static constexpr bool kReplaces = [] {
    for (const bool keeps : Epilogue::kKeeps) {
      if (keeps) return true;
    }
    return false;
  }();

  // Calls f<r>() for the reductions r of a pass.
  template <int kPass, int kOffset = 0, class F>
  static CATENARY_DEVICE void each(F f) {
    constexpr int kReduction = Epilogue::kPassBegin[kPass] + kOffset;
    if constexpr (kReduction < Epilogue::kPassBegin[kPass + 1]) {
      f(Pass<kReduction>{});
      each<kPass, kOffset + 1>(f);
    }
  }
  template <int kReduction>
  using Operator = Reduction<Epilogue::kReductions[kReduction]>;

  // Combines the terms of a pass over one subtile, whose columns begin at n. `d`: as
  // RegisterEpilogue::compute() takes it. A pass that keeps its values replaces d[0] by them.
  template <int kPass, class P, int kSums>
  static CATENARY_DEVICE void add_subtile(const P& params, float (&d)[kSums][kSubtileN / 2],
                                          const Columns (&columns)[kChunks], const Rows (&rows)[2],
                                          const Numbers (&numbers)[2], u32 n, u32 n_end,
                                          float (&reduced)[2][kReductions]) {
#pragma unroll
    for (u32 i = 0; i < 2 * kChunks; ++i) {
      const u32 chunk = i / 2, half = i % 2, r = 2 * i;
      Vec<2> terms[kReductions];
      const Vec<2> first = {d[0][r], d[0][r + 1]};
      const auto form = [&](auto&&... kept) {
        if constexpr (kSums == 1) {
          Epilogue::terms(Pass<kPass>{}, params, columns[chunk], rows[half], numbers[half], first,
                          terms, kept...);
        } else {
          Epilogue::terms(Pass<kPass>{}, params, columns[chunk], rows[half], numbers[half], first,
                          {d[1][r], d[1][r + 1]}, terms, kept...);
        }
      };
      if constexpr (Epilogue::kKeeps[kPass]) {
        Vec<2> kept;
        form(kept);
        d[0][r] = kept.v[0];
        d[0][r + 1] = kept.v[1];
      } else {
        form();
      }
      const u32 column = n + 8 * chunk + threadIdx.x % 4 * 2;
      each<kPass>([&]<int kReduction>(Pass<kReduction>) {
        float& sum = reduced[half][kReduction];
#pragma unroll
        for (u32 j = 0; j < 2; ++j) {
          const float with = Operator<kReduction>::apply(sum, terms[kReduction].v[j]);
          sum = kConfig.whole_subtiles_n || column + j < n_end ? with : sum;
        }
      });
    }
  }

  // The numbers of the warp's rows for a block whose columns begin at n, from pass kPass on.
  // `load(i, columns, d)` gives the columns and accumulators of the block's subtile i, `keep(i, d)`
  // takes values in their place. All lanes execute it.
  template <int kPass, class P, class Load, class Keep>
  static CATENARY_DEVICE void run(const P& params, const Rows (&rows)[2], u32 n, u32 n_end,
                                  Load load, Keep keep, Numbers (&numbers)[2]) {
    if constexpr (kPass < Epilogue::kPasses) {
      float reduced[2][kReductions];
      each<kPass>([&]<int kReduction>(Pass<kReduction>) {
        reduced[0][kReduction] = reduced[1][kReduction] = Operator<kReduction>::identity();
      });
#pragma unroll
      for (u32 i = 0; i < kBlockSubtiles; ++i) {
        Columns columns[kChunks];
        float d[sums_of(kPass)][kSubtileN / 2];
        load(i, columns, d);
        add_subtile<kPass>(params, d, columns, rows, numbers, n + i * kSubtileN, n_end, reduced);
        if constexpr (Epilogue::kKeeps[kPass]) keep(i, d[0]);
      }
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        each<kPass>([&]<int kReduction>(Pass<kReduction>) {
          float& sum = reduced[half][kReduction];
#pragma unroll
          for (u32 apart = 1; apart < 4; apart *= 2) {
            const float other = bits_to_f32(shuffle_xor(f32_to_bits(sum), apart));
            sum = Operator<kReduction>::apply(sum, other);
          }
        });
        Epilogue::numbers(Pass<kPass>{}, params, rows[half], reduced[half], numbers[half]);
      }
      run<kPass + 1>(params, rows, n, n_end, load, keep, numbers);
    }
  }

  // Stores the numbers of the warp's rows, which begin at m, for the block that begins at column n.
  template <class P>
  static CATENARY_DEVICE void store(const P& params, Coord at, u32 m, u32 m_end, u32 n, u32 n_end,
                                    const Numbers (&numbers)[2]) {
    at.dim[kMaxDims - 1] = n;
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      const u32 row = m + threadIdx.x % 32 / 4 + 8 * half;
      at.dim[kMaxDims - 2] = row;
      if (threadIdx.x % 4 == 0 && row < m_end && n < n_end)
        Epilogue::store_numbers(params, at, numbers[half]);
    }
  }

  // The numbers of a subtile's block.
  template <int kTileBlocks>
  static CATENARY_DEVICE void take(const Numbers (&of_tile)[kTileBlocks][2], u32 subtile,
                                   Numbers (&numbers)[2]) {
#pragma unroll
    for (u32 i = 0; i < 2 * kTileBlocks; ++i) {
      if (i < 2 || subtile / kBlockSubtiles == i / 2) numbers[i % 2] = of_tile[i / 2][i % 2];
    }
  }

  template <class P, class Pair, class... Sums>
  static CATENARY_DEVICE void values(const P& params, const Columns& columns, const Rows& rows,
                                     const Pair& pair, const Numbers& numbers, Vec<2>* out,
                                     const Sums&... sums) {
    Epilogue::values(params, columns, rows, pair, numbers, sums..., out);
  }
};

// An epilogue without them.
template <const EpilogueConfig& kConfig, class Epilogue>
struct RowReductions<kConfig, Epilogue, false> {
  struct Numbers {};
  static constexpr u32 kBlocks = 1;
  static constexpr int kSumsAfter = kConfig.num_accumulators;
  static constexpr bool kReplaces = false;

  template <int kTileBlocks>
  static CATENARY_DEVICE void take(const Numbers (&)[kTileBlocks][2], u32, Numbers (&)[2]) {}

  template <class P, class Pair, class... Sums>
  static CATENARY_DEVICE void values(const P& params, const typename Epilogue::Columns& columns,
                                     const typename Epilogue::Rows& rows, const Pair& pair,
                                     const Numbers&, Vec<2>* out, const Sums&... sums) {
    Epilogue::values(params, columns, rows, pair, sums..., out);
  }
};

}  // namespace catenary
