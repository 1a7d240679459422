// SPDX-License-Identifier: Apache-2.0
// A warp of `gemm_dequant`: scales and zeros of its rows, A of the MMAs from q, and the sums.
//
//   step: a K block of a fragment, four MMAs
//     unpack q | wait for the MMAs of the step before, scale and add what they ended | MMAs
#pragma once

#include "kernels/dequant_unpack.cuh"
#include "kernels/gemm_dequant_load.cuh"
#include "pipeline/descriptor.cuh"
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/math.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma_registers.cuh"

namespace catenary {

// A stride of W or W2.
CATENARY_DEVICE i64 stride_of(bool second, i64 of_w, i64 of_w2) {
  return of_w == of_w2 || !second ? of_w : of_w2;
}

// The scales and zeros of a lane's rows for a k-tile, as they are in memory: rows g and g + 8 of
// each fragment, lane = 4 g + t.
template <const GemmDequantConfig& kConfig>
struct GemmDequantNumbers {
  static constexpr int kParts = kConfig.scaled_parts();
  u32 scales[kConfig.fragments()][kParts][2];
  u32 zeros[kConfig.fragments()][kParts][2];  // if W has zeros

  CATENARY_DEVICE float scale(int fragment, int part, int lower) const {
    const u32 bits = scales[fragment][part][lower];
    if constexpr (kConfig.w.scale.dtype == DType::kF32) {
      return bits_to_f32(bits);
    } else {
      return widen_16bit<kConfig.w.scale.dtype>(static_cast<u16>(bits));
    }
  }
  CATENARY_DEVICE i32 zero(int fragment, int part, int lower) const {
    return kConfig.w.has_zero ? static_cast<i32>(zeros[fragment][part][lower] ^ 128u) - 128 : 0;
  }
};

// Where they are: for each of the lane's rows its distance from a row of the CTA.
template <const GemmDequantConfig& kConfig>
struct GemmDequantNumberLoader {
  static constexpr BlockNumbers kScale = kConfig.w.scale, kScale2 = kConfig.w2.scale;
  static constexpr BlockNumbers kZero = kConfig.w.zero, kZero2 = kConfig.w2.zero;
  const u8* scales;  // of the CTA's first row, at the first block of K
  const u8* zeros;
  bool second;  // those of W2
  i32 row[kConfig.fragments()][2];
  i64 column;  // of the CTA's first k-tile

