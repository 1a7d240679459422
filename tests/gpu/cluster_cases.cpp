// SPDX-License-Identifier: Apache-2.0
// `gemm_sm90` in clusters of four and eight CTAs, which share A along rows and B along columns,
// with pairs of subtiles stored at a time, and with k-slices that a CTA sums separately.
#include <fmt/format.h>

#include "tests/gpu/sm90_cases.h"

namespace catenary::gpu_suite {

namespace {

constexpr const char* kBatched =
    "chain a(input x: f16[515, 3, 328], weight w: f16[3, 784, 328]) {\n"
    "  y = contract \"bgk,gnk->bgn\"(x, w)\n  return y: f16 }";

constexpr const char* kSymbolic =
    "chain a[M in 260..900](input x: bf16[M, 1104], weight w: bf16[520, 1104]) {\n"
    "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }";

constexpr const char* kDual =
    "chain a(input x: bf16[600, 520], weight w: bf16[584, 520], weight v: bf16[584, 520]) {\n"
    "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
    "  h = mul(relu(g), u)\n  return h: bf16 }";

constexpr const char* kResidual =
    "chain a(input x: bf16[600, 520], weight w: bf16[584, 520], input r: bf16[600, 584]) {\n"
    "  y = add(contract \"mk,nk->mn\"(x, w), r)\n  return y: bf16 }";

constexpr const char* kMGrouped =
    "chain a(input x: bf16[900, 264], weight w: bf16[4, 392, 264], input e: i32[4]) {\n"
    "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: bf16 }";

constexpr const char* kKGrouped =
    "chain a(input x: bf16[900, 264], input w: bf16[900, 392], input e: i32[4]) {\n"
    "  y = contract \"km,kn->gmn\"(x, w) ragged k by e over g\n  return y: f32 }";

constexpr const char* kFp8 =
    "chain a(input x: e4m3[600, 1040], weight w: e4m3[520, 1040], input s: f32[600]) {\n"
    "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: bf16 }";

const std::vector<std::vector<i32>> kEnds4of900 = {
    {225, 450, 675, 900}, {0, 0, 0, 0}, {0, 0, 900, 900}, {1, 130, 131, 800}};

}  // namespace

std::vector<WrittenCase> cluster_cases() {
  return {
      forced_sm90("clusters of 2 x 2", dense_chain(2050, 2056, 520), "128x128x64p2s6c2n2"),
      forced_sm90("clusters of 2 x 4", dense_chain(1100, 1544, 1096), "128x128x64p2s6c2n4"),
      forced_sm90("clusters of 4 x 2", dense_chain(1100, 1544, 1096), "64x128x64p2s8c4n2"),
      forced_sm90("clusters of 4 x 1", dense_chain(1100, 1544, 5576), "64x256x64p2s4c4"),
      forced_sm90("clusters of 1 x 4", dense_chain(520, 2312, 1096), "192x128x64g3s5n4"),
      forced_sm90("clusters of 2 x 4, cooperative", dense_chain(600, 2312, 1096),
                  "128x256x64g2s4c2n4"),
      forced_sm90("clusters of 4 x 2, 256 rows", dense_chain(2312, 600, 1096),
                  "256x128x64g2s4c4n2"),
      forced_sm90("clusters of 2 x 2, one warpgroup", dense_chain(300, 328, 1096),
                  "64x64x64g1s8c2n2"),
      forced_sm90("clusters of 2 x 2, split-K", dense_chain(300, 392, 5560), "64x128x64p2s8c2n2",
                  3),
      forced_sm90("clusters of 2 x 2, M-major A", dense_chain(1032, 776, 1096, "km"),
                  "128x128x64p2s6c2n2"),
      forced_sm90("clusters of 2 x 2, N-major B", dense_chain(1030, 776, 1096, "mk", "kn"),
                  "128x128x64p2s6c2n2"),
      forced_sm90("clusters of 2 x 4, groups", kBatched, "128x128x64p2s6c2n4"),
      forced_sm90("clusters of 2 x 2, dual GEMM", kDual, "128x64x64p2s6c2n2"),
      forced_sm90("stores in pairs", dense_chain(1100, 1544, 1096), "128x160x64p2s5"),
      forced_sm90("stores in pairs, M clusters", dense_chain(600, 2312, 520), "128x160x64p2s5c2"),
      forced_sm90("stores in pairs, 176 columns", dense_chain(600, 1408, 520), "128x176x64p2s5c2"),
      forced_sm90("stores in pairs, 168 columns", dense_chain(400, 1336, 520), "128x168x64p2s5"),
      forced_sm90("256 x 160", dense_chain(1100, 1544, 520), "256x160x64g2s4"),
      forced_sm90("256 x 144, M clusters", dense_chain(1100, 1288, 1096), "256x144x64g2s4c2"),
      forced_sm90("sums of 2 k-slices", dense_chain(1100, 1544, 1096), "128x128x64g2s6z2"),
      forced_sm90("sums of 3 k-slices, ping-pong", dense_chain(520, 776, 1104), "64x128x64p2s8z3"),
      forced_sm90("sums of 4 k-slices, M clusters", dense_chain(1100, 1544, 5576),
                  "128x128x64g2s6c2z4"),
      forced_sm90("sums of 2 k-slices, dual GEMM", kDual, "128x64x64g2s6z2"),
      forced_sm90("sums of 2 k-slices, residual", kResidual, "128x128x64g2s5z2"),
      forced_sm90("sums of 4 k-slices, groups", kBatched, "64x64x64g1s8z4"),
      forced_sm90("sums of 2 k-slices, M-major A", dense_chain(1032, 776, 1096, "km"),
                  "128x128x64g2s6z2"),
      forced_sm90("clusters of 2 x 2, residual", kResidual, "128x128x64p2s5c2n2"),
      forced_sm90("clusters of 2 x 2, fp8", kFp8, "128x128x128p2s6c2n2"),
      {"clusters of 4 x 1, symbol",
       kSymbolic,
       {260, 500, 900},
       {},
       0,
       "64x128x64p2s8c4",
       "gemm_sm90"},
      {"clusters of 2 x 2, M-grouped",
       kMGrouped,
       {0},
       kEnds4of900,
       0,
       "64x128x64p2s8c2n2",
       "gemm_sm90"},
      {"clusters of 2 x 2, K-grouped",
       kKGrouped,
       {0},
       kEnds4of900,
       0,
       "128x128x64p2s6c2n2",
       "gemm_sm90"},
  };
}

}  // namespace catenary::gpu_suite
