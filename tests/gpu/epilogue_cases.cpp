// SPDX-License-Identifier: Apache-2.0
// Handwritten chains whose epilogue takes operands by the group of a row, or stores in place of an
// input; see cases.h.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

// Equal groups, empty ones, one row, rows after the last end, ends around the tile.
const std::vector<std::vector<i32>> kEnds = {
    {150, 300, 450, 600}, {0, 0, 1, 593}, {0, 0, 0, 0}, {127, 255, 256, 385}};

std::string experts(const char* dtype, int rows, int n, int k, const char* parameters,
                    const char* body) {
  return fmt::format(
      "chain a(input x: {0}[{1}, {3}], weight w: {0}[4, {2}, {3}], input e: i32[4],\n"
      "        {4}) {{\n"
      "  c = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n  {5} }}",
      dtype, rows, n, k, parameters, body);
}

constexpr const char* kBias = "y = relu(add(c, b @ \"en\"))\n  return y: bf16";

std::string residual(const char* dtype, int m, int n, int k, const char* layout = "") {
  return fmt::format(
      "chain a(input x: bf16[{1}, {3}], weight w: bf16[{2}, {3}], input y: {0}[{1}, {2}]{4}) {{\n"
      "  z = add(relu(contract \"mk,nk->mn\"(x, w)), y)\n  return z: {0} inplace y }}",
      dtype, m, n, k, layout);
}

}  // namespace

std::vector<WrittenCase> group_operand_cases() {
  const std::string bias = experts("bf16", 600, 264, 200, "weight b: bf16[4, 264]", kBias);
  const std::string staged =
      experts("bf16", 600, 264, 200, "weight b: bf16[4, 264], input r: f32[600, 264]",
              "y = add(add(c, b @ \"en\"), r)\n  return y: f32");
  const std::string dual = experts(
      "f16", 600, 136, 200, "weight v: f16[4, 136, 200], weight b: f32[4, 136], weight s: f32[4]",
      "u = contract \"mk,enk->mn\"(x, v) ragged m by e over e\n"
      "  y = mul(min(add(c, b @ \"en\"), 1000), mul(max(u, -1000), s @ \"e\"))\n"
      "  return y: f32");
  const std::string odd = experts("bf16", 600, 75, 72, "weight b: bf16[4, 75] align 2",
                                  "y = add(c, b @ \"en\")\n  return y: bf16 align 2");
  const std::string few = experts("bf16", 60, 40, 576, "weight b: bf16[4, 40]", kBias);
  const std::vector<std::vector<i32>> few_ends = {{15, 30, 45, 60}, {7, 7, 8, 41}, {0, 0, 0, 0}};
  return {
      {"bias by group, ping-pong in clusters",
       bias,
       {0},
       kEnds,
       0,
       "128x128x64p2s6c2",
       "gemm_sm90"},
      {"bias by group, cooperative", bias, {0}, kEnds, 0, "128x256x64g2s4", "gemm_sm90"},
      {"bias by group, staged", staged, {0}, kEnds, 0, "128x128x64p2s6", "gemm_sm90"},
      {"bias by group, dual GEMM", dual, {0}, kEnds, 0, "128x64x64p2s6c2", "gemm_sm90"},
      {"bias by group, odd columns", odd, {0}, kEnds},
      {"bias by group, mma.sync", bias, {0}, kEnds, 0, "64x64x128w2x2s3"},
      {"bias by group, small M", few, {0}, few_ends, 0, "", "skinny"},
  };
}

std::vector<WrittenCase> in_place_cases() {
  const std::string wgrad =
      "chain a(input d: bf16[600, 136], input x: bf16[600, 264], input e: i32[4],\n"
      "        input main: f32[4, 136, 264]) {\n"
      "  dw = add(main, contract \"mn,mk->enk\"(d, x) ragged m by e over e)\n"
      "  return dw: f32 inplace main }";
  const std::string rows =
      experts("bf16", 600, 264, 200, "weight b: bf16[4, 264], input y: bf16[600, 264]",
              "z = add(add(c, b @ \"en\"), y)\n  return z: bf16 inplace y");
  return {
      {"in place, ping-pong in clusters",
       residual("bf16", 300, 520, 264),
       {0},
       {},
       0,
       "128x128x64p2s6c2",
       "gemm_sm90"},
      {"in place, cooperative",
       residual("f32", 300, 520, 264),
       {0},
       {},
       0,
       "128x256x64g2s4",
       "gemm_sm90"},
      {"in place, one row", residual("f32", 1, 520, 264), {0}, {}, 0, "", "gemm_sm90"},
      {"in place, odd sizes", residual("bf16", 133, 75, 264, " align 2"), {0}, {}},
      {"in place, padded rows", residual("f16", 133, 72, 264, " strides[88, 1]"), {0}, {}},
      {"in place, small M", residual("bf16", 11, 40, 576), {0}, {}, 0, "", "skinny"},
      {"in place, split-K", residual("f32", 70, 136, 1024), {0}, {}, 4},
      {"accumulated weight gradient", wgrad, {0}, kEnds, 0, "128x128x64p2s6c2", "gemm_sm90"},
      {"accumulated weight gradient, mma.sync", wgrad, {0}, kEnds, 0, "64x64x128w2x2s3"},
      {"ragged rows in place", rows, {0}, kEnds, 0, "128x128x64p2s6", "gemm_sm90"},
      {"in place, pointwise",
       "chain a(input x: bf16[317, 133] strides[136, 1]) {\n"
       "  y = relu(add(x, 1))\n  return y: bf16 inplace x }",
       {0},
       {}},
      {"in place by a copy",
       "chain a(input x: bf16[300, 264], weight w: bf16[264, 264]) {\n"
       "  y = add(contract \"mk,nk->mn\"(x, w), x)\n  return y: bf16 inplace x }",
       {0},
       {}},
  };
}

}  // namespace catenary::gpu_suite
