// SPDX-License-Identifier: Apache-2.0
// `skinny_dequant`: D[m, n] = epilogue(sum over k of X[m, k] (q[n, k] - zero) scale) for small M
// and packed integers q. It is a stream of q: its time is that of reading q once
// (docs/kernels/skinny_dequant.md).
//
//   q of a CTA (rows are n, columns are K blocks of 64), warps = 4:
//     16 row_tiles rows | warp 0 | warp 1 | warp 2 | warp 3 |   a warp: its k-slice and all columns
//     of
//                                                               X, which are 8, 16, 24 or 32
//   shared memory: | mbarriers | slice of warp 0 | slice of warp 1 | ... | DSMEM partials |
//   a slice:       | stage 0 | stage 1 | ... | scales | zeros |   the stages are reused for sums
//   a stage:       | tiles of q, a run per row tile | rows of X |   stage_blocks K blocks
//
//   barrier                  arrivals                    phase         meaning
//   mbarrier, warp and stage lane 0, expects q and X     i / stages    q and X have arrived
//   warp, after init         32 lanes                    -             mbarriers are initialised
//   warp, before a refill    32 lanes                    -             the stage has been read
//   warp, after scales       32 lanes                    -             scales, zeros are stored
//   warp, before sums        32 lanes                    -             all stages have been read
//   CTA                      all threads                 -             all sums are stored
//   cluster, and mbarrier of the partials: skinny_cluster.cuh
//
//   timeline (w_is_weight): PDL trigger | issue q of all stages | scales, zeros and weights of the
//     epilogue | dependency wait | issue X of all stages | per stage: wait, MMAs, refill |
//     sums to shared memory | CTA barrier | add over warps | epilogue, store
//
// q is A of mma.sync (16 rows), X is B (8 columns). Integers are exact in X's dtype, so the MMAs
// sum exact products of q - zero and X; at the end of a block of columns the f32 sum is scaled and
// added: acc = fma(scale, sum, acc). No weight is rounded.
#pragma once

#include "epilogue/ops.cuh"
#include "kernels/skinny_cluster.cuh"
#include "kernels/skinny_dequant_unpack.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cluster.cuh"
#include "ptx/global.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "smem/fragment.cuh"

namespace catenary {

// The work of this thread's warp.
struct DequantWork {
  i64 n0 = 0;      // first index of D's n of the CTA
  i64 block0 = 0;  // first K block of the warp
  i32 blocks = 0;  // K blocks of the warp
};

template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE DequantWork find_dequant_work() {
  const u32 warp = threadIdx.x / 32;
  const u32 k_slice = blockIdx.x % kConfig.k_slices();
  const i64 begin = kConfig.k_blocks() * k_slice / kConfig.k_slices();
  const i64 count = kConfig.k_blocks() * (k_slice + 1) / kConfig.k_slices() - begin;
  DequantWork work;
  work.n0 = static_cast<i64>(blockIdx.x / kConfig.k_slices()) * kConfig.rows();
  work.block0 = begin + count * warp / kConfig.tile.warps;
  work.blocks = static_cast<i32>(begin + count * (warp + 1) / kConfig.tile.warps - work.block0);
  return work;
}

// A warp's ring of stages and its scales. `slice` is its shared memory, `barriers` its mbarriers.
// All lanes of the warp call every function.
template <const SkinnyDequantConfig& kConfig>
struct DequantRing {
  u32 slice;
  u32 barriers;
  i32 blocks;   // of the warp
  i32 x_rows;   // rows of X
  const u8* q;  // the first tile of the warp's first row tile
  const u8* x;  // row 0 at the warp's first K block

  static constexpr i64 kRowTiles = (kConfig.space.n.size + 15) / 16;
  static constexpr i64 kRowTileBytes = kConfig.k_blocks() * kConfig.tile_bytes();

