// SPDX-License-Identifier: Apache-2.0
// Handwritten small-M chains for `gemm_sm90`: TMA boxes with the rows of A, and cluster split-K.
// Sizes are small enough for the simulator.
#include "tests/gpu/sm90_cases.h"

namespace catenary::gpu_suite {
namespace {

// y = silu(x w^T + b), odd N too.
std::string linear(i64 m, i64 n, i64 k, const char* dtype = "bf16") {
  return fmt::format(
      "chain a(input x: {0}[{1}, {3}], weight w: {0}[{2}, {3}], weight b: f32[{2}] align 4) {{\n"
      "  y = silu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: {0} align 2 }}",
      dtype, m, n, k);
}

WrittenCase forced(const char* tile, const std::string& name, std::string text,
                   std::vector<i64> symbols = {}, int split_k = 0) {
  WrittenCase made =
      forced_sm90(fmt::format("small M, {}, {}", tile, name), std::move(text), tile, split_k);
  made.symbols = std::move(symbols);
  return made;
}

}  // namespace

std::vector<WrittenCase> small_m_cases() {
  std::vector<WrittenCase> cases;
  for (const i64 m : {1, 17, 31, 32, 33, 48, 63, 64}) {
    cases.push_back(forced("64x64x64g1s6k4", fmt::format("{} rows", m), linear(m, 40, 712)));
  }
  for (const char* tile :
       {"64x64x64g1s6", "64x64x64g1s6k1", "64x64x64g1s3k2", "64x64x64g1s6k8", "64x32x64g1s8k1",
        "64x32x64g1s8k4", "64x128x64g1s4k1", "64x128x64g1s3k4"}) {
    cases.push_back(forced(tile, "odd columns", linear(33, 75, 584)));
    cases.push_back(forced(tile, "two row tiles", linear(72, 40, 520, "f16")));
  }
  // One k-tile, and k-slices without any.
  for (const i64 k : {8, 64, 200, 456}) {
    cases.push_back(forced("64x32x64g1s8k8", fmt::format("K = {}", k), linear(17, 40, k)));
  }
  const std::string pair =
      "chain a(input x: bf16[33, 392], weight w: bf16[75, 392], weight v: bf16[75, 392]) {\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(silu(g), u)\n  return h: f32 align 4 }";
  for (const char* tile : {"64x32x64g1s6k4", "64x16x64g1s8k2", "64x64x64g1s4k8"}) {
    cases.push_back(forced(tile, "gated", pair));
  }
  cases.push_back(forced("64x64x64g1s6k4", "symbol",
                         "chain a[M in 0..64](input x: f16[M, 328], weight w: f16[72, 328]) {\n"
                         "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f16 }",
                         {0, 1, 16, 17, 33, 64}));
  cases.push_back(forced("64x64x64g1s6k2", "in a batch, B along N",
                         "chain a(input x: bf16[3, 30, 136], weight w: bf16[3, 136, 136]) {\n"
                         "  y = contract \"gbk,gkn->gbn\"(x, w)\n  return y: bf16 }"));
  cases.push_back(forced("64x64x64g1s6k2", "after another kernel",
                         "chain a(input p: bf16[40, 328], weight w: bf16[72, 328]) {\n"
                         "  x = cast(relu(p), bf16)\n"
                         "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }"));
  cases.push_back(
      forced("64x64x64g1s6k2", "also split-K over the workspace", linear(33, 40, 1096), {}, 3));
  return cases;
}

}  // namespace catenary::gpu_suite
