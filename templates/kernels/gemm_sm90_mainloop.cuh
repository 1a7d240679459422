// SPDX-License-Identifier: Apache-2.0
// The mainloop of the mma warpgroups of `gemm_sm90`.
#pragma once

#include "kernels/gemm_sm90_barriers.cuh"
#include "kernels/gemm_sm90_scales.cuh"
#include "kernels/gemm_sm90_traits.cuh"
#include "pipeline/k_tiles.cuh"
#include "pipeline/mma.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/registers.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"

namespace catenary {

// Triggers the next kernel where that is due when the first round of stages has arrived.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE void trigger_after_first_round(u32 k_tile, u32 k_tiles) {
  if constexpr (GemmSm90Traits<kConfig>::kTriggersLate) {
    if (k_tile + 1 == kConfig.tile.stages &&
        pdl_trigger<kPipelineOf<kConfig>>(k_tiles) == PdlTrigger::kFirstRoundArrived) {
      griddepcontrol_launch_dependents();
    }
  }
}

// Hands the tensor cores over to the other warpgroup: its last MMA is issued.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE void pass_order(u32 smem, u32 warpgroup) {
  using T = GemmSm90Traits<kConfig>;
  if constexpr (T::kPingPong) {
    // Without a k-tile the lanes have not converged since they waited for order[warpgroup]. A lane
    // still waiting would miss its phase when the barrier has completed two more.
    if constexpr (T::kMayHaveNoKTile) warp_barrier();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(order_barrier<kConfig>(smem, warpgroup ^ 1));
  }
}

// Nothing runs beside the MMAs.
struct NothingBeside {
  CATENARY_DEVICE void add(u32) {}
  CATENARY_DEVICE void load(u32) {}
};

// Issues the MMAs of k-tiles [begin, end) of a tile's `k_tiles`; the first one clears d. Those of
// one k-tile stay in flight: a stage is released when the MMAs of the next k-tile have been issued
// and its own have completed. beside.add(i) runs after those of k-block i of each k-tile, and
// beside.load(shared address of the stage) after all of them. Returns the stage of the last one.
template <const GemmSm90Config& kConfig, class Beside>
CATENARY_DEVICE u32 issue_k_tiles(typename GemmSm90Traits<kConfig>::Accumulators& d, u32 smem,
                                  u32 row, u32 begin, u32 end, u32 k_tiles,
                                  typename GemmSm90Traits<kConfig>::State& state, Beside& beside) {
  using T = GemmSm90Traits<kConfig>;
  u32 previous = 0;
#pragma unroll 1
  for (u32 k_tile = begin; k_tile < end; ++k_tile) {
    const u32 stage = smem + state.stage * kConfig.stage_bytes();
    mbarrier_wait(full_barrier<kPipelineOf<kConfig>>(smem, state.stage), state.phase);
    trigger_after_first_round<kConfig>(k_tile, k_tiles);
    wgmma_fence();
    mma_k_tile<kPipelineOf<kConfig>>(d, stage, row, T::kMayHaveNoKTile || k_tile != begin,
                                     [&](u32 i) { beside.add(i); });
    wgmma_commit();
    beside.load(stage);
    wgmma_wait<1>();
    if (k_tile != begin) release_stage<kPipelineOf<kConfig>>(smem, previous);
    previous = state.stage;
    state.advance();
  }
  return previous;
}

