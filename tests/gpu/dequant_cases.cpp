// SPDX-License-Identifier: Apache-2.0
// Handwritten chains with quantised weights; see cases.h. Every kernel must be of `skinny_dequant`,
// or of `gemm_dequant`. Warps and clusters divide K in blocks of 64 columns: evenly, unevenly, with
// a half block at the end, and inside blocks that share a scale.
#include "compiler/families/gemm_dequant/candidates.h"
#include "ir/random/random.h"
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

struct Linear {
  const char* q = "i4";
  const char* x = "bf16";
  const char* scale = "bf16";
  bool zero = false;
  std::string m = "5";
  i64 n = 40, k = 544, columns = 128;
  const char* strides = "";  // of the scales
  const char* role = "weight";
  i64 most = 32;  // of M, where it is the symbol
  const char* family = "skinny_dequant";
};

std::string symbol_text(const Linear& l) {
  return l.m == "M" ? fmt::format("[M in 0..{}]", l.most) : "";
}

// y = x w^T + b, odd N too.
std::string linear(const Linear& l) {
  const std::string numbers = fmt::format("[{}, {}]", l.n, ceil_div(l.k, l.columns));
  return fmt::format(
      "chain a{0}(input x: {1}[{2}, {3}], {4} q: {5}[{6}, {3}] packed,\n"
      "        {4} s: {7}{8}{9}{10}, weight b: f32[{6}] align 4) {{\n"
      "  w = dequant(q, s{11}) block (1, {12})\n"
      "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: {1} align 4 }}",
      symbol_text(l), l.x, l.m, l.k, l.role, l.q, l.n, l.scale, numbers, l.strides,
      l.zero ? fmt::format(", {} z: i8{}", l.role, numbers) : "", l.zero ? ", z" : "", l.columns);
}

WrittenCase made(std::string name, const Linear& l, const char* tile = "",
                 std::vector<i64> symbols = {}) {
  WrittenCase result;
  result.name = fmt::format("dequantised, {} {} {}", std::move(name), l.q, tile);
  result.text = linear(l);
  result.tile = tile;
  result.family = l.family;
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
      symbol_text(l), l.x, l.m, l.k, g.parameters, u.parameters, l.n, g.dequant, u.dequant, l.x);
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
      const char* tile = "dequant2t1s2b1x2b1";  // the planner may prefer `gemm_dequant`
      cases.push_back(made_of("batch, " + form, batch(l, "3, 5", "bmk,bnk->bmn"), tile));
      cases.push_back(made_of("groups, " + form, batch(l, "5, 3", "bgk,gnk->bgn"), tile));
      cases.push_back(made_of("one x of a batch, " + form, batch(l, "5", "mk,bnk->bmn"), tile));
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

// The sizes of a random case, and the name of a tile that fits them.
struct TiledLinear {
  Linear linear;
  i64 rows = 1, batch = 1;
  bool dual = false;
  std::string tile;
};

// A config of random shape for the sizes; its name, or "" if it does not fit the device.
std::string random_tile(const TiledLinear& t, Random& random) {
  GemmDequantProblem problem;
  GemmDequantConfig& c = problem.base;
  c.space.m = t.rows;
  c.space.n = t.linear.n;
  c.space.k = t.linear.k;
  c.space.math = MathMode::kBF16;
  c.w.dtype = t.linear.q[0] == 'i' && t.linear.q[1] == '8' ? DType::kI8 : DType::kI4;
  c.w.block_columns = t.linear.columns;
  c.w.has_zero = t.linear.zero;
  c.dual = t.dual;
  if (c.dual) c.w2 = c.w;
  problem.batch = t.batch;
  problem.m = t.rows;
  c.schedule.warpgroups = static_cast<i32>(t.dual ? 2 * random.range(1, 2) : random.range(1, 4));
  c.schedule.cluster_k = 1 << random.range(0, 3);
  c.schedule.n_slices = random.range(1, c.n_tiles());
  c.tile.row_tiles = static_cast<i32>(ceil_div(c.n_tiles(), c.schedule.n_slices));
  c.tile.columns = static_cast<i32>(8 * random.range(1, 16));
  c.loads.stages = static_cast<i32>(random.range(1, 5));
  c.loads.stage_blocks = static_cast<i32>(random.range(2, 4));
  const std::string name = tile_name(c);
  const bool fits =
      !gemm_dequant_candidates(problem, llvm::cantFail(find_target("h200")), {name, 1}).empty();
  return fits ? name : "";
}

