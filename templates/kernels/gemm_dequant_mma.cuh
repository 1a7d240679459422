// SPDX-License-Identifier: Apache-2.0
// An mma warp of `gemm_dequant`: scales and zeros of its rows, A of the MMAs from q, and the sums.
//
//   step: a K block of a fragment, four MMAs. While they run, the next step's q is unpacked to
//   other registers.
//
//     unpack s, load q of s + 1 | wait, scale and add what s - 1 ended | MMAs s |
//     wait for MMAs s - 1 | ...
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

// Which row tiles a warp has: those of one weight, every weight_warpgroups() x 4th.
template <const GemmDequantConfig& kConfig>
struct GemmDequantRows {
  i32 weight;  // 0: W, 1: W2
  i32 first;   // row tile of fragment 0
  i32 tiles;   // of the CTA

  CATENARY_DEVICE GemmDequantRows(const GemmDequantWork& work, u32 warp) : tiles(work.tiles) {
    const i32 warpgroup = static_cast<i32>(warp / 4);
    weight = kConfig.dual ? warpgroup / kConfig.weight_warpgroups() : 0;
    first = warpgroup % kConfig.weight_warpgroups() * 4 + static_cast<i32>(warp % 4);
    // ptxas must not know the row tiles: unpacking stays in a branch, or MMAs whose A is defined in
    // their basic block are serialised (C7513).
    if constexpr (kConfig.schedule.n_slices == 1)
      tiles = static_cast<i32>(shuffle_index(static_cast<u32>(tiles), 0));
  }
  CATENARY_DEVICE i32 row_tile(int fragment) const {
    return first + fragment * 4 * kConfig.weight_warpgroups();
  }
  // The same in all lanes.
  CATENARY_DEVICE bool has(int fragment) const { return row_tile(fragment) < tiles; }
  // The run of a stage.
  CATENARY_DEVICE i32 run(int fragment) const {
    return weight * kConfig.tile.row_tiles + row_tile(fragment);
  }
};

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

// Where they are.
template <const GemmDequantConfig& kConfig>
struct GemmDequantNumberLoader {
  static constexpr BlockNumbers kScale = kConfig.w.scale, kScale2 = kConfig.w2.scale;
  static constexpr BlockNumbers kZero = kConfig.w.zero, kZero2 = kConfig.w2.zero;
  const u8* scales;
  const u8* zeros;
  bool second;  // those of W2
  i32 n[kConfig.fragments()][2];
  i64 column;  // of the CTA's first k-tile