// The mainloop of one tile where d stays in the tensor cores. overlap() runs beside the last MMAs.
template <const GemmSm90Config& kConfig, class Beside, class Overlap>
CATENARY_DEVICE void plain_mainloop(typename GemmSm90Traits<kConfig>::Accumulators& d, u32 smem,
                                    u32 warpgroup, const KTileRange& range,
                                    typename GemmSm90Traits<kConfig>::State& state, Beside& beside,
                                    Overlap overlap) {
  using T = GemmSm90Traits<kConfig>;
  const u32 k_tiles = static_cast<u32>(range.end - range.begin);
  const u32 row = T::kPingPong ? 0 : warpgroup * kConfig.warpgroup_m();
  // After the loop, only for empty tiles, this would be cheaper, but then tiles spill (RESULTS
  // sm90-10).
  if constexpr (T::kMayHaveNoKTile) clear_accumulators(d);
  const u32 previous = issue_k_tiles<kConfig>(d, smem, row, 0, k_tiles, k_tiles, state, beside);
  pass_order<kConfig>(smem, warpgroup);
  overlap();
  wgmma_wait<0>();
#pragma unroll
  for (int f = 0; f < T::kFragments; ++f) wgmma_pin(as_one_array(d[f]));
  if (!T::kMayHaveNoKTile || k_tiles != 0) release_stage<kPipelineOf<kConfig>>(smem, previous);
}

// The mainloop of one tile whose k-slices are summed separately. The slices are those of a split-K
// cluster of as many CTAs, and their sums are added in the same order. So the bits are the same.
template <const GemmSm90Config& kConfig, class Overlap>
CATENARY_DEVICE void sliced_mainloop(typename GemmSm90Traits<kConfig>::Accumulators& d, u32 smem,
                                     u32 warpgroup, const KTileRange& range,
                                     typename GemmSm90Traits<kConfig>::State& state,
                                     Overlap overlap) {
  using T = GemmSm90Traits<kConfig>;
  static_assert(!T::kMayHaveNoKTile && !kConfig.promotes(), "every slice has k-tiles");
  constexpr u32 kSlices = kConfig.schedule.sum_slices;
  const u32 k_tiles = static_cast<u32>(range.end - range.begin);
  const u32 row = T::kPingPong ? 0 : warpgroup * kConfig.warpgroup_m();
  clear_accumulators(d);
#pragma unroll 1
  for (u32 slice = 0; slice < kSlices; ++slice) {
    const auto border = [&](u32 i) {
      return static_cast<u32>(static_cast<u64>(k_tiles) * i / kSlices);
    };
    typename T::Accumulators sums;
    NothingBeside nothing;
    const u32 previous = issue_k_tiles<kConfig>(sums, smem, row, border(slice), border(slice + 1),
                                                k_tiles, state, nothing);
    if (slice + 1 == kSlices) pass_order<kConfig>(smem, warpgroup);
    wgmma_wait<0>();
    release_stage<kPipelineOf<kConfig>>(smem, previous);
#pragma unroll
    for (int f = 0; f < T::kFragments; ++f) {
      wgmma_pin(as_one_array(sums[f]));
#pragma unroll
      for (int a = 0; a < T::kAccumulators; ++a) {
#pragma unroll
        for (int i = 0; i < kConfig.tile.block_n / 2; ++i) {
          const float sum = sums[f][a][i];
          d[f][a][i] = slice == 0 ? sum : d[f][a][i] + sum;
        }
      }
    }
  }
  overlap();
}

// The mainloop of one tile where sums are promoted: the tensor cores sum a part (one fragment of A
// times one B) of one k-tile in registers of their own, which are then added to d, with scales per
// block multiplied by those of the k-tile. The scales are requested a round of the loop early,
// after those of the round are multiplied with each other. The MMAs of the other warpgroup run
// during the additions. With two sets of partial sums, those of the second part do. No MMA is in
// flight at the end of the loop's body, because ptxas would serialise the MMAs (C7514).
template <const GemmSm90Config& kConfig>
struct PromotedMainloop {
  using T = GemmSm90Traits<kConfig>;
  static constexpr int kSets = kConfig.partial_sets();
  static constexpr u32 kParts = T::kAccumulators * T::kFragments;
  static constexpr int kRegisters = kConfig.tile.block_n / 2;
  static_assert(math_info(kConfig.space.math).promote_k == kConfig.block_k(),
                "sums of one k-tile are promoted");
  static_assert(kSets == 1 || kParts == 1 || kParts % 2 == 0, "two sets take two parts");
  using Partial = float[kRegisters];
  using Scales = TileScales<kConfig>;
  using KTileScales = typename Scales::KTile;
  using Factors = typename Scales::Factors;

