// SPDX-License-Identifier: Apache-2.0
// A formed X of `skinny`: X is computed from rows in memory as the kernel loads them, after the
// dependency wait. Emitted programs say what of: the elements of the rows, vectors along K, and
// numbers for each row, which depend on sums along K. A sum whose terms depend on another sum is
// formed by a pass of its own over the rows, so that a variance is that of deviations from the
// mean.
//
//   one pass:  warp: terms of its part of K, all rows | sum over the four lanes of a row, by
//   shuffles
//              lane % 4 == 0 stores the sums, to every CTA of the cluster
//              barrier (below) | every lane adds those of its rows over CTAs and warps along K, in
//              ascending order, and computes the numbers of its rows
//
//   barrier          arrivals                     phase            meaning
//   CTA barrier      all threads, once a pass     -                the sums of all warps are stored
//   cluster barrier  all threads of the cluster,  after the first  the same, in a cluster, in place
//                    once a pass                  (begin())        of the CTA barrier
//
// Each sum has memory of its own, so that no barrier orders the passes' reads and stores. Every CTA
// adds the same sums in the same order: a row's numbers are the same bits in all columns of D.
#pragma once

#include "epilogue/operand.cuh"
#include "epilogue/ops.cuh"
#include "kernels/skinny_work.cuh"
#include "ptx/bits.cuh"
#include "ptx/cluster.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"
#include "shared/skinny_config.h"

namespace catenary {

// A pass over the rows: Terms gives kSumCount terms of each element, Rows kRowCount numbers of each
// row from the sums of all passes so far.
template <class TermsProgram, int kSumCount, class RowsProgram, int kRowCount>
struct RowPass {
  using Terms = TermsProgram;
  using Rows = RowsProgram;
  static constexpr int kSums = kSumCount;
  static constexpr int kRows = kRowCount;
};

// X is in memory as it is multiplied.
struct PlainX {};

template <class FormedProgram, class... Passes>
struct FormedX {
  using Values = FormedProgram;
};

// The state of a warp that forms X. Lane t of the four lanes of a row has the chunks of K of `X` in
// skinny.cuh.
template <const SkinnyConfig& kConfig, class Form>
struct XFormer;

template <const SkinnyConfig& kConfig>
struct XFormer<kConfig, PlainX> {};

template <const SkinnyConfig& kConfig, class ValuesProgram, class... Passes>
struct XFormer<kConfig, FormedX<ValuesProgram, Passes...>> {
  static constexpr int kVec = 16 / kConfig.space.element_bytes();  // elements of a chunk
  static constexpr int kWords = kConfig.x_words();
  static constexpr int kBlocks = kConfig.warp_blocks();
  static constexpr int kColumnTiles = kConfig.tile.columns / 8;
  static constexpr int kXTiles = kConfig.loads.x_columns / 8;
  static constexpr int kChunkBlocks =
      (kBlocks + kConfig.loads.x_chunks - 1) / kConfig.loads.x_chunks;
  static constexpr int kSums = kConfig.formed.sums;
  static constexpr int kRows = kConfig.formed.rows;
  static constexpr DType kX = kConfig.space.math == MathMode::kBF16 ? DType::kBF16 : DType::kF16;
  // All rows of the warp's part of K are in registers from the first pass on.
  static constexpr bool kHeld =
      kConfig.loads.x_chunks == 1 && kConfig.loads.x_columns == kConfig.tile.columns;
  static_assert(kWords % 4 == 0, "rows are loaded in whole vectors of 16 bytes");

  // What a lane loads of a chunk.
  struct Elements {
    u32 word[kWords];
  };
  using Chunk = Elements[kChunkBlocks][kXTiles][2];

  Chunk held;
  float sums[kSums > 0 ? kSums : 1][kColumnTiles];
  float rows[kRows > 0 ? kRows : 1][kColumnTiles];

