// SPDX-License-Identifier: Apache-2.0
// `gemm_sm90`: the contraction kernel of sm_90a. Warp-specialised: warpgroup 0 loads, the other one
// or two warpgroups issue wgmma and run the epilogue. docs/kernels/gemm_sm90.md describes it.
//
//   persistent (cluster_k == 0)        a CTA computes several tiles; the pipeline continues from
//                                      tile to tile. Cooperative: the mma warpgroups share the rows
//                                      of a tile. Ping-pong: they take alternate tiles.
//   cluster split-K (cluster_k > 0)    a CTA has one tile, or one k-slice of it; the CTAs of a
//                                      cluster reduce their partials
//                                      (epilogue/cluster_split_k.cuh).
//
// Pipelines (producer -> consumer). s: a stage, w: an mma warpgroup. "First phase": the phase of
// the first wait; a wait for phase 1 of a new barrier falls through.
//
//   barrier      arrivals in a phase                                     waited for by  first phase
//   full[s]      TMA: 1, the load warp's arrive.expect_tx; the loads     mma warpgroups 0
//                deliver the bytes
//                cp.async: 4, one of each load warp after its proxy
//                fence; +1 of thread 0 if TMA loads an operand
//                K tail: the zero-fill warp (cp.async: thread 0)
//                arrives in place of the TMA arrival
//   empty[s]     4 (one of each warp) of each mma warpgroup that reads   load warps     1
//                the stage, in each CTA that this CTA's loads write to
//   tma_full[s]  1, the load warp's arrive.expect_tx; only for K tails   zero-fill warp 0
//                (pipeline/k_tail.cuh)                                   cp.async warps
//   order[w]     ping-pong: 4, one of each warp of the other warpgroup   warpgroup w    w == 0: 1
//                when it has issued the last MMA of its tile                            w == 1: 0
//   partials     cluster split-K: 1, thread 0's arrive.expect_tx;        all threads    0, only
//                st.async of the other CTAs delivers the bytes
//
// order[w] also makes the phases of full[s] unambiguous: a warpgroup waits for a phase only when
// the phase before it is complete.
//
// Per-role timeline (steady state)
//
//   TMA load warp (warp 0; warps 0 and 1 if an operand is a weight: weights, activations)
//     once: dependency wait, unless it loads weights
//     for each k-tile:  acquire empty[s] -> arrive.expect_tx full[s] (warp 0) -> TMA A, B, B2
//   cp.async load warps (warps 0-3, instead of the TMA load warps)
//     once: TMA of weights for the first stages; dependency wait
//     for each k-tile:  acquire empty[s] -> thread 0: expect_tx, TMA of the other operands
//                       -> cp.async, commit -> wait for the oldest k-tile in flight -> rotate or
//                       round it, zero-fill its tail -> proxy fence -> arrive full[oldest]
//   zero-fill warp (warp 1; K-grouped without cp.async)
//     for each K tail:  wait tma_full[s] -> zero-fill -> proxy fence -> arrive full[s]
//   mma warpgroups, cooperative
//     for each k-tile:  scales per block: request those of the next one, from global memory ->
//                       wait full[s] -> issue MMAs, commit -> wait until only they are in flight
//                       -> release empty[previous s]
//     for each tile:    wait for the last MMAs, release -> epilogue -> stores
//   mma warpgroup w, ping-pong
//     for each second tile:  wait order[w] -> k-tiles as above -> arrive order[other w] -> wait for
//                            the last MMAs, release -> epilogue -> stores; skip the stages of the
//                            other tile
//   all warps, cluster split-K
//     mma warpgroups: k-tiles as above -> send partials (st.async) -> CTA barrier -> store own
//     partials; all: CTA barrier -> wait partials -> reduce -> epilogue -> stores
//     row_squares: between the MMAs of a k-tile, the squares of the rows of A of the k-tile before;
//     after them, loads of its own rows; the sums go with the partials
#pragma once

#include "epilogue/ops.cuh"
#include "kernels/gemm_sm90_persistent.cuh"
#include "kernels/gemm_sm90_split.cuh"

namespace catenary {

template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void gemm_sm90(const P& params, const CtaRange& ctas = whole_grid()) {
  if constexpr (kConfig.schedule.cluster_k == 0) {
    gemm_sm90_persistent<kConfig, Epilogue>(params, ctas);
  } else {
    gemm_sm90_split<kConfig, Epilogue>(params, ctas);
  }
}

}  // namespace catenary