  // Part number `part` is fragment part / kAccumulators, accumulator part % kAccumulators.
  static CATENARY_DEVICE void issue(Partial& sums, const TileDescriptors& tile, u32 part) {
    wgmma_fence();
    mma_partial<kPipelineOf<kConfig>>(sums, tile, part / T::kAccumulators, part % T::kAccumulators);
    wgmma_commit();
  }

  // The pin of d keeps the additions after the wait. One of `sums` would define an accumulator
  // while MMAs of the other set run.
  static CATENARY_DEVICE void add(typename T::Accumulators& d, u32 part, const Partial& sums,
                                  const Scales& scales, const Factors& of_k_tile) {
    Partial& sum = d[part / T::kAccumulators][part % T::kAccumulators];
    wgmma_pin(sum);
    scales.add(sum, sums, part, of_k_tile);
  }

  // Where the loop is: shared memory and warpgroup, the stage, whether it is at the last k-tile,
  // and the scales of the tile.
  struct Place {
    u32 smem;
    u32 warpgroup;
    u32 stage;
    bool last;
    const Scales& scales;
  };

  static CATENARY_DEVICE void one_set(typename T::Accumulators& d, Partial& sums,
                                      const TileDescriptors& tile, const Factors& of_k_tile,
                                      const Place& at) {
#pragma unroll
    for (u32 part = 0; part < kParts; ++part) {
      issue(sums, tile, part);
      if (part + 1 == kParts && at.last) pass_order<kConfig>(at.smem, at.warpgroup);
      wgmma_wait<0>();
      if (part + 1 == kParts) release_stage<kPipelineOf<kConfig>>(at.smem, at.stage);
      add(d, part, sums, at.scales, of_k_tile);
    }
  }

  // Two parts of one k-tile at a time.
  static CATENARY_DEVICE void two_parts(typename T::Accumulators& d, Partial& first,
                                        Partial& second, const TileDescriptors& tile,
                                        const Factors& of_k_tile, const Place& at) {
#pragma unroll
    for (u32 part = 0; part < kParts; part += 2) {
      issue(first, tile, part);
      issue(second, tile, part + 1);
      if (part + 2 == kParts && at.last) pass_order<kConfig>(at.smem, at.warpgroup);
      wgmma_wait<1>();
      add(d, part, first, at.scales, of_k_tile);
      wgmma_wait<0>();
      if (part + 2 == kParts) release_stage<kPipelineOf<kConfig>>(at.smem, at.stage);
      add(d, part + 1, second, at.scales, of_k_tile);
    }
  }

  // A k-tile with its stage and scales.
  struct KTile {
    TileDescriptors tile;
    u32 stage;
    Factors factors;
  };

  // The only part of two k-tiles; `at` is the second one.
  static CATENARY_DEVICE void two_k_tiles(typename T::Accumulators& d, Partial& first,
                                          Partial& second, const KTile& before,
                                          const TileDescriptors& tile, const Factors& of_k_tile,
                                          const Place& at) {
    issue(first, before.tile, 0);
    issue(second, tile, 0);
    if (at.last) pass_order<kConfig>(at.smem, at.warpgroup);
    wgmma_wait<1>();
    release_stage<kPipelineOf<kConfig>>(at.smem, before.stage);
    add(d, 0, first, at.scales, before.factors);
    wgmma_wait<0>();
    release_stage<kPipelineOf<kConfig>>(at.smem, at.stage);
    add(d, 0, second, at.scales, of_k_tile);
  }