  // The rows of a chunk of K blocks, as load_x() has them.
  template <class P>
  static CATENARY_DEVICE void load(const P& params, const SkinnyWorkTile& work, int chunk,
                                   u32 first_row, i64 m, Chunk& to) {
    const u32 lane = threadIdx.x % 32;
    const u32 row = first_row + lane / 4;
    const u8* base = skinny_row<kConfig, kConfig.x, kConfig.x_bytes()>(params, work, row) +
                     lane % 4 * 2 * kWords * 4;
#pragma unroll
    for (int i = kChunkBlocks - 1; i >= 0; --i) {
      const int block = chunk * kChunkBlocks + i;
#pragma unroll
      for (int j = 0; j < kXTiles; ++j) {
        const u8* p = base + j * 8 * kConfig.x.stride_row * kConfig.x_bytes() +
                      static_cast<i64>(block) * 8 * kWords * 4;
        const bool inside = block < kBlocks && row + 8 * j < m;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Elements& elements = to[i][j][half];
          const bool has = inside && has_chunk<kConfig>(work, block, half);
#pragma unroll
          for (int w = 0; w < kWords; w += 4) {
            U32x4 words = {0, 0, 0, 0};
            if (has) words = ld_global_v4(p + (half * kWords + w) * 4);
            elements.word[w] = words.x, elements.word[w + 1] = words.y;
            elements.word[w + 2] = words.z, elements.word[w + 3] = words.w;
          }
        }
      }
    }
  }

  // Coordinates of the lane's chunk: the row of X, and K.
  static CATENARY_DEVICE Coord coord(const SkinnyWorkTile& work, int block, int half) {
    Coord at;
    at.dim[kMaxDims - 1] =
        static_cast<u32>(work.chunk0 + block * 8 + half) * kVec + threadIdx.x % 4 * 2 * kVec;
    at.valid = kVec;
    return at;
  }

  // What a program takes of vectors along K, for the lane's chunk number `index` of the K blocks
  // from `first` on, the last block first.
  template <class Program, class P>
  static CATENARY_DEVICE void load_operands(const P& params, const SkinnyWorkTile& work, int first,
                                            int index, typename Program::Operands& operands) {
    const int block = first + block_of(index);
    if (block >= kBlocks || !has_chunk<kConfig>(work, block, index % 2)) return;
    const Coord at = coord(work, block, index % 2);
    Program::load_weights(params, at, operands);
    Program::load(params, at, operands);
  }
  static constexpr CATENARY_DEVICE int block_of(int index) { return kChunkBlocks - 1 - index / 2; }