// Few multiply-adds, so that the simulator runs the sizes as they are.
TiledLinear random_linear(Random& random) {
  constexpr i64 kWork = 1'800'000;
  const char* types[] = {"i4", "u4", "i8"};
  TiledLinear t;
  t.dual = random.chance(30);
  t.batch = random.chance(20) ? random.range(2, 3) : 1;
  t.rows = random.chance(50) ? random.range(1, 64) : random.range(65, 600);
  const i64 most = kWork / (t.rows * t.batch * (t.dual ? 2 : 1));
  Linear& l = t.linear;
  l.family = "gemm_dequant";
  l.q = random.pick<const char*>(types);
  l.x = random.chance(50) ? "bf16" : "f16";
  l.scale = random.chance(30) ? "f32" : l.x;
  l.zero = random.chance(50);
  // The family takes K above 128.
  constexpr i64 kLeastK = 160;
  l.n = random.range(1, std::clamp<i64>(most / kLeastK, 1, 400));
  l.k = 32 * random.range(kLeastK / 32, std::clamp<i64>(most / l.n / 32, kLeastK / 32, 64));
  l.columns = random.chance(30) ? l.k : 32 * random.range(1, 6);
  l.m = fmt::format("{}", t.rows);
  for (int i = 0; i < 200 && t.tile.empty(); ++i) t.tile = random_tile(t, random);
  return t;
}

// A matrix for each batch entry, or one; a dual GEMM or one product.
std::string text_of(const TiledLinear& t) {
  const Linear& l = t.linear;
  const std::string of = t.batch > 1 ? fmt::format("{}, ", t.batch) : "";
  const std::string label = t.batch > 1 ? "b" : "";
  const Weight g = weight(l, "g", of), u = weight(l, "u", of);
  const auto product = [&](const Weight& w) {
    return fmt::format("contract \"{0}mk,{0}nk->{0}mn\"(x, {1})", label, w.dequant);
  };
  return fmt::format(
      "chain a(input x: {0}[{1}{2}, {3}] align 16, {4}{5}, weight b: f32[{6}] align 4,\n"
      "        input r: {0}[{1}{2}, {6}] align 2) {{\n"
      "  y = add({7}, b)\n{8}  h = add({9}, r)\n  return h: {0} align 2 }}",
      l.x, of, l.m, l.k, g.parameters, t.dual ? ",\n  " + u.parameters : "", l.n, product(g),
      t.dual ? fmt::format("  w = {}\n", product(u)) : "", t.dual ? "mul(relu(y), w)" : "y");
}

// Forced tiles, over M 1 to 600.
void add_tiled_cases(std::vector<WrittenCase>& cases) {
  Random random(20);
  for (int i = 0; i < 64; ++i) {
    const TiledLinear t = random_linear(random);
    if (t.tile.empty()) continue;
    const Linear& l = t.linear;
    WrittenCase made =
        made_of(fmt::format("{} x {} {}x{}x{} groups of {} zero {} dual {} batch {}", l.q, l.x, l.m,
                            l.n, l.k, l.columns, l.zero, t.dual, t.batch),
                text_of(t));
    made.tile = t.tile;
    made.name += t.tile;
    made.family = l.family;
    cases.push_back(std::move(made));
  }
}