  template <class P>
  CATENARY_DEVICE DequantRing(const P& params, const DequantWork& work, i64 m)
      : slice(dynamic_smem() + kConfig.barrier_bytes() + threadIdx.x / 32 * kConfig.slice_bytes()),
        barriers(dynamic_smem() + threadIdx.x / 32 * kConfig.loads.stages * 8),
        blocks(work.blocks),
        x_rows(static_cast<i32>(m)),
        q(static_cast<const u8*>(params.ptr[kConfig.w.slot]) + work.n0 / 16 * kRowTileBytes +
          work.block0 * kConfig.tile_bytes()),
        x(static_cast<const u8*>(params.ptr[kConfig.x.slot]) + work.block0 * 128),
        row_tiles_left(kRowTiles - work.n0 / 16),
        columns_left(kConfig.space.k.size - work.block0 * kPackedColumns) {}

  CATENARY_DEVICE u32 stage(i32 i) const {
    return slice + i % kConfig.loads.stages * kConfig.stage_bytes();
  }
  CATENARY_DEVICE u32 barrier(i32 i) const { return barriers + i % kConfig.loads.stages * 8; }
  CATENARY_DEVICE u32 scales() const { return slice + kConfig.ring_bytes(); }
  CATENARY_DEVICE i32 first_block(i32 i) const { return i * kConfig.loads.stage_blocks; }
  CATENARY_DEVICE i32 stage_blocks(i32 i) const {
    const i32 left = blocks - first_block(i);
    return left < kConfig.loads.stage_blocks ? left : kConfig.loads.stage_blocks;
  }

  // Initialises the mbarriers, each with 1 arrival: that of the lane that expects a fill's bytes.
  // The first fill of each stage is expected here.
  CATENARY_DEVICE void init() const {
    const i32 lane = static_cast<i32>(threadIdx.x % 32);
    if (lane < kConfig.loads.stages) {
      mbarrier_init(barrier(lane), 1);
      // The async proxy must see the initialised mbarrier (PTX ISA 9.7.13.4).
      fence_mbarrier_init();
      expect(lane);
    }
    // All lanes arrive: the mbarriers of all stages are initialised.
    warp_barrier();
  }

  // Bytes of a row of X in fill i: the last K block may be half.
  CATENARY_DEVICE u32 x_bytes(i32 i) const {
    const i64 left = columns_left - first_block(i) * kPackedColumns;
    const i64 columns = stage_blocks(i) * kPackedColumns;
    return static_cast<u32>(left < columns ? left : columns) * 2;
  }

  // Expects the bytes of q and X of fill i, by one lane.
  CATENARY_DEVICE void expect(i32 i) const {
    if (first_block(i) >= blocks) return;
    mbarrier_arrive_expect_tx(barrier(i),
                              q_bytes(i) * kConfig.tile.row_tiles + x_bytes(i) * x_rows);
  }

  // Bytes of a run of q in fill i.
  CATENARY_DEVICE u32 q_bytes(i32 i) const {
    return static_cast<u32>(stage_blocks(i)) * kConfig.tile_bytes();
  }

  // Loads q of fill i, a lane for each row tile. Row tiles past n are clamped to the last one, and
  // its rows past n are padding; their results are not stored. Each byte is read once: evict_first
  // keeps X in L2.
  CATENARY_DEVICE void load_q(i32 i) const {
    const u32 lane = threadIdx.x % 32;
    if (first_block(i) >= blocks || lane >= kConfig.tile.row_tiles) return;
    const i64 tile = lane < row_tiles_left ? lane : row_tiles_left - 1;
    bulk_load(stage(i) + lane * kConfig.run_bytes(),
              q + tile * kRowTileBytes + static_cast<i64>(first_block(i)) * kConfig.tile_bytes(),
              q_bytes(i), barrier(i), kEvictFirst);
  }

  CATENARY_DEVICE void load_x(i32 i) const {
    const u32 lane = threadIdx.x % 32;
    if (first_block(i) >= blocks || lane >= x_rows) return;
    bulk_load(stage_x(i) + lane * kConfig.x_pitch(),
              x + static_cast<i64>(lane) * kConfig.x.stride_row * 2 + first_block(i) * 128,
              x_bytes(i), barrier(i));
  }