  // Runs a program on the lane's elements of rows of column tile `tile`. Elements that stay for the
  // next pass are widened again there: their f32 values would be twice the registers.
  template <class Program, class P>
  CATENARY_DEVICE void run(const P& params, const SkinnyWorkTile& work, Elements& elements,
                           const typename Program::Operands& operands, int block, int half,
                           int tile, Vec<kVec>* out) const {
    constexpr int kPerWord = 4 / kConfig.x_bytes();
    Vec<kVec> given[1 + kRows];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if constexpr (kHeld) renew(elements.word[w]);
      unpack_word<kConfig.formed.data>(elements.word[w], given[0].v + w * kPerWord);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) given[1 + r] = splat<kVec>(rows[r][tile]);
    Program::values(params, coord(work, block, half), operands, given, out);
  }

  // Calls f(i, half, operands) for the chunks that the warp has among the K blocks from `first` on.
  // Vectors along K are loaded one chunk ahead: ptxas would load those of all chunks first, into
  // more registers than there are, but moves no load up over a barrier.
  template <class Program, class P, class F>
  static CATENARY_DEVICE void each_chunk(const P& params, const SkinnyWorkTile& work, int first,
                                         const F& f) {
    constexpr bool kLoads = sizeof(typename Program::Operands) / 4 > 0;
    typename Program::Operands operands, next{};
    if constexpr (kLoads) load_operands<Program>(params, work, first, 0, next);
#pragma unroll
    for (int index = 0; index < 2 * kChunkBlocks; ++index) {
      operands = next;
      if constexpr (kLoads) {
        if (index + 1 < 2 * kChunkBlocks)
          load_operands<Program>(params, work, first, index + 1, next);
        // All lanes arrive: no memory depends on it.
        warp_barrier();
      }
      const int block = first + block_of(index);
      if (block < kBlocks && has_chunk<kConfig>(work, block, index % 2))
        f(block - first, index % 2, operands);
    }
  }

  static CATENARY_DEVICE float sum_of(const Vec<kVec>& terms) {
    static_assert(kVec == 8, "chunks of eight elements");
    return ((terms.v[0] + terms.v[1]) + (terms.v[2] + terms.v[3])) +
           ((terms.v[4] + terms.v[5]) + (terms.v[6] + terms.v[7]));
  }

  // Shared address of the sum that warp `warp` along K of CTA `rank` has stored for a row of X.
  static CATENARY_DEVICE u32 sum_address(int sum, u32 column, u32 rank, u32 warp) {
    const u32 warp_n = threadIdx.x / 32 / kConfig.tile.warps_k;
    const u32 row = (static_cast<u32>(sum) * kConfig.tile.columns + column) * kConfig.tile.warps_n;
    return dynamic_smem() + kConfig.row_sums_offset() +
           ((row + warp_n) * kConfig.sum_parts() + rank * kConfig.tile.warps_k + warp) * 4;
  }

  // Stores the warp's sum of the rows of a column tile, to all CTAs of the cluster.
  static CATENARY_DEVICE void store_sum(int sum, int tile, float lane_sum) {
    float total = lane_sum + bits_to_f32(shuffle_xor(f32_to_bits(lane_sum), 1));
    total += bits_to_f32(shuffle_xor(f32_to_bits(total), 2));
    if (threadIdx.x % 4 != 0) return;
    const u32 column = tile * 8 + threadIdx.x % 32 / 4;
    const u32 warp = threadIdx.x / 32 % kConfig.tile.warps_k;
    if constexpr (kConfig.schedule.cluster_k == 1) {
      st_shared_f32(sum_address(sum, column, 0, warp), total);
    } else {
      const u32 address = sum_address(sum, column, cluster_rank(), warp);
#pragma unroll
      for (u32 to = 0; to < kConfig.schedule.cluster_k; ++to)
        st_cluster_f32(map_shared(address, to), total);
    }
  }

  // The sum of a row over the CTAs of the cluster and their warps along K, in ascending order.
  static CATENARY_DEVICE float read_sum(int sum, int tile) {
    const u32 column = tile * 8 + threadIdx.x % 32 / 4;
    float total = 0;
#pragma unroll
    for (u32 rank = 0; rank < kConfig.schedule.cluster_k; ++rank) {
#pragma unroll
      for (u32 warp = 0; warp < kConfig.tile.warps_k; ++warp)
        total += ld_shared_f32(sum_address(sum, column, rank, warp));
    }
    return total;
  }

  // One pass: its sums are those from kFirstSum on, its numbers those from kFirstRow on.
  template <class Pass, int kFirstSum, int kFirstRow, class P>
  CATENARY_DEVICE void run_pass(const P& params, const SkinnyWorkTile& work, i64 m) {
    float lane_sums[Pass::kSums][kColumnTiles] = {};
#pragma unroll
    for (int chunk = kConfig.loads.x_chunks - 1; chunk >= 0; --chunk) {
#pragma unroll
      for (int column = 0; column < kConfig.tile.columns; column += kConfig.loads.x_columns) {
        Chunk loaded;
        if constexpr (!kHeld) load(params, work, chunk, column, m, loaded);
        Chunk& elements = kHeld ? held : loaded;
        const int first = chunk * kChunkBlocks;
        using Terms = typename Pass::Terms;
        each_chunk<Terms>(params, work, first, [&](int i, int half, const auto& operands) {
#pragma unroll
          for (int j = 0; j < kXTiles; ++j) {
            Vec<kVec> terms[Pass::kSums];
            run<Terms>(params, work, elements[i][j][half], operands, first + i, half,
                       column / 8 + j, terms);
#pragma unroll
            for (int s = 0; s < Pass::kSums; ++s) lane_sums[s][column / 8 + j] += sum_of(terms[s]);
          }
        });
      }
    }
#pragma unroll
    for (int s = 0; s < Pass::kSums; ++s) {
#pragma unroll
      for (int tile = 0; tile < kColumnTiles; ++tile)
        store_sum(kFirstSum + s, tile, lane_sums[s][tile]);
    }
    // All threads (of the cluster) arrive: the sums of all warps are stored.
    if constexpr (kConfig.schedule.cluster_k > 1) {
      cluster_arrive();
      cluster_wait();
    } else {
      cta_barrier();
    }
    read_rows<Pass, kFirstSum, kFirstRow>(params, work);
  }

  // Reads the sums of a pass and computes the numbers of the lane's rows.
  template <class Pass, int kFirstSum, int kFirstRow, class P>
  CATENARY_DEVICE void read_rows(const P& params, const SkinnyWorkTile& work) {
    using Rows = typename Pass::Rows;
    const typename Rows::Operands operands{};
#pragma unroll
    for (int tile = 0; tile < kColumnTiles; ++tile) {
      Vec<1> given[kFirstSum + Pass::kSums], out[Pass::kRows];
#pragma unroll
      for (int s = 0; s < Pass::kSums; ++s)
        sums[kFirstSum + s][tile] = read_sum(kFirstSum + s, tile);
#pragma unroll
      for (int s = 0; s < kFirstSum + Pass::kSums; ++s) given[s].v[0] = sums[s][tile];
      Rows::values(params, coord(work, 0, 0), operands, given, out);
#pragma unroll
      for (int r = 0; r < Pass::kRows; ++r) rows[kFirstRow + r][tile] = out[r].v[0];
    }
  }

  template <int kFirstSum, int kFirstRow, class P>
  CATENARY_DEVICE void run_passes(const P&, const SkinnyWorkTile&, i64) {}
  template <int kFirstSum, int kFirstRow, class Pass, class... Rest, class P>
  CATENARY_DEVICE void run_passes(const P& params, const SkinnyWorkTile& work, i64 m) {
    run_pass<Pass, kFirstSum, kFirstRow>(params, work, m);
    run_passes<kFirstSum + Pass::kSums, kFirstRow + Pass::kRows, Rest...>(params, work, m);
  }

  // After the dependency wait: all passes.
  template <class P>
  CATENARY_DEVICE void prepare(const P& params, const SkinnyWorkTile& work, i64 m) {
    if constexpr (kHeld) load(params, work, 0, 0, m, held);
    if constexpr (kSums > 0) {
      // The other CTAs of the cluster have begun: their shared memory may be written.
      if constexpr (kConfig.schedule.cluster_k > 1) cluster_wait();
      run_passes<0, 0, Passes...>(params, work, m);
    }
  }

  // X of one chunk of K blocks, from column `column` on; adds the squares of the elements of the
  // rows, if the epilogue takes them.
  template <class P, class LaneBlock, class Squares>
  CATENARY_DEVICE void form(const P& params, const SkinnyWorkTile& work, int chunk, int column,
                            i64 m, LaneBlock (&x)[kChunkBlocks][kXTiles], Squares& squares) {
    Chunk loaded;
    if constexpr (!kHeld) load(params, work, chunk, column, m, loaded);
    Chunk& elements = kHeld ? held : loaded;
#pragma unroll
    for (int i = 0; i < kChunkBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < kXTiles; ++j) x[i][j].half[0] = x[i][j].half[1] = {0, 0, 0, 0};
    }
    const int first = chunk * kChunkBlocks;
    each_chunk<ValuesProgram>(params, work, first, [&](int i, int half, const auto& operands) {
#pragma unroll
      for (int j = 0; j < kXTiles; ++j) {
        Elements& from = elements[i][j][half];
        if constexpr (kConfig.row_squares) add_element_squares(from, squares.sums[column / 8 + j]);
        Vec<kVec> values;
        run<ValuesProgram>(params, work, from, operands, first + i, half, column / 8 + j, &values);
        U32x4& to = x[i][j].half[half];
        to.x = pack<kX>(values.v[0], values.v[1]);
        to.y = pack<kX>(values.v[2], values.v[3]);
        to.z = pack<kX>(values.v[4], values.v[5]);
        to.w = pack<kX>(values.v[6], values.v[7]);
      }
    });
  }

  static CATENARY_DEVICE void add_element_squares(const Elements& elements, float& sum) {
    constexpr int kPerWord = 4 / kConfig.x_bytes();
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      float value[kPerWord];
      unpack_word<kConfig.formed.data>(elements.word[w], value);
#pragma unroll
      for (int e = 0; e < kPerWord; ++e) sum += value[e] * value[e];
    }
  }
};

}  // namespace catenary