// The planner's choice within the family.
void add_any_m_cases(std::vector<WrittenCase>& cases) {
  const auto add = [&](WrittenCase made) {
    made.name += " of any M";
    made.family = "gemm_dequant";
    cases.push_back(std::move(made));
  };
  const auto of = [](const char* q, i64 m) {
    Linear l = {.q = q, .m = fmt::format("{}", m), .n = 1000, .k = 1056};
    l.family = "gemm_dequant";
    return l;
  };
  for (const char* q : {"i4", "u4", "i8"}) {
    for (const i64 m : {33, 40, 64, 100, 128, 200, 300, 513, 1000, 2048}) {
      Linear l = of(q, m);
      l.zero = m % 3 == 0;
      l.x = m % 8 == 0 ? "f16" : "bf16";
      l.columns = m % 5 == 0 ? 1056 : m < 100 ? 32 : 128;
      add(made(fmt::format("M {}", m), l));
    }
    Linear symbol = of(q, 0);
    symbol.m = "M", symbol.most = 300, symbol.n = 97, symbol.k = 352;
    add(made("every size of M", symbol, "", {0, 1, 31, 32, 33, 64, 65, 128, 129, 299, 300}));
    Linear small = of(q, 40);
    small.zero = true, small.n = 70, small.k = 544;
    add(made_of(fmt::format("pair {}", q), pair(small)));
    add(made_of(fmt::format("three in one launch {}", q), side_by_side(small)));
    add(made_of(fmt::format("batch {}", q), batch(small, "3, 40", "bmk,bnk->bmn")));
    add(made_of(fmt::format("one x of a batch {}", q), batch(small, "40", "mk,bnk->bmn")));
    small.role = "input";
    add(made(fmt::format("not a weight {}", q), small));
    small.role = "weight", small.strides = " strides[1, 72]";
    add(made(fmt::format("scales by group, then row {}", q), small));
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
  add_tiled_cases(cases);
  add_any_m_cases(cases);
  return cases;
}

std::vector<WrittenCase> dequant_sanitizer_cases() {
  return {
      {"skinny_dequant",
       "chain a(input x: bf16[5, 544], weight q: i4[40, 544] packed, weight s: bf16[40, 5],\n"
       "        weight z: i8[40, 5]) {\n"
       "  w = dequant(q, s, z) block (1, 128)\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
       {},
       {},
       0,
       "",
       "skinny_dequant"},
      {"skinny_dequant, cluster",
       "chain a(input x: f16[5, 544], weight q: i8[40, 544] packed, weight s: f32[40, 1]) {\n"
       "  w = dequant(q, s) block (1, 544)\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f16 }",
       {},
       {},
       0,
       "dequant2t1s2b1x1b2c2"},
      {"skinny_dequant, pair",
       "chain a(input x: bf16[5, 544], weight q: i4[40, 544] packed, weight s: bf16[40, 5],\n"
       "        weight p: i4[40, 544] packed, weight t: bf16[40, 5]) {\n"
       "  g = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n"
       "  u = contract \"mk,nk->mn\"(x, dequant(p, t) block (1, 128))\n"
       "  y = mul(silu(g), u)\n  return y: bf16 }",
       {},
       {},
       0,
       "",
       "skinny_dequant"},
      {"skinny_dequant, experts",
       "chain a(input x: bf16[40, 544], weight q: i4[3, 40, 544] packed,\n"
       "        weight s: bf16[3, 40, 5], input e: i32[3]) {\n"
       "  w = dequant(q, s) block (1, 128)\n"
       "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: bf16 }",
       {},
       {{20, 20, 37}}},
      {"dequantise",
       "chain a(weight q: i4[40, 544] packed, weight s: bf16[40, 5], weight z: i8[40, 5],\n"
       "        weight p: u4[40, 544], input t: f32[20, 12]) {\n"
       "  w = cast(dequant(q, s, z) block (1, 128), bf16)\n"
       "  v = cast(dequant(p, t) block (2, 48), f16)\n  return w: bf16, v: f16 }",
       {},
       {}},
      {"gemm_dequant",
       "chain a(input x: bf16[40, 544], weight q: i4[40, 544] packed, weight s: bf16[40, 5],\n"
       "        weight z: i8[40, 5]) {\n"
       "  w = dequant(q, s, z) block (1, 128)\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
       {},
       {},
       0,
       "packed1t3x40s2b2",
       "gemm_dequant"},
      {"gemm_dequant, cluster",
       "chain a(input x: f16[40, 544], weight q: i8[40, 544] packed, weight s: f32[40, 1]) {\n"
       "  w = dequant(q, s) block (1, 544)\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f16 }",
       {},
       {},
       0,
       "packed2t3x24s2b2c2",
       "gemm_dequant"},
      {"gemm_dequant, pair",
       "chain a(input x: bf16[40, 544], weight q: i4[40, 544] packed, weight s: bf16[40, 5],\n"
       "        weight p: i4[40, 544] packed, weight t: bf16[40, 5]) {\n"
       "  g = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n"
       "  u = contract \"mk,nk->mn\"(x, dequant(p, t) block (1, 128))\n"
       "  y = mul(silu(g), u)\n  return y: bf16 }",
       {},
       {},
       0,
       "packed2t2x40s2b2",
       "gemm_dequant"},
  };
}

}  // namespace catenary::gpu_suite