  // Fills the stage of fill i again.
  CATENARY_DEVICE void refill(i32 i) const {
    // All lanes arrive: they have read the stage.
    warp_barrier();
    if (threadIdx.x % 32 == 0) expect(i);
    // All lanes arrive: the bytes are expected before they come.
    warp_barrier();
    load_q(i);
    load_x(i);
  }

  CATENARY_DEVICE u32 stage_x(i32 i) const {
    return stage(i) + kConfig.tile.row_tiles * kConfig.run_bytes();
  }

  i64 row_tiles_left;
  i64 columns_left;
};

// One number of a row and a block of columns, at the warp's first block of columns plus `block`.
template <const SkinnyDequantConfig& kConfig, BlockNumbers kNumbers, class P>
CATENARY_DEVICE const u8* block_number(const P& params, const DequantWork& work, u32 row,
                                       i32 block) {
  constexpr i64 kAll =
      (kConfig.space.k.size + kConfig.w.block_columns - 1) / kConfig.w.block_columns;
  i64 n = work.n0 + row;
  if (kConfig.space.n.size % kConfig.rows() != 0 && n >= kConfig.space.n.size)
    n = kConfig.space.n.size - 1;
  i64 at = work.block0 * kPackedColumns / kConfig.w.block_columns + block;
  if (at >= kAll) at = kAll - 1;
  return static_cast<const u8*>(params.ptr[kNumbers.slot]) +
         (n * kNumbers.stride_row + at * kNumbers.stride_block) * dtype_bytes(kNumbers.dtype);
}

// Stores the slice's scales as f32 and its zeros as pairs; a warp barrier must follow.
template <const SkinnyDequantConfig& kConfig, class P>
CATENARY_DEVICE void load_scales(const P& params, const DequantWork& work, u32 scales) {
  constexpr i32 kNumbers = static_cast<i32>(kConfig.warp_scales()) * kConfig.rows();
#pragma unroll 4
  for (i32 i = threadIdx.x % 32; i < kNumbers; i += 32) {
    const u32 row = i % kConfig.rows();
    const i32 block = i / kConfig.rows();
    const float scale = load_element<kConfig.w.scale.dtype, Access::kPlain>(
        block_number<kConfig, kConfig.w.scale>(params, work, row, block));
    st_shared_f32(scales + i * 4, scale);
    if constexpr (kConfig.w.has_zero) {
      const u32 byte =
          ld_global_u8(block_number<kConfig, kConfig.w.zero>(params, work, row, block));
      const i32 zero = static_cast<i32>(byte ^ 128u) - 128;
      st_shared_u32(scales + kConfig.scale_bytes() + i * 4, offset_pair<kConfig>(zero));
    }
  }
}

// The sums of a warp: of the products of q - zero and X in the open block of columns, and of all
// blocks before it, scaled.
template <const SkinnyDequantConfig& kConfig>
struct DequantSums {
  static constexpr int kRowTiles = kConfig.tile.row_tiles;
  static constexpr int kColumnTiles = kConfig.tile.columns / 8;

  float open[kRowTiles][kColumnTiles][4] = {};
  float total[kRowTiles][kColumnTiles][4] = {};

