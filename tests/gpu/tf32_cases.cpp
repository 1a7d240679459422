// SPDX-License-Identifier: Apache-2.0
// Handwritten chains for `gemm_sm90` on f32 operands that TMA loads round to tf32; see cases.h.
// Every tile is forced once as a single and as a dual GEMM, with tails in every dimension.
#include "compiler/families/gemm_sm90/candidates.h"
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

WrittenCase mapped(std::string name, std::string text, std::string tile, int split_k = 0) {
  WrittenCase made;
  made.name = "tf32 by TMA, " + std::move(name);
  made.text = std::move(text);
  made.tile = std::move(tile);
  made.split_k = split_k;
  made.family = "gemm_sm90";
  return made;
}

// All Hopper GPUs have the same shared memory and therefore the same names.
std::string name_of(const GemmSm90Tile& tile, bool dual_gemm) {
  GemmSm90Config config;
  config.math = MathMode::kTF32;
  config.dual = dual_gemm;
  return tile_name(with_tile(config, tile, llvm::cantFail(find_target("h200"))));
}

std::string plain(i64 m, i64 n, i64 k) {
  return fmt::format(
      "chain a(input x: f32[{0}, {2}], weight w: f32[{1}, {2}], weight b: f32[{1}] align 4) {{\n"
      "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: f32 align 4 }}",
      m, n, k);
}

std::string dual_gemm(i64 m, i64 n, i64 k) {
  return fmt::format(
      "chain a(input x: f32[{0}, {2}], weight w: f32[{1}, {2}], weight v: f32[{1}, {2}]) {{\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: bf16 align 2 }}",
      m, n, k);
}

}  // namespace

std::vector<WrittenCase> tf32_cases() {
  std::vector<WrittenCase> cases;
  for (const GemmSm90Tile& tile : gemm_sm90_tiles()) {
    const std::string name = name_of(tile, false);
    cases.push_back(mapped(name, plain(600, 333, 132), name));
    const std::string pair = name_of(tile, true);
    cases.push_back(mapped(pair + ", dual GEMM", dual_gemm(300, 203, 68), pair));
  }
  const std::string small = name_of({64, 64, 1, false, 1}, false);
  const std::string clustered = name_of({128, 128, 2, true, 2}, false);
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
