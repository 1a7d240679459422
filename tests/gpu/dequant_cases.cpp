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

// Weights of several contractions, or several matrices of one.
WrittenCase made_of(std::string name, std::string text, const char* tile = "",
                    std::vector<i64> symbols = {}, std::vector<std::vector<i32>> ends = {}) {
  WrittenCase result;
  result.name = fmt::format("dequantised, {} {}", std::move(name), tile);
  result.text = std::move(text);
  result.tile = tile;
  result.family = "skinny_dequant";
  result.symbols = std::move(symbols);
  result.ends = std::move(ends);
  return result;
}

// The parameters of a weight [groups, n, k] with the name `q`, and its dequant.
struct Weight {
  std::string parameters, dequant;
};

Weight weight(const Linear& l, const char* q, const std::string& groups = "") {
  const std::string numbers = fmt::format("[{}{}, {}]", groups, l.n, ceil_div(l.k, l.columns));
  return {fmt::format("weight {0}: {1}[{2}{3}, {4}] packed, weight s{0}: {5}{6}{7}", q, l.q, groups,
                      l.n, l.k, l.scale, numbers,
                      l.zero ? fmt::format(", weight z{}: i8{}", q, numbers) : ""),
          fmt::format("dequant({0}, s{0}{1}) block (1, {2})", q,
                      l.zero ? fmt::format(", z{}", q) : "", l.columns)};
}

std::string pair(const Linear& l) {
  const Weight g = weight(l, "g"), u = weight(l, "u");
  return fmt::format(
      "chain a{}(input x: {}[{}, {}], {},\n  {}, weight b: f32[{}] align 4) {{\n"
      "  y = contract \"mk,nk->mn\"(x, {})\n  w = contract \"mk,nk->mn\"(x, {})\n"
      "  h = add(mul(silu(y), w), b)\n  return h: {} align 4 }}",
      l.m[0] == 'M' ? "[M in 0..32]" : "", l.x, l.m, l.k, g.parameters, u.parameters, l.n,
      g.dequant, u.dequant, l.x);
}

// Three weights over one x, with N of their own.
std::string side_by_side(const Linear& l) {
  Linear k = l, v = l;
  k.n = 33, v.n = 17;
  const Weight a = weight(l, "a"), b = weight(k, "b"), c = weight(v, "c");
  return fmt::format(
      "chain a(input x: {0}[{1}, {2}], {3},\n  {4},\n  {5}, weight r: f32[33] align 4) {{\n"
      "  d = contract \"mk,nk->mn\"(x, {6})\n  e = add(contract \"mk,nk->mn\"(x, {7}), r)\n"
      "  h = relu(contract \"mk,nk->mn\"(x, {8}))\n"
      "  return d: {0} align 4, e: f32 align 4, h: {0} align 2 }}",
      l.x, l.m, l.k, a.parameters, b.parameters, c.parameters, a.dequant, b.dequant, c.dequant);
}

// A matrix for each of three batch entries.
std::string batch(const Linear& l, const char* x_shape, const char* equation) {
  const Weight w = weight(l, "q", "3, ");
  return fmt::format(
      "chain a(input x: {0}[{1}, {2}], {3}, weight b: f32[{4}] align 4) {{\n"
      "  y = add(contract \"{5}\"(x, {6}), b)\n  return y: {0} align 4 }}",
      l.x, x_shape, l.k, w.parameters, l.n, equation, w.dequant);
}

// Four experts, gated or not.
std::string experts(const Linear& l, bool gated) {
  const Weight g = weight(l, "g", "4, "), u = weight(l, "u", "4, ");
  return fmt::format(
      "chain a(input x: {0}[40, {1}], {2}{3}, input e: i32[4]) {{\n"
      "  y = contract \"mk,enk->mn\"(x, {4}) ragged m by e over e\n{5}"
      "  h = {6}\n  return h: {0} align 4 }}",
      l.x, l.k, g.parameters, gated ? ",\n  " + u.parameters : "", g.dequant,
      gated ? fmt::format("  w = contract \"mk,enk->mn\"(x, {}) ragged m by e over e\n", u.dequant)
            : "",
      gated ? "mul(silu(y), w)" : "relu(y)");
}

void add_group_cases(std::vector<WrittenCase>& cases) {
  const std::vector<std::vector<i32>> all_ends = {
      {10, 20, 30, 40}, {0, 0, 40, 40}, {0, 0, 0, 0}, {1, 9, 17, 34}, {40, 40, 40, 40}};
  for (const char* q : {"i8", "i4", "u4"}) {
    for (const bool zero : {false, true}) {
      const Linear l = {.q = q, .zero = zero, .n = 39};
      const std::string form = fmt::format("{} zero {}", q, zero);
      cases.push_back(made_of("pair, " + form, pair(l)));
      cases.push_back(made_of("three in one launch, " + form, side_by_side(l)));
      cases.push_back(made_of("batch, " + form, batch(l, "3, 5", "bmk,bnk->bmn")));
      cases.push_back(made_of("groups, " + form, batch(l, "5, 3", "bgk,gnk->bgn")));
      cases.push_back(made_of("one x of a batch, " + form, batch(l, "5", "mk,bnk->bmn")));
      cases.push_back(made_of("experts, " + form, experts(l, false), "", {}, all_ends));
      cases.push_back(made_of("gated experts, " + form, experts(l, true), "", {}, all_ends));
    }
    cases.push_back(made_of(fmt::format("pair, 17 to 32 rows, {}", q),
                            pair({.q = q, .m = "M", .n = 33}), "", {17, 24, 25, 32}));
    cases.push_back(
        made_of(fmt::format("pair, a scale per channel, {}", q),
                pair({.q = q, .x = "f16", .scale = "f32", .k = 1120, .columns = 1120})));
  }
  for (const char* tile :
       {"dequant2t1s2b1x2b1", "dequant4t2s2b2x1b6", "dequant2t1s3b2x1b4c2", "dequant1t2s2b2x1b2c8"})
    cases.push_back(made_of("pair", pair({.m = "8", .n = 70, .k = 1440}), tile));
  for (const char* tile : {"dequant1t1s1b1x1b1", "dequant2t2s2b2x1b2", "dequant3t1s2b3x3b1"}) {
    cases.push_back(made_of("experts", experts({.n = 70, .k = 1440}, false), tile, {}, all_ends));
    cases.push_back(made_of("three in one launch", side_by_side({.n = 70, .k = 1440}), tile));
  }
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
  add_group_cases(cases);
  return cases;
}

}  // namespace catenary::gpu_suite
