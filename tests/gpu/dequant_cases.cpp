// SPDX-License-Identifier: Apache-2.0
// Handwritten chains with quantised weights; see cases.h. Every kernel must be of `skinny_dequant`.
// Warps and clusters divide K in blocks of 64 columns: evenly, unevenly, with a half block at the
// end, and inside blocks that share a scale.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

struct Linear {
  const char* q = "i4";
  const char* x = "bf16";
  const char* scale = "bf16";
  bool zero = false;
  const char* m = "5";
  i64 n = 40, k = 544, columns = 128;
  const char* strides = "";  // of the scales
  const char* role = "weight";
};

// y = x w^T + b, odd N too.
std::string linear(const Linear& l) {
  const std::string numbers = fmt::format("[{}, {}]", l.n, ceil_div(l.k, l.columns));
  return fmt::format(
      "chain a{0}(input x: {1}[{2}, {3}], {4} q: {5}[{6}, {3}] packed,\n"
      "        {4} s: {7}{8}{9}{10}, weight b: f32[{6}] align 4) {{\n"
      "  w = dequant(q, s{11}) block (1, {12})\n"
      "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: {1} align 4 }}",
      l.m[0] == 'M' ? "[M in 0..32]" : "", l.x, l.m, l.k, l.role, l.q, l.n, l.scale, numbers,
      l.strides, l.zero ? fmt::format(", {} z: i8{}", l.role, numbers) : "", l.zero ? ", z" : "",
      l.columns);
}

WrittenCase made(std::string name, const Linear& l, const char* tile = "",
                 std::vector<i64> symbols = {}) {
  WrittenCase result;
  result.name = fmt::format("dequantised, {} {} {}", std::move(name), l.q, tile);
  result.text = linear(l);
  result.tile = tile;
  result.family = "skinny_dequant";
  result.symbols = std::move(symbols);
  return result;
}

std::vector<i64> counted(i64 last) {
  std::vector<i64> values;
  for (i64 i = 0; i <= last; ++i) values.push_back(i);
  return values;
}

}  // namespace

std::vector<WrittenCase> dequant_cases() {
  std::vector<WrittenCase> cases;
  for (const char* q : {"i8", "i4", "u4"}) {
    for (const bool zero : {false, true}) {
      cases.push_back(made("every row count", {.q = q, .zero = zero, .m = "M"}, "", counted(16)));
      for (const char* scale : {"bf16", "f16", "f32"}) {
        cases.push_back(made(fmt::format("{} scales, zero {}", scale, zero),
                             {.q = q, .x = "f16", .scale = scale, .zero = zero, .m = "9"}));
      }
    }
    cases.push_back(made("17 to 32 rows", {.q = q, .m = "M", .n = 33}, "", {17, 24, 25, 32}));
    cases.push_back(made("a scale per channel", {.q = q, .n = 129, .k = 1120, .columns = 1120}));
    for (const i64 columns : {32, 64, 96, 256}) {
      cases.push_back(
          made(fmt::format("groups of {}", columns),
               {.q = q, .zero = true, .m = "3", .n = 65, .k = 1440, .columns = columns}));
    }
    cases.push_back(made("scales by group, then row", {.q = q, .strides = " strides[1, 40]"}));
    cases.push_back(made("not a weight", {.q = q, .zero = true, .role = "input"}));
  }
  for (const char* tile : {"dequant1t1s1b1x1b1", "dequant4t2s2b2x1b6", "dequant4t3s3b1x2b2",
                           "dequant3t1s2b3x3b1", "dequant2t2s2b4x2b2", "dequant2t1s3b2x1b4c2",
                           "dequant2t2s2b1x1b2c4", "dequant1t3s2b1x2b1c8"}) {
    for (const char* q : {"i8", "i4"})
      cases.push_back(made("", {.q = q, .m = "8", .n = 70, .k = 1440}, tile));
  }
  return cases;
}

}  // namespace catenary::gpu_suite