  // Scales the open block's sums; `scales`: those of its rows.
  CATENARY_DEVICE void close_block(u32 scales) {
    const u32 row = threadIdx.x % 32 / 4;
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      const float upper = ld_shared_f32(scales + (t * 16 + row) * 4);
      const float lower = ld_shared_f32(scales + (t * 16 + row + 8) * 4);
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          total[t][j][e] = fma_rn(e < 2 ? upper : lower, open[t][j][e], total[t][j][e]);
          open[t][j][e] = 0;
        }
      }
    }
  }

  // The MMAs of 32 columns: half `half` of the stage's K block `block`. zeros: those of the rows.
  CATENARY_DEVICE void add_half(const DequantRing<kConfig>& ring, i32 i, int block, int half,
                                u32 zeros) {
    const u32 lane = threadIdx.x % 32;
    U32x4 x[kColumnTiles];
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
      const u32 row = j * 8 + lane / 4;
      x[j] = {0, 0, 0, 0};
      if (row < ring.x_rows) {
        x[j] = ld_shared_v4(ring.stage_x(i) + row * kConfig.x_pitch() + block * 128 + half * 64 +
                            lane % 4 * 16);
      }
    }
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      const u32 tile = ring.stage(i) + t * kConfig.run_bytes() + block * kConfig.tile_bytes();
      u32 upper = offset_pair<kConfig>(0);
      u32 lower = upper;
      if constexpr (kConfig.w.has_zero) {
        upper = ld_shared_u32(zeros + (t * 16 + lane / 4) * 4);
        lower = ld_shared_u32(zeros + (t * 16 + lane / 4 + 8) * 4);
      }
      const auto add = [&](u32 word0, u32 word1, int mma) {
        const U32x4 a = unpack_fragment<kConfig>(word0, word1, upper, lower);
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
          mma_sync<kConfig.space.math>(open[t][j], a, mma == 0 ? x[j].x : x[j].z,
                                       mma == 0 ? x[j].y : x[j].w);
        }
      };
      if constexpr (kConfig.w.dtype == DType::kI8) {
        const U32x4 w = ld_shared_v4(tile + half * 512 + lane * 16);
        add(w.x, w.y, 0);
        add(w.z, w.w, 1);
      } else {
        const U32x2 w = ld_shared_v2(tile + lane * 16 + half * 8);
        add(w.x, 0, 0);
        add(w.y, 0, 1);
      }
    }
  }
};

// The MMAs of the warp's k-slice.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void sum_slice(const DequantRing<kConfig>& ring, const DequantWork& work,
                               DequantSums<kConfig>& sums) {
  constexpr i32 kBlock = kConfig.scale_columns();
  i32 column = static_cast<i32>(work.block0 * kPackedColumns);  // of the next half
  u32 scales = ring.scales();
#pragma unroll 1
  for (i32 i = 0; ring.first_block(i) < ring.blocks; ++i) {
    // Phase i / stages of the stage's mbarrier: q and X of fill i have arrived.
    mbarrier_wait(ring.barrier(i), static_cast<u32>(i / kConfig.loads.stages % 2));
    const i32 blocks = ring.stage_blocks(i);
#pragma unroll
    for (int block = 0; block < kConfig.loads.stage_blocks; ++block) {
      if (block >= blocks) break;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (kConfig.space.k.size % kPackedColumns != 0 && column >= kConfig.space.k.size) break;
        sums.add_half(ring, i, block, half, scales + kConfig.scale_bytes());
        column += 32;
        if (column % kBlock != 0) continue;
        sums.close_block(scales);
        scales += kConfig.rows() * 4;
      }
    }
    if (ring.first_block(i + kConfig.loads.stages) < ring.blocks)
      ring.refill(i + kConfig.loads.stages);
  }
  // A slice may end inside a block of columns.
  if (column % kBlock != 0) sums.close_block(scales);
}

// Stores the warp's sums as [column][row] at shared address `to`.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void store_sums(u32 to, const DequantSums<kConfig>& sums) {
  const u32 lane = threadIdx.x % 32;
  // All lanes arrive: they have read all stages, which `to` overwrites.
  warp_barrier();
#pragma unroll
  for (int t = 0; t < sums.kRowTiles; ++t) {
#pragma unroll
    for (int j = 0; j < sums.kColumnTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 column = j * 8 + lane % 4 * 2 + e % 2;
        const u32 row = t * 16 + lane / 4 + e / 2 * 8;
        st_shared_f32(to + (column * kConfig.sum_row() + row) * 4, sums.total[t][j][e]);
      }
    }
  }
}

// Adds this thread's vector over the warps in ascending order. CTA `to` of the cluster stores it.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void add_warps(u32 to, typename SkinnyCluster<kConfig>::Partials& partials) {
  using Cluster = SkinnyCluster<kConfig>;
  const u32 from = dynamic_smem() + kConfig.barrier_bytes() +
                   (Cluster::column(to) * kConfig.sum_row() + Cluster::row()) * 4;
