// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/sm90_cases.h"

namespace catenary::gpu_suite {

WrittenCase forced_sm90(std::string name, std::string text, std::string tile, int split_k) {
  WrittenCase made;
  made.name = std::move(name);
  made.text = std::move(text);
  made.tile = std::move(tile);
  made.split_k = split_k;
  made.family = "gemm_sm90";
  return made;
}

std::string sm90_tile_name(const GemmSm90Shape& shape, MathMode math, bool dual) {
  GemmSm90Config config;
  config.space.math = math;
  config.dual = dual;
  return tile_name(with_shape(config, shape, llvm::cantFail(find_target("h200"))));
}

std::string dense_chain(i64 m, i64 n, i64 k, const char* x, const char* w) {
  const auto sizes = [](const char* labels, i64 rows, char row, i64 depth) {
    return labels[0] == row ? fmt::format("{}, {}", rows, depth)
                            : fmt::format("{}, {}", depth, rows);
  };
  return fmt::format(
      "chain a(input x: bf16[{}], weight w: bf16[{}], weight b: f32[{}]) {{\n"
      "  y = relu(add(contract \"{},{}->mn\"(x, w), b))\n  return y: bf16 }}",
      sizes(x, m, 'm', k), sizes(w, n, 'n', k), n, x, w);
}

std::string dual_gemm_text(const char* dtype, i64 m, i64 n, i64 k, const char* output) {
  return fmt::format(
      "chain a(input x: {3}[{0}, {2}], weight w: {3}[{1}, {2}], weight v: {3}[{1}, {2}]) {{\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(g), u)\n  return h: {4} }}",
      m, n, k, dtype, output);
}

}  // namespace catenary::gpu_suite