  template <class P>
  CATENARY_DEVICE GemmDequantNumberLoader(const P& params, const GemmDequantWork& work,
                                          const GemmDequantRows<kConfig>& rows)
      : second(kConfig.dual && rows.weight == 1), column(work.block0 * kPackedColumns) {
    scales = start<kScale>(params, work);
    zeros = kConfig.w.has_zero ? start<kZero>(params, work) : nullptr;
    if constexpr (kConfig.dual) {
      if (second) {
        scales = start<kScale2>(params, work);
        zeros = kConfig.w.has_zero ? start<kZero2>(params, work) : nullptr;
      }
    }
#pragma unroll
    for (int f = 0; f < kConfig.fragments(); ++f) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        // Rows past N are clamped to the last one: their results are not stored.
        const i64 row =
            (work.tile0 + rows.row_tile(f)) * kPackedRows + lower * 8 + threadIdx.x % 32 / 4;
        n[f][lower] = static_cast<i32>(row < kConfig.space.n.size ? row : kConfig.space.n.size - 1);
      }
    }
  }

  template <BlockNumbers kNumbers, class P>
  static CATENARY_DEVICE const u8* start(const P& params, const GemmDequantWork& work) {
    return static_cast<const u8*>(params.ptr[kNumbers.slot]) +
           weight_offset<kConfig, kNumbers.stride_batch, kNumbers.stride_group>(work) *
               dtype_bytes(kNumbers.dtype);
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
      load_block(static_cast<u32>(at / kConfig.w.block_columns), part, numbers);
    }
  }

  // Address of the number of a row and a block; the matrix begins at `from`.
  template <BlockNumbers kNumbers, BlockNumbers kNumbers2>
  CATENARY_DEVICE const u8* number(const u8* from, i32 row, u32 block) const {
    constexpr i64 kRows = kConfig.space.n.size;
    constexpr i64 kBlocks = ceil_div(kConfig.space.k.size, kConfig.w.block_columns);
    constexpr u32 kBytes = dtype_bytes(kNumbers.dtype);
    const i64 row_stride = stride_of(second, kNumbers.stride_row, kNumbers2.stride_row);
    const i64 block_stride = stride_of(second, kNumbers.stride_block, kNumbers2.stride_block);
    if constexpr (has_short_offsets(kNumbers, kRows, kBlocks) &&
                  has_short_offsets(kNumbers2, kRows, kBlocks)) {
      const u32 short_row = static_cast<u32>(row_stride);
      const u32 short_block = static_cast<u32>(block_stride);
      return from + (static_cast<u32>(row) * short_row + block * short_block) * kBytes;
    }
    return from + (row * row_stride + block * block_stride) * kBytes;
  }

  CATENARY_DEVICE void load_block(u32 block, int part, GemmDequantNumbers<kConfig>& numbers) const {
#pragma unroll
    for (int f = 0; f < kConfig.fragments(); ++f) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const i32 row = n[f][lower];
        const u8* scale = number<kScale, kScale2>(scales, row, block);
        numbers.scales[f][part][lower] =
            kScale.dtype == DType::kF32 ? ld_global_u32(scale) : ld_global_u16(scale);
        if constexpr (kConfig.w.has_zero)
          numbers.zeros[f][part][lower] = ld_global_u8(number<kZero, kZero2>(zeros, row, block));
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

// The accumulators of a thread: scaled sums of each fragment, and open sums. An open sum is not
// scaled yet.
template <const GemmDequantConfig& kConfig>
struct GemmDequantSums {
  static constexpr int kCount = kConfig.tile.columns / 2;
  static constexpr int kOpen = kConfig.open_sums();
  using Fragment = U32x4[4];  // A of the MMAs of a step

  float total[kConfig.fragments()][kCount] = {};
  float open[kOpen > 0 ? kOpen : 1][kCount] = {};
  float scale[kOpen > 0 ? kOpen : 1][2] = {};  // of the open sums: rows g and g + 8

  // Adds the open sums to those of a fragment, scaled. Their MMAs are waited for.
  CATENARY_DEVICE void add_open(int fragment) {
    wgmma_wait<0>();
#pragma unroll
    for (int o = 0; o < kOpen; ++o) {
      wgmma_pin(open[o]);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        total[fragment][i] = fma_rn(scale[o][i / 2 % 2], open[o][i], total[fragment][i]);
      }
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
    wgmma_wait<0>();
#pragma unroll
    for (int f = 0; f < kConfig.fragments(); ++f) {
      wgmma_pin(total[f]);
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        total[f][i] = fma_rn(numbers.scale(f, 0, i / 2 % 2), total[f][i], 0.0f);
    }
  }
};

// Shared address of the q of a step: K block `block` of the stage at `stage`.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE u32 step_address(u32 stage, const GemmDequantRows<kConfig>& rows, int fragment,
                                 int block) {
  return stage + static_cast<u32>(kConfig.x_bytes() + rows.run(fragment) * kConfig.run_bytes() +
                                  block * kConfig.tile_bytes());
}

// A of a step.
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

