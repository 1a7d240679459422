// SPDX-License-Identifier: Apache-2.0
// `gemm_sm90` on transposed products: rows of its tiles are columns of D, which the epilogue stores
// along M.
#include <fmt/format.h>

#include "tests/gpu/sm90_cases.h"

namespace catenary::gpu_suite {
namespace {

// A factor for each row of D: an odd number of them is an odd number of the tile's columns.
std::string scaled_rows(i64 m, i64 n, i64 k) {
  return fmt::format(
      "chain a(input x: f16[{0}, {2}], weight w: f16[{1}, {2}], input s: f32[{0}]) {{\n"
      "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: f16 }}",
      m, n, k);
}

constexpr const char* kResidual =
    "chain a(input x: bf16[301, 520], weight w: bf16[584, 520], input r: bf16[301, 584],\n"
    "        input t: bf16[301, 584], input s: bf16[301]) {\n"
    "  y = add(mul(contract \"mk,nk->mn\"(x, w), r), t)\n  z = mul(y, s @ \"m\")\n"
    "  return y: bf16, z: f32 }";

constexpr const char* kBatched =
    "chain a(input x: bf16[143, 3, 328], weight w: bf16[3, 784, 328], weight b: bf16[3, 784]) {\n"
    "  y = silu(add(contract \"bgk,gnk->bgn\"(x, w), b @ \"gn\"))\n  return y: bf16 }";

constexpr const char* kSum =
    "chain a(input x: bf16[290, 520], weight w: bf16[520, 328],\n"
    "        input z: bf16[290, 264], weight v: bf16[264, 328]) {\n"
    "  y = add(contract \"mk,kn->mn\"(x, w), contract \"mk,kn->mn\"(z, v))\n  return y: bf16 }";

constexpr const char* kTf32 =
    "chain a(input x: f32[290, 260], weight w: f32[328, 260]) {\n"
    "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }";

constexpr const char* kFp8 =
    "chain a(input x: e4m3[290, 1040], weight w: e4m3[520, 1040], input s: f32[290]) {\n"
    "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: bf16 }";

}  // namespace

std::vector<WrittenCase> transposed_cases() {
  return {
      forced_sm90("transposed, ping-pong", dense_chain(144, 2568, 520), "128x72x64p2s6t"),
      forced_sm90("transposed, 176 columns", dense_chain(349, 1544, 520), "128x176x64p2s5t"),
      forced_sm90("transposed, 256 x 160", dense_chain(467, 2056, 520), "256x160x64g2s4c2t"),
      forced_sm90("transposed, 64 rows", dense_chain(301, 1544, 1096), "64x152x64p2s6t"),
      forced_sm90("transposed, cooperative", dense_chain(229, 1544, 1096), "128x232x64g2s4t"),
      forced_sm90("transposed, 256 rows", dense_chain(131, 2056, 264), "256x128x64g2s4t"),
      forced_sm90("transposed, 192 rows", dense_chain(333, 1544, 264), "192x168x64g3s4t"),
      forced_sm90("transposed, one warpgroup", dense_chain(97, 392, 264), "64x104x64g1s6t"),
      forced_sm90("transposed, M clusters", dense_chain(301, 1544, 1096), "128x80x64p2s6c2t"),
      forced_sm90("transposed, N clusters", dense_chain(301, 1544, 1096), "128x152x64g2s5n2t"),
      forced_sm90("transposed, clusters of 4 x 1", dense_chain(144, 2568, 1096),
                  "64x144x64g1s8c4t"),
      forced_sm90("transposed, boxes of 8 in turns", dense_chain(136, 2056, 1096),
                  "64x136x64p2s7c4t"),
      forced_sm90("transposed, rows far past D", dense_chain(75, 2568, 1096), "64x104x64g1s8c4t"),
      forced_sm90("transposed, clusters of 4 x 2", dense_chain(208, 4616, 1096),
                  "128x104x64g2s6c4n2t"),
      forced_sm90("transposed, clusters of 2 x 4", dense_chain(301, 1544, 1096),
                  "64x80x64p2s6c2n4t"),
      forced_sm90("transposed, 192 rows in 2 x 2", dense_chain(333, 3080, 520),
                  "192x168x64g3s4c2n2t"),
      forced_sm90("transposed, groups in 4 x 1", kBatched, "128x144x64g2s5c4t"),
      forced_sm90("transposed, split-K in 4 x 1", dense_chain(200, 1544, 5560), "128x200x64g2s4c4t",
                  3),
      forced_sm90("transposed, sum of products in 4 x 1", kSum, "64x104x64p2s6c4t"),
      forced_sm90("transposed, tf32 in 4 x 1", kTf32, "64x104x32p2s6c4t"),
      forced_sm90("transposed, fp8 in 4 x 1", kFp8, "64x104x128p2s6c4t"),
      forced_sm90("transposed, split-K", dense_chain(301, 776, 5560), "128x104x64p2s6t", 3),
      forced_sm90("transposed, N-major A", dense_chain(301, 776, 520, "mk", "kn"),
                  "128x104x64p2s6t"),
      forced_sm90("transposed, M-major B", dense_chain(304, 776, 520, "km", "nk"),
                  "128x128x64p2s5t"),
      forced_sm90("transposed, odd M", scaled_rows(229, 584, 264), "128x80x64p2s6t"),
      forced_sm90("transposed, M of one more tile", scaled_rows(161, 584, 264), "128x80x64p2s6t"),
      forced_sm90("transposed, residual", kResidual, "128x104x64p2s4t"),
      forced_sm90("transposed, groups", kBatched, "128x144x64g2s5t"),
      forced_sm90("transposed, sum of products", kSum, "128x104x64p2s6t"),
      forced_sm90("transposed, tf32", kTf32, "128x104x32p2s6t"),
      forced_sm90("transposed, fp8", kFp8, "128x104x128p2s6t"),
  };
}

}  // namespace catenary::gpu_suite