  template <class P>
  CATENARY_DEVICE GemmDequantNumberLoader(const P& params, const GemmDequantWork& work,
                                          const GemmDequantRows<kConfig>& rows)
      : second(kConfig.dual && rows.weight == 1), column(work.block0 * kPackedColumns) {
    const i64 first = work.tile0 * kPackedRows;
    scales = start<kScale>(params, work, first);
    zeros = kConfig.w.has_zero ? start<kZero>(params, work, first) : nullptr;
    if constexpr (kConfig.dual) {
      if (second) {
        scales = start<kScale2>(params, work, first);
        zeros = kConfig.w.has_zero ? start<kZero2>(params, work, first) : nullptr;
      }
    }
    const i64 last = kConfig.space.n.size - 1 - first;
#pragma unroll
    for (int f = 0; f < kConfig.fragments(); ++f) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        // Rows past N are clamped to the last one: their results are not stored.
        const i32 at = rows.row_tile(f) * static_cast<i32>(kPackedRows) + lower * 8 +
                       static_cast<i32>(threadIdx.x % 32 / 4);
        row[f][lower] = at < last ? at : static_cast<i32>(last);
      }
    }
  }

  template <BlockNumbers kNumbers, class P>
  static CATENARY_DEVICE const u8* start(const P& params, const GemmDequantWork& work, i64 first) {
    const i64 offset =
        batch_offset<kConfig, kNumbers.stride_batch>(work) + first * kNumbers.stride_row;
    return static_cast<const u8*>(params.ptr[kNumbers.slot]) + offset * dtype_bytes(kNumbers.dtype);
  }

  // Those of k-tile i. Blocks of columns past K have scale 0.
  CATENARY_DEVICE void load(i32 i, GemmDequantNumbers<kConfig>& numbers) const {
    const i64 from = column + i64{i} * kConfig.stage_columns();
#pragma unroll
    for (int part = 0; part < kConfig.scaled_parts(); ++part) {
      const i64 at = from + part * kConfig.scaled_columns();
      if (kConfig.space.k.size % kConfig.stage_columns() != 0 && at >= kConfig.space.k.size) {
#pragma unroll
        for (int f = 0; f < kConfig.fragments(); ++f) {
          numbers.scales[f][part][0] = numbers.scales[f][part][1] = 0;
          numbers.zeros[f][part][0] = numbers.zeros[f][part][1] = 0;
        }
        continue;
      }
      const u32 block = static_cast<u32>(at) / static_cast<u32>(kConfig.w.block_columns);
      load_block(block, part, numbers);
    }
  }

  CATENARY_DEVICE void load_block(u32 block, int part, GemmDequantNumbers<kConfig>& numbers) const {
    const u8* scale_block =
        scales + block * stride_of(second, kScale.stride_block, kScale2.stride_block) *
                     dtype_bytes(kScale.dtype);
    const u8* zero_block =
        zeros + block * stride_of(second, kZero.stride_block, kZero2.stride_block);
#pragma unroll
    for (int f = 0; f < kConfig.fragments(); ++f) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const u8* scale =
            scale_block + row[f][lower] * stride_of(second, kScale.stride_row, kScale2.stride_row) *
                              dtype_bytes(kScale.dtype);
        numbers.scales[f][part][lower] =
            kScale.dtype == DType::kF32 ? ld_global_u32(scale) : ld_global_u16(scale);
        if constexpr (kConfig.w.has_zero) {
          numbers.zeros[f][part][lower] = ld_global_u8(
              zero_block + row[f][lower] * stride_of(second, kZero.stride_row, kZero2.stride_row));
        }
      }
    }
  }
};

template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE void wgmma_dequant(float (&d)[kConfig.tile.columns / 2], const U32x4& a, u64 b,
                                   bool scale_d) {
  if constexpr (kConfig.space.math == MathMode::kBF16) {
    wgmma_bf16_registers<kConfig.tile.columns>(d, a, b, scale_d);
  } else {
    static_assert(kConfig.space.math == MathMode::kF16, "q is multiplied in 16 bits");
    wgmma_f16_registers<kConfig.tile.columns>(d, a, b, scale_d);
  }
}

// The sums of a thread: of each fragment, and those that wait for their scale.
template <const GemmDequantConfig& kConfig>
struct GemmDequantSums {
  static constexpr int kCount = kConfig.tile.columns / 2;
  static constexpr int kOpen = kConfig.open_sums();
  using Fragment = U32x4[4];  // A of the MMAs of a step

  float total[kConfig.fragments()][kCount] = {};
  float open[kOpen > 0 ? kOpen : 1][kCount] = {};
  float scale[kOpen > 0 ? kOpen : 1][2] = {};  // of the open sums: rows g and g + 8