#pragma unroll
  for (int i = 0; i < kConfig.vec; ++i) {
    float total = ld_shared_f32(from + i * 4);
#pragma unroll
    for (int warp = 1; warp < kConfig.tile.warps; ++warp) {
      total += ld_shared_f32(from + warp * kConfig.slice_bytes() + i * 4);
    }
    partials[0].v[i] = total;
  }
}

// Coordinates of this thread's vector of D; valid is 0 for threads without one.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE Coord dequant_coord(const DequantWork& work, i64 m) {
  using Cluster = SkinnyCluster<kConfig>;
  const u32 column = Cluster::column(Cluster::rank());
  const i64 n = work.n0 + Cluster::row();
  Coord at;
  at.dim[kMaxDims - 1] = static_cast<u32>(n);
  at.dim[kMaxDims - 2] = column;
  const i64 left = column < m ? kConfig.space.n.size - n : 0;
  at.valid = left < kConfig.vec ? static_cast<i32>(left) : kConfig.vec;
  return at;
}

// Sends partials to the CTAs of the cluster that store them. Columns past m are not sent.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void send_sums(i64 m) {
  using Cluster = SkinnyCluster<kConfig>;
#pragma unroll
  for (u32 distance = 1; distance < kConfig.schedule.cluster_k; ++distance) {
    const u32 to = (Cluster::rank() + distance) % kConfig.schedule.cluster_k;
    if (Cluster::column(to) >= m) continue;
    typename Cluster::Partials partials;
    add_warps<kConfig>(to, partials);
    Cluster::send(partials, 0, to);
  }
}

template <const SkinnyDequantConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void skinny_dequant(const P& params) {
  using Cluster = SkinnyCluster<kConfig>;
  static_assert(kConfig.vectors() <= kConfig.threads(), "one vector of D per thread");
  static_assert(
      kConfig.loads.stages <= 32 && kConfig.tile.row_tiles <= 32 && kConfig.tile.columns <= 32,
      "a lane for each mbarrier, run of q and row of X");
  static_assert(kConfig.space.k.size % 32 == 0 && (kConfig.w.block_columns % 32 == 0 ||
                                                   kConfig.w.block_columns >= kConfig.space.k.size),
                "32 columns have one scale");
  griddepcontrol_launch_dependents();
  const i64 m = extent_at_launch(kConfig.space.m, params);
  if constexpr (kConfig.schedule.cluster_k > 1) Cluster::begin(m, kConfig.rows());
  if constexpr (!kConfig.loads.w_is_weight) griddepcontrol_wait();

  const DequantWork work = find_dequant_work<kConfig>();
  const DequantRing<kConfig> ring(params, work, m);
  ring.init();
#pragma unroll
  for (i32 i = 0; i < kConfig.loads.stages; ++i) ring.load_q(i);
  load_scales<kConfig>(params, work, ring.scales());
  typename Epilogue::Operands operands;
  const Coord at = dequant_coord<kConfig>(work, m);
  if (at.valid > 0) Epilogue::load_weights(params, at, operands);
  if constexpr (kConfig.loads.w_is_weight) griddepcontrol_wait();
#pragma unroll
  for (i32 i = 0; i < kConfig.loads.stages; ++i) ring.load_x(i);
  // All lanes arrive: scales and zeros are stored.
  warp_barrier();

  DequantSums<kConfig> sums;
  sum_slice<kConfig>(ring, work, sums);
  if (at.valid > 0) Epilogue::load(params, at, operands);
  store_sums<kConfig>(ring.slice, sums);
  // All threads arrive: the sums of all warps are visible.
  cta_barrier();
  if constexpr (kConfig.schedule.cluster_k > 1) {
    cluster_wait();
    send_sums<kConfig>(m);
  }
  if (at.valid <= 0) return;
  typename Cluster::Partials partials;
  add_warps<kConfig>(Cluster::rank(), partials);
  float no_squares = 0;
  if constexpr (kConfig.schedule.cluster_k > 1) Cluster::add_partials(partials, no_squares);
  Epilogue::store(params, at, operands, partials[0]);
}

}  // namespace catenary
