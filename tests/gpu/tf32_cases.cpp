// SPDX-License-Identifier: Apache-2.0
// Handwritten chains for `gemm_sm90` on f32 operands that TMA loads round to tf32; see cases.h.
// Every tile is forced once as a single and as a dual GEMM, with tails in every dimension.
#include "tests/gpu/sm90_cases.h"

namespace catenary::gpu_suite {
namespace {

WrittenCase mapped(const std::string& name, std::string text, std::string tile, int split_k = 0) {
  return forced_sm90("tf32 by TMA, " + name, std::move(text), std::move(tile), split_k);
}

std::string name_of(const GemmSm90Shape& shape) { return sm90_tile_name(shape, MathMode::kTF32); }

std::string plain(i64 m, i64 n, i64 k) {
  return fmt::format(
      "chain a(input x: f32[{0}, {2}], weight w: f32[{1}, {2}], weight b: f32[{1}] align 4) {{\n"
      "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: f32 align 4 }}",
      m, n, k);
}

}  // namespace

std::vector<WrittenCase> tf32_cases() {
  std::vector<WrittenCase> cases;
  for (const GemmSm90Shape& shape : gemm_sm90_shapes()) {
    if (shape.consumers == 3) continue;  // has no epilogue in shared memory, which odd N takes
    const std::string name = name_of(shape);
    cases.push_back(mapped(name, plain(600, 333, 132), name));
    const std::string pair = sm90_tile_name(shape, MathMode::kTF32, /*dual=*/true);
    cases.push_back(
        mapped(pair + ", dual GEMM", dual_gemm_text("f32", 300, 203, 68, "bf16 align 2"), pair));
  }
  const std::string small = name_of({64, 64, 1, false, 1});
  const std::string clustered = name_of({128, 128, 2, true, 2});
  cases.push_back(mapped("split-K 4", plain(70, 130, 1056), small, 4));
  cases.push_back(mapped("K of one k-tile", plain(200, 264, 4), clustered));
  cases.push_back(mapped("[B, G, D]",
                         "chain a(input x: f32[70, 3, 36], weight w: f32[3, 136, 36]) {\n"
                         "  y = contract \"bgk,gnk->bgn\"(x, w)\n  return y: f32 }",
                         small));
  cases.push_back(mapped("padded rows, two K loops",
                         "chain a(input x: f32[140, 3, 36] strides[152, 48, 1],\n"
                         "        weight w: f32[72, 3, 36] strides[148, 40, 1]) {\n"
                         "  y = contract \"mjk,njk->mn\"(x, w)\n  return y: bf16 }",
                         clustered));
  WrittenCase rows = mapped("a symbol as M",
                            "chain a[M in 0..700](input x: f32[M, 36], weight w: f32[136, 36]) {\n"
                            "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }",
                            clustered);
  rows.symbols = {0, 1, 513, 700};
  cases.push_back(std::move(rows));
  return cases;
}

}  // namespace catenary::gpu_suite