  // Adds the open sums to those of a fragment, scaled. Their MMAs have ended.
  CATENARY_DEVICE void add_open(int fragment) {
#pragma unroll
    for (int o = 0; o < kOpen; ++o) {
      wgmma_pin(open[o]);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        total[fragment][i] = fma_rn(scale[o][i / 2 % 2], open[o][i], total[fragment][i]);
      }
    }
  }

  // The scales of the sums that a step opens, from part `part` of the k-tile on.
  CATENARY_DEVICE void set_scales(const GemmDequantNumbers<kConfig>& numbers, int fragment,
                                  int part) {
#pragma unroll
    for (int o = 0; o < kOpen; ++o) {
      scale[o][0] = numbers.scale(fragment, part + o, 0);
      scale[o][1] = numbers.scale(fragment, part + o, 1);
    }
  }

  // The four MMAs of a step; `x`: descriptor of its box; `opens`: the first of an open sum. No
  // other instruction clears it: ptxas would wait for every MMA.
  CATENARY_DEVICE void multiply(int fragment, const Fragment& a, u64 x, bool opens) {
    wgmma_fence();
#pragma unroll
    for (int mma = 0; mma < 4; ++mma) {
      float(&d)[kCount] = kOpen == 0 ? total[fragment] : open[kOpen == 2 ? mma / 2 : 0];
      const bool first = kOpen == 2 ? mma % 2 == 0 : kOpen == 1 && opens && mma == 0;
      wgmma_dequant<kConfig>(d, a[mma], advance_descriptor(x, static_cast<u32>(mma * 32)), !first);
    }
    wgmma_commit();
  }

  // One scale for a whole row. By an addition of +0, as a sum over blocks ends with one: a sum of 0
  // is +0 under a negative scale.
  CATENARY_DEVICE void scale_rows(const GemmDequantNumbers<kConfig>& numbers) {
#pragma unroll
    for (int f = 0; f < kConfig.fragments(); ++f) {
      wgmma_pin(total[f]);
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        total[f][i] = fma_rn(numbers.scale(f, 0, i / 2 % 2), total[f][i], 0.0f);
    }
  }
};

// A of a step: K block `block` of a fragment.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE void unpack_step(const DequantBlock<kConfig>& q,
                                 const GemmDequantNumbers<kConfig>& numbers, int fragment,
                                 int block, U32x4 (&a)[4]) {
#pragma unroll
  for (int mma = 0; mma < 4; ++mma) {
    const int part = (block * 64 + mma * 16) / kConfig.scaled_columns();
    a[mma] = q.fragment(mma, offset_pair<kConfig>(numbers.zero(fragment, part, 0)),
                        offset_pair<kConfig>(numbers.zero(fragment, part, 1)));
  }
}

// What a warp works with, and where it is.
template <const GemmDequantConfig& kConfig>
struct GemmDequantWarp {
  const GemmDequantRows<kConfig>& rows;
  GemmDequantRing<kConfig>& ring;
  GemmDequantX<kConfig>& x;
  bool loads_x;  // the thread that loads X
  DequantStage<kConfig.loads.stages> at = {};
  // Of X: this k-tile's, and those of the two before.
  DequantStage<kConfig.loads.x_stages> x_at = {}, x_before = {}, x_last = {};
  U32x4 a[2][4];  // A of this step and of the one before, whose MMAs read it
};

// After the MMAs of k-tile i - 1: releases its X, and loads another k-tile's where that of k-tile
// i - 2 is. One thread waits until all warps have released that.
template <const GemmDequantConfig& kConfig, class P>
CATENARY_DEVICE void next_x(const P& params, GemmDequantWarp<kConfig>& warp, i32 i) {
  using Smem = GemmDequantSmem<kConfig>;
  if (i > 0 && threadIdx.x % 32 == 0) mbarrier_arrive(Smem::x_empty(warp.x_before.index));
  if (i > 1 && warp.loads_x && warp.x.left > 0) {
    mbarrier_wait(Smem::x_empty(warp.x_last.index), warp.x_last.phase);
    warp.x.load(params, warp.x_last.index);
  }
}