// The steps of k-tile i. `tail`: its last blocks may be missing.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE void multiply_k_tile(i32 i, i32 blocks, const GemmDequantRows<kConfig>& rows,
                                     const GemmDequantNumbers<kConfig>& numbers,
                                     GemmDequantSums<kConfig>& sums, U32x4 (&a)[2][4],
                                     DequantBlock<kConfig>& q) {
  using Stages = GemmDequantStages<kConfig>;
  constexpr int kBlocks = kConfig.loads.stage_blocks;
  constexpr int kFragments = kConfig.fragments();
  constexpr int kSteps = kFragments * kBlocks;
  constexpr bool kWhole = kConfig.space.k.size % kConfig.stage_columns() == 0;
  // Open sums end with a step whose columns are the last of a part.
  constexpr int kPartBlocks = kConfig.scaled_columns() < 64 ? 1 : kConfig.scaled_columns() / 64;
  const u32 stage = Stages::stage(i);
  // Phase i / stages of the stage's barrier.
  mbarrier_wait(Stages::full(i), Stages::phase(i));
  // Where the warp has no row tile, or K no block, A stays as it is, finite: those rows are not
  // stored, and X is 0 past K.
  const auto has = [&](int step) {
    return (kWhole || step % kBlocks < blocks) && rows.has(step / kBlocks);
  };
  const auto load = [&](int step) {
    if (has(step))
      q = DequantBlock<kConfig>(step_address<kConfig>(stage, rows, step / kBlocks, step % kBlocks));
  };
  load(0);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int fragment = step / kBlocks;
    const int block = step % kBlocks;
    if (has(step)) unpack_step<kConfig>(q, numbers, fragment, block, a[step % 2]);
    if (step + 1 < kSteps) load(step + 1);
    if constexpr (kConfig.open_sums() > 0) {
      // The step before ended a part: of the k-tile before where this is the first.
      if (block % kPartBlocks == 0) {
        sums.add_open(step == 0 ? kFragments - 1 : (step - 1) / kBlocks);
#pragma unroll
        for (int o = 0; o < sums.kOpen; ++o) {
          const int part = block * 64 / kConfig.scaled_columns() + o;
          sums.scale[o][0] = numbers.scale(fragment, part, 0);
          sums.scale[o][1] = numbers.scale(fragment, part, 1);
        }
      }
    }
    const u32 x = stage + static_cast<u32>(block * kConfig.box_bytes());
    sums.multiply(fragment, a[step % 2], wgmma_descriptor(x, 0, 1024, Swizzle::k128),
                  block % kPartBlocks == 0);
    // The registers of the step before are written next.
    wgmma_wait<1>();
    if (step == 0 && i > 0) {
      // Each lane arrives: it has read its q of the k-tile before, whose MMAs have ended.
      mbarrier_arrive(Stages::empty(i - 1));
    }
  }
}

// The sums of the CTA's k-slice.
template <const GemmDequantConfig& kConfig, class P>
CATENARY_DEVICE void sum_k_tiles(const P& params, const GemmDequantWork& work,
                                 const GemmDequantRows<kConfig>& rows,
                                 GemmDequantSums<kConfig>& sums) {
  static_assert(kConfig.fragments() * kConfig.loads.stage_blocks % 2 == 0,
                "a k-tile begins with the registers that the one before does not end with");
  const GemmDequantNumberLoader<kConfig> loader(params, work, rows);
  GemmDequantNumbers<kConfig> numbers, next;
  if constexpr (!kConfig.loads.w_is_weight) griddepcontrol_wait();
  // Rows of no group have no numbers.
  if (!kConfig.has_groups() || work.k_tiles > 0) loader.load(0, numbers);
  if constexpr (kConfig.loads.w_is_weight) griddepcontrol_wait();
  U32x4 a[2][4] = {};
  DequantBlock<kConfig> q = {};
  // The zeros are in their registers: within the loop ptxas would wait for every MMA.
#pragma unroll
  for (int o = 0; o < sums.kOpen; ++o) wgmma_pin(sums.open[o]);
#pragma unroll
  for (int f = 0; sums.kOpen == 0 && f < kConfig.fragments(); ++f) wgmma_pin(sums.total[f]);
#pragma unroll 1
  for (i32 i = 0; i < work.k_tiles; ++i) {
    if (!kConfig.has_row_scales() && i + 1 < work.k_tiles) loader.load(i + 1, next);
    multiply_k_tile<kConfig>(i, work.blocks - i * kConfig.loads.stage_blocks, rows, numbers, sums,
                             a, q);
    if constexpr (!kConfig.has_row_scales()) numbers = next;
  }
  if constexpr (kConfig.has_row_scales()) {
    if (!kConfig.has_groups() || work.k_tiles > 0) sums.scale_rows(numbers);
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
    const u32 row = static_cast<u32>(rows.run(f)) * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < sums.kCount; ++i) {
      const u32 column = static_cast<u32>(i / 4 * 8 + i % 2) + lane % 4 * 2;
      st_shared_f32(dynamic_smem() + column * kConfig.sum_pitch() + (row + i / 2 % 2 * 8) * 4,
                    sums.total[f][i]);
    }
  }
}

}  // namespace catenary
