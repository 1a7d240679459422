// SPDX-License-Identifier: Apache-2.0
// Handwritten ragged chains for `skinny`: small M in each group; see cases.h. Groups are of equal
// size, empty, one with all rows, all empty, without the last rows, and with ends around 8 and 16
// rows.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

const std::vector<std::vector<i32>> kEnds4of60 = {
    {15, 30, 45, 60}, {0, 0, 60, 60},   {60, 60, 60, 60}, {0, 0, 0, 0},
    {1, 9, 18, 51},   {16, 16, 33, 59}, {8, 15, 16, 17},  {0, 0, 0, 1}};

struct Experts {
  const char* dtype = "bf16";
  const char* rows = "60";
  int groups = 4;
  i64 n = 40;
  i64 k = 576;
  const char* role = "weight";  // of w
};

std::string linear(const Experts& s) {
  return fmt::format(
      "chain a{0}(input x: {1}[{2}, {3}], {4} w: {1}[{5}, {6}, {3}],\n"
      "        weight b: f32[{6}] align 4, input e: i32[{5}]) {{\n"
      "  y = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n  z = relu(add(y, b))\n"
      "  return z: {1} align 4 }}",
      s.rows[0] == 'M' ? "[M in 0..60]" : "", s.dtype, s.rows, s.k, s.role, s.groups, s.n);
}

std::string pair(const char* dtype, i64 n, i64 k) {
  return fmt::format(
      "chain a(input x: {0}[60, {2}], weight w: {0}[4, {1}, {2}], weight v: {0}[4, {1}, {2}],\n"
      "        input r: f32[60, {1}] align 4, input e: i32[4]) {{\n"
      "  g = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
      "  u = contract \"mk,enk->mn\"(x, v) ragged m by e over e\n"
      "  h = add(mul(min(g, 1000), max(u, -1000)), r)\n  return h: f32 align 4 }}",
      dtype, n, k);
}

// One row each for groups 0, 7, 14, ..., up to `rows` rows.
std::vector<i32> sparse_ends(i32 groups, i32 rows) {
  std::vector<i32> ends;
  for (i32 group = 0; group < groups; ++group) ends.push_back(std::min(group / 7 + 1, rows));
  return ends;
}

WrittenCase ragged(std::string name, std::string text,
                   std::vector<std::vector<i32>> ends = kEnds4of60, const char* tile = "") {
  return {"skinny, M-grouped, " + std::move(name),
          std::move(text),
          {},
          std::move(ends),
          0,
          tile,
          "skinny"};
}

}  // namespace

std::vector<WrittenCase> ragged_cases_skinny() {
  const std::vector<std::vector<i32>> ends3 = {{0, 5, 20}, {3, 3, 3}, {20, 20, 20}, {1, 10, 19}};
  std::vector<WrittenCase> all = {
      ragged("bf16", linear({})),
      ragged("f16, odd columns", linear({.dtype = "f16", .n = 23, .k = 1088})),
      ragged("tf32", linear({.dtype = "f32", .n = 23, .k = 544})),
      ragged("K of 4096", linear({.n = 8, .k = 4096})),
      ragged("w is an input", linear({.role = "input"})),
      ragged("dual GEMM", pair("bf16", 15, 1088)),
      ragged("dual GEMM, tf32, odd", pair("f32", 23, 544)),
      ragged("128 groups", linear({.rows = "30", .groups = 128, .n = 24, .k = 256}),
             {sparse_ends(128, 18), sparse_ends(128, 30)}),
      ragged("300 groups", linear({.rows = "50", .groups = 300, .n = 24, .k = 256}),
             {sparse_ends(300, 43), sparse_ends(300, 9)}),
      ragged("one group", linear({.rows = "13", .groups = 1}), {{13}, {0}, {9}}),
      ragged("one row", linear({.rows = "1", .groups = 5}), {{0, 0, 1, 1, 1}, {0, 0, 0, 0, 0}}),
      ragged(
          "in a batch",
          "chain a(input x: bf16[2, 20, 512], weight w: bf16[2, 3, 24, 512], input e: i32[3]) {\n"
          "  y = contract \"bmk,benk->bmn\"(x, w) ragged m by e over e\n  return y: bf16 }",
          ends3),
      ragged("two row labels, padded",
             "chain a(input x: f16[20, 2, 512] strides[1200, 520, 1],\n"
             "        weight w: f16[3, 24, 512] strides[12800, 520, 1], input e: i32[3]) {\n"
             "  y = contract \"mhk,enk->mhn\"(x, w) ragged m by e over e\n"
             "  return y: f16 strides[70, 29, 1] align 2 }",
             ends3),
      ragged("two layers",
             "chain a(input x: bf16[20, 256], weight w: bf16[3, 256, 256],\n"
             "        weight v: bf16[3, 24, 256], input e: i32[3]) {\n"
             "  h = cast(relu(contract \"mk,enk->mn\"(x, w) ragged m by e over e), bf16)\n"
             "  y = contract \"mk,enk->mn\"(h, v) ragged m by e over e\n"
             "  return h: bf16, y: bf16 }",
             ends3),
  };
  for (const char* tile :
       {"skinny8x1s1r1g4p2", "skinny4x2s1r2g1p3", "skinny8x1s2r0g16p2", "skinny5x1s1r1g1p2"}) {
    all.push_back(ragged(tile, linear({.n = 33}), kEnds4of60, tile));
  }
  WrittenCase every = ragged("every row count", linear({.rows = "M", .n = 24}), {});
  for (i64 m = 0; m <= 60; m += m < 18 ? 1 : 14) every.symbols.push_back(m);
  all.push_back(std::move(every));
  return all;
}

}  // namespace catenary::gpu_suite