// The steps of k-tile i; `left`: its K blocks, or more.
template <const GemmDequantConfig& kConfig, class P>
CATENARY_DEVICE void multiply_k_tile(const P& params, GemmDequantWarp<kConfig>& warp, i32 i,
                                     i32 left, const GemmDequantNumbers<kConfig>& numbers,
                                     GemmDequantSums<kConfig>& sums) {
  using Smem = GemmDequantSmem<kConfig>;
  constexpr int kBlocks = kConfig.loads.stage_blocks;
  constexpr int kFragments = kConfig.fragments();
  static_assert(kFragments * kBlocks % 2 == 0, "a k-tile begins with the first registers of A");
  // Open sums end with a step whose columns are the last of a part.
  constexpr int kPartBlocks = kConfig.scaled_columns() < 64 ? 1 : kConfig.scaled_columns() / 64;
  if (warp.rows.has(0)) warp.ring.wait(warp.at);
  mbarrier_wait(Smem::x_full(warp.x_at.index), warp.x_at.phase);
  const u32 run = warp.ring.stage(warp.at.index);
  const u32 x = Smem::x(warp.x_at.index);
#pragma unroll
  for (int step = 0; step < kFragments * kBlocks; ++step) {
    const int fragment = step / kBlocks;
    const int block = step % kBlocks;
    // Without a branch: the results of rows that the warp has not are not stored, and X of columns
    // past K is 0. Any integers do for them, those of X's bytes.
    const bool exists = (kConfig.has_whole_k_tiles() || block < left) && warp.rows.has(fragment);
    const u32 own =
        run + static_cast<u32>(fragment * kConfig.run_bytes() + block * kConfig.tile_bytes());
    DequantBlock<kConfig> q;
    if (exists) q.load(own);
    unpack_step<kConfig>(q, numbers, fragment, block, warp.a[step % 2]);
    if constexpr (kConfig.open_sums() > 0) {
      // The step before ended a part: of the k-tile before where this is the first.
      if (block % kPartBlocks == 0) {
        wgmma_wait<0>();
        sums.add_open(step == 0 ? kFragments - 1 : (step - 1) / kBlocks);
        sums.set_scales(numbers, fragment, block * 64 / kConfig.scaled_columns());
      }
    }
    sums.multiply(
        fragment, warp.a[step % 2],
        wgmma_descriptor(x + static_cast<u32>(block * kConfig.box_bytes()), 0, 1024, Swizzle::k128),
        block % kPartBlocks == 0);
    // The MMAs of the step before have ended: their A is written by the next step.
    wgmma_wait<1>();
    if (step == 0) next_x<kConfig>(params, warp, i);
  }
  // All lanes arrive: they have read the warp's q.
  warp_barrier();
  warp.ring.load(warp.at.index);
  warp.at.advance();
  warp.x_last = warp.x_before;
  warp.x_before = warp.x_at;
  warp.x_at.advance();
}

// The sums of the CTA's k-slice. `numbers`: those of the first k-tile.
template <const GemmDequantConfig& kConfig, class P>
CATENARY_DEVICE void sum_k_tiles(const P& params, GemmDequantWarp<kConfig>& warp,
                                 const GemmDequantWork& work,
                                 const GemmDequantNumberLoader<kConfig>& loader,
                                 GemmDequantNumbers<kConfig>& numbers,
                                 GemmDequantSums<kConfig>& sums) {
  GemmDequantNumbers<kConfig> next;
#pragma unroll 1
  for (i32 i = 0; i < work.k_tiles; ++i) {
    if (!kConfig.has_row_scales() && i + 1 < work.k_tiles) loader.load(i + 1, next);
    multiply_k_tile<kConfig>(params, warp, i, work.blocks - i * kConfig.loads.stage_blocks, numbers,
                             sums);
    if constexpr (!kConfig.has_row_scales()) numbers = next;
  }
  wgmma_wait<0>();
  if constexpr (kConfig.has_row_scales()) {
    sums.scale_rows(numbers);
  } else {
    sums.add_open(kConfig.fragments() - 1);
  }
}

// Stores the warp's sums as [column][row] in shared memory; rows of W2 follow those of W.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE void store_sums(const GemmDequantRows<kConfig>& rows,
                                const GemmDequantSums<kConfig>& sums) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int f = 0; f < kConfig.fragments(); ++f) {
    if (!rows.has(f)) continue;
    const u32 row = static_cast<u32>(rows.sum_row(f)) + lane / 4;
#pragma unroll
    for (int i = 0; i < sums.kCount; ++i) {
      const u32 column = static_cast<u32>(i / 4 * 8 + i % 2) + lane % 4 * 2;
      st_shared_f32(dynamic_smem() + column * kConfig.sum_pitch() + (row + i / 2 % 2 * 8) * 4,
                    sums.total[f][i]);
    }
  }
}

}  // namespace catenary