  template <class Overlap>
  static CATENARY_DEVICE void run(typename T::Accumulators& d, u32 smem, u32 warpgroup,
                                  const KTileRange& range, typename T::State& state,
                                  const Scales& scales, Overlap overlap) {
    const u32 k_tiles = static_cast<u32>(range.end - range.begin);
    const u32 row = T::kPingPong ? 0 : warpgroup * kConfig.warpgroup_m();
    const auto arrived = [&](u32 k_tile) {
      mbarrier_wait(full_barrier<kPipelineOf<kConfig>>(smem, state.stage), state.phase);
      trigger_after_first_round<kConfig>(k_tile, k_tiles);
      return tile_descriptors<kPipelineOf<kConfig>>(smem + state.stage * kConfig.stage_bytes(),
                                                    row);
    };
    const auto place = [&](u32 k_tile) {
      return Place{smem, warpgroup, state.stage, k_tile + 1 == k_tiles, scales};
    };
    // Requests the scales of `k_tile`, or of the last one.
    const auto request = [&](u32 k_tile, KTileScales& next) {
      scales.load(range.begin + (k_tile < k_tiles ? k_tile : k_tiles - 1), next);
    };
    clear_accumulators(d);
    Partial first;
    u32 k_tile = 0;
    KTileScales next = {};
    if (!T::kMayHaveNoKTile || k_tiles != 0) request(0, next);
    if constexpr (kSets == 2 && kParts == 1) {
      Partial second;
      KTileScales next_second = {};
      if (k_tiles > 1) request(1, next_second);
#pragma unroll 1
      for (; k_tile + 1 < k_tiles; k_tile += 2) {
        const Factors of_first = Scales::factors(next), of_second = Scales::factors(next_second);
        request(k_tile + 2, next);
        request(k_tile + 3, next_second);
        const KTile before = {arrived(k_tile), state.stage, of_first};
        state.advance();
        const TileDescriptors tile = arrived(k_tile + 1);
        two_k_tiles(d, first, second, before, tile, of_second, place(k_tile + 1));
        state.advance();
      }
    } else if constexpr (kSets == 2) {
      Partial second;
#pragma unroll 1
      for (; k_tile < k_tiles; ++k_tile) {
        const Factors of_k_tile = Scales::factors(next);
        request(k_tile + 1, next);
        two_parts(d, first, second, arrived(k_tile), of_k_tile, place(k_tile));
        state.advance();
      }
    }
    if constexpr (kSets == 1 || kParts == 1) {
      // All k-tiles, or the last of an odd number where the loop above takes two at a time.
#pragma unroll 1
      for (; k_tile < k_tiles; ++k_tile) {
        const Factors of_k_tile = Scales::factors(next);
        request(k_tile + 1, next);
        one_set(d, first, arrived(k_tile), of_k_tile, place(k_tile));
        state.advance();
      }
    }
    if (T::kMayHaveNoKTile && k_tiles == 0) pass_order<kConfig>(smem, warpgroup);
    overlap();
  }
};

// The mainloop of one tile. `scales`: of its rows and columns. `beside` runs beside the MMAs of
// each k-tile, where sums are not promoted and not of k-slices.
template <const GemmSm90Config& kConfig, class Beside, class Overlap>
CATENARY_DEVICE void mainloop(typename GemmSm90Traits<kConfig>::Accumulators& d, u32 smem,
                              u32 warpgroup, const KTileRange& range,
                              typename GemmSm90Traits<kConfig>::State& state,
                              const TileScales<kConfig>& scales, Beside& beside, Overlap overlap) {
  if constexpr (kConfig.promotes()) {
    PromotedMainloop<kConfig>::run(d, smem, warpgroup, range, state, scales, overlap);
  } else if constexpr (kConfig.schedule.sum_slices > 1) {
    sliced_mainloop<kConfig>(d, smem, warpgroup, range, state, overlap);
  } else {
    plain_mainloop<kConfig>(d, smem, warpgroup, range, state, beside, overlap);
  }
}

}  // namespace catenary
