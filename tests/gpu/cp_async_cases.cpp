// SPDX-License-Identifier: Apache-2.0
// Handwritten chains for `gemm_sm90` with cp.async fallback loads: no tensor map describes their
// operands; see cases.h. Every tile without M clusters is forced once, with copies of each width
// and tails in every dimension.
#include "tests/gpu/sm90_cases.h"

namespace catenary::gpu_suite {
namespace {

WrittenCase fallback(const std::string& name, std::string text, std::string tile, int split_k = 0) {
  return forced_sm90("cp.async fallback, " + name, std::move(text), std::move(tile), split_k);
}

std::string name_of(const GemmSm90Shape& shape) { return sm90_tile_name(shape, MathMode::kBF16); }

std::string plain(i64 m, i64 n, i64 k, const char* dtype = "bf16") {
  return fmt::format(
      "chain a(input x: {3}[{0}, {2}], weight w: {3}[{1}, {2}], weight b: f32[{1}] align 4) {{\n"
      "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: {3} align 2 }}",
      m, n, k, dtype);
}

std::string gemm(const char* x, const char* w, const char* equation,
                 const char* output = "f32 align 4") {
  return fmt::format(
      "chain a(input x: {}, weight w: {}) {{\n  y = contract \"{}\"(x, w)\n  return y: {} }}", x, w,
      equation, output);
}

std::vector<WrittenCase> every_tile() {
  constexpr i64 kSizesK[] = {1097, 1098, 1100};  // copies of 2, 4 and 8 bytes
  std::vector<WrittenCase> cases;
  size_t number = 0;
  for (const GemmSm90Shape& shape : gemm_sm90_shapes()) {
    if (shape.cluster_m * shape.cluster_n > 1 || shape.consumers == 3) continue;
    const std::string name = name_of(shape);
    const i64 k = kSizesK[number++ % 3];
    cases.push_back(fallback(fmt::format("{}, K = {}", name, k), plain(300, 333, k), name));
    if (number % 3 != 0) continue;
    const std::string pair = sm90_tile_name(shape, MathMode::kBF16, /*dual=*/true);
    cases.push_back(
        fallback(pair + ", dual GEMM", dual_gemm_text("f16", 300, 203, 135, "f32 align 4"), pair));
  }
  return cases;
}

// Each layout with one of the tiles.
std::vector<WrittenCase> every_layout(llvm::ArrayRef<std::string> tiles) {
  const std::pair<const char*, std::string> kLayouts[] = {
      {"only A", gemm("bf16[600, 136] strides[137, 1] align 2", "bf16[264, 136]", "mk,nk->mn")},
      {"only B", gemm("bf16[600, 136]", "bf16[264, 136] strides[139, 1]", "mk,nk->mn")},
      {"A along an odd M", gemm("f16[136, 601]", "f16[264, 136]", "km,nk->mn")},
      {"B along an odd N", gemm("f16[600, 136]", "f16[136, 331]", "mk,kn->mn")},
      {"both along them", gemm("bf16[333, 601]", "bf16[333, 331]", "km,kn->mn")},
      {"views at an offset", gemm("bf16[600, 128] align 2", "bf16[264, 128] align 2", "mk,nk->mn")},
      {"batches", gemm("bf16[270, 3, 73]", "bf16[3, 136, 73]", "bgk,gnk->bgn")},
      {"two K loops", gemm("f16[340, 3, 72] strides[303, 95, 1]",
                           "f16[172, 3, 72] strides[295, 81, 1]", "mjk,njk->mn")},
      {"one k-tile", gemm("bf16[600, 3]", "bf16[264, 3]", "mk,nk->mn")}};
  std::vector<WrittenCase> cases;
  size_t number = 0;
  for (const auto& [name, text] : kLayouts) {
    const std::string& tile = tiles[number++ % tiles.size()];
    cases.push_back(fallback(fmt::format("{}, {}", tile, name), text, tile));
  }
  for (const std::string& tile : tiles) {
    cases.push_back(fallback(tile + ", many tiles", plain(2100, 2301, 135, "f16"), tile));
  }
  return cases;
}

}  // namespace

std::vector<WrittenCase> cp_async_cases() {
  std::vector<WrittenCase> cases = every_tile();
  const std::string small = name_of({64, 64, 1, false, 1});
  const std::string ping_pong = name_of({128, 128, 2, true, 1});
  const std::string wide = name_of({128, 256, 2, false, 1});
  for (WrittenCase& more : every_layout({small, ping_pong, wide})) cases.push_back(std::move(more));
  cases.push_back(fallback("split-K 4", plain(70, 130, 4097), small, 4));
  WrittenCase rows = fallback("a symbol as M",
                              "chain a[M in 0..700](input x: bf16[M, 71], weight w: bf16[136, 71]) "
                              "{\n  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
                              ping_pong);
  rows.symbols = {0, 1, 513, 700};
  cases.push_back(std::move(rows));
  WrittenCase groups =
      fallback("M-grouped",
               "chain a(input x: bf16[300, 71], weight w: bf16[4, 72, 71], input e: i32[4]) {\n"
               "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: f32 }",
               ping_pong);
  groups.ends = {{50, 100, 150, 300}, {0, 0, 300, 300}, {0, 0, 0, 0}, {1, 130, 131, 180}};
  cases.push_back(groups);
  groups =
      fallback("M-grouped along M",
               "chain a(input x: bf16[72, 300], weight w: bf16[4, 72, 72], input e: i32[4]) {\n"
               "  y = contract \"km,gnk->mn\"(x, w) ragged m by e over g\n  return y: f32 }",
               small);
  groups.ends = {{50, 100, 150, 300}, {1, 130, 131, 180}};
  cases.push_back(groups);
  groups = fallback("K-grouped",
                    "chain a(input x: f16[300, 135], input y: f16[300, 70], input e: i32[4]) {\n"
                    "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }",
                    ping_pong);
  groups.ends = {{50, 100, 150, 300}, {0, 0, 300, 300}, {0, 0, 0, 0}, {1, 130, 131, 180}};
  cases.push_back(groups);
  groups = fallback("K-grouped, B by TMA",
                    "chain a(input x: f16[300, 135], input y: f16[300, 72], input e: i32[4]) {\n"
                    "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }",
                    ping_pong);
  groups.ends = {{50, 100, 150, 300}, {0, 0, 300, 300}, {0, 0, 0, 0}, {1, 130, 131, 180}};
  cases.push_back(std::move(groups));
  return cases;
}

}  // namespace catenary::gpu_suite
