// SPDX-License-Identifier: Apache-2.0
// Handwritten chains for `skinny`; see cases.h. Every kernel for up to 16 rows must be of that
// family. Warps and k-slices divide K in blocks of 128 bytes: evenly, unevenly, or with one block
// each.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

struct Linear {
  const char* dtype = "bf16";
  const char* m = "5";
  i64 n = 40;
  i64 k = 576;
  const char* role = "weight";  // of w
};

// y = x w^T + b, odd N too.
std::string linear(const Linear& l) {
  return fmt::format(
      "chain a{0}(input x: {1}[{2}, {3}], {4} w: {1}[{5}, {3}], weight b: f32[{5}] align 4) {{\n"
      "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: {1} align 4 }}",
      l.m[0] == 'M' ? "[M in 0..16]" : "", l.dtype, l.m, l.k, l.role, l.n);
}

std::vector<i64> counted(i64 last) {
  std::vector<i64> values;
  for (i64 i = 0; i <= last; ++i) values.push_back(i);
  return values;
}

WrittenCase skinny(std::string name, std::string text) {
  WrittenCase made;
  made.name = "skinny, " + std::move(name);
  made.text = std::move(text);
  made.family = "skinny";
  return made;
}

WrittenCase split(WrittenCase made, int split_k) {
  made.split_k = split_k;
  made.name += fmt::format(", split-K {}", split_k);
  return made;
}

WrittenCase shaped(const char* tile, std::string text, int split_k = 0) {
  WrittenCase made = skinny(tile, std::move(text));
  made.tile = tile;
  return split_k > 0 ? split(made, split_k) : made;
}

WrittenCase with_symbols(WrittenCase made, std::vector<i64> symbols) {
  made.symbols = std::move(symbols);
  return made;
}

std::vector<WrittenCase> sizes() {
  return {
      with_symbols(skinny("every row count", linear({.m = "M", .n = 24})), counted(16)),
      with_symbols(shaped("skinny4x1s1r1g1p2", linear({.dtype = "f16", .m = "M", .n = 9}), 2),
                   {0, 1, 7, 8, 9, 16}),
      skinny("17 rows", linear({.m = "17", .n = 40, .k = 1024})),
      skinny("24 rows", linear({.dtype = "f16", .m = "24", .n = 33, .k = 2048})),
      skinny("one column, one row", linear({.m = "1", .n = 1, .k = 512})),
      skinny("15 columns", linear({.dtype = "f16", .m = "2", .n = 15, .k = 576})),
      skinny("17 columns", linear({.m = "16", .n = 17, .k = 1088})),
      skinny("2047 columns", linear({.m = "1", .n = 2047, .k = 512})),
      skinny("K of 2048", linear({.m = "3", .k = 2048})),
      skinny("K of 4096", linear({.dtype = "f16", .m = "4", .k = 4096})),
      skinny("K of 4160", linear({.m = "9", .n = 17, .k = 4160})),
      skinny("tf32, K of 512", linear({.dtype = "f32", .m = "8", .k = 512})),
      skinny("tf32, K of 544", linear({.dtype = "f32", .m = "11", .n = 33, .k = 544})),
      split(skinny("uneven", linear({.m = "6", .k = 2112})), 4),
      split(skinny("uneven tf32", linear({.dtype = "f32", .m = "16", .n = 17, .k = 2080})), 8),
  };
}

// By cp.async, as on every target but sm_90: groups of several blocks and of one, parts of X that
// end within a group, warps with fewer blocks than the k-slice.
std::vector<WrittenCase> async_shapes() {
  return {
      with_symbols(
          shaped("skinny8x1s3r1g2p2a",
                 "chain a[M in 0..16](input x: bf16[M, 2048], weight w: bf16[33, 2048]) {\n"
                 "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }"),
          {0, 1, 8, 9, 16}),
      shaped("skinny8x1s3r1g1p4a", linear({.m = "3", .n = 33, .k = 576})),
      shaped("skinny4x2s2r2g2p4a", linear({.m = "16", .n = 113, .k = 1024})),
      shaped("skinny4x2s0r3g1p1a", linear({.dtype = "f16", .m = "7", .k = 704})),
      shaped("skinny16x1s2r0g1p2a", linear({.m = "8", .k = 1600})),
      shaped("skinny8x1s4r1g3p3a", linear({.dtype = "f32", .m = "13", .n = 50, .k = 1056})),
      shaped("skinny5x1s3r2g3p5a", linear({.m = "4", .n = 23, .k = 1472})),
      shaped("skinny4x1s6r10g2p4a", linear({.m = "8", .n = 33, .k = 4096})),
      shaped("skinny4x1s1r1g1p2a", linear({.m = "10", .n = 20, .k = 576}), 2),
      shaped("skinny4x1s2r1g2p2a", linear({.m = "6", .n = 33, .k = 704, .role = "input"})),
  };
}

// Shapes that the planner does not choose for these sizes: k-slices larger than K, all of W in
// registers or in shared memory, one copy per row, X in one part or in many.
std::vector<WrittenCase> shapes() {
  return {
      shaped("skinny8x1s3r1g2p2", linear({.m = "3", .n = 33, .k = 576})),
      shaped("skinny4x2s2r2g16p4", linear({.m = "16", .n = 113, .k = 1024})),
      shaped("skinny4x2s0r3g1p1", linear({.dtype = "f16", .m = "7", .k = 704})),
      shaped("skinny16x1s2r0g8p2", linear({.m = "8", .k = 1600})),
      shaped("skinny8x1s4r1g4p3", linear({.dtype = "f32", .m = "13", .n = 50, .k = 1056})),
      shaped("skinny5x1s3r2g2p5", linear({.m = "4", .n = 23, .k = 1472})),
      shaped("skinny4x1s1r1g1p2", linear({.m = "10", .n = 20, .k = 576}), 2),
  };
}

// Cluster split-K, even and uneven; 32 and 64 rows of W per warp; X in parts of its columns. Row
// counts that leave some CTAs of a cluster without a column.
std::vector<WrittenCase> clusters() {
  return {
      with_symbols(shaped("skinny8x1s1r1g4p2t2c2", linear({.m = "M", .n = 70, .k = 1088})),
                   counted(16)),
      with_symbols(shaped("skinny4x1s1r1g2p1c4", linear({.m = "M", .n = 33, .k = 2112})),
                   {0, 1, 2, 3, 4, 7, 16}),
      shaped("skinny8x1s3r1g4p2t2c2", linear({.m = "16", .n = 50, .k = 1600})),
      shaped("skinny8x1s3r1g4p4t2c2", linear({.dtype = "f16", .m = "24", .n = 65, .k = 1024})),
      shaped("skinny4x1s2r2g8p4x8t2", linear({.m = "24", .n = 65, .k = 1024})),
      shaped("skinny2x2s2r1g4p3c8", linear({.dtype = "f32", .m = "13", .n = 50, .k = 1120})),
      shaped("skinny2x1s2r1g16p3x8t4c4", linear({.m = "11", .n = 130, .k = 1216})),
      shaped("skinny4x1s3r2g3p5x8t2a", linear({.m = "11", .n = 70, .k = 1088})),
      shaped("skinny4x2s1r1g2p1t2c2", linear({.m = "9", .n = 70, .k = 1024, .role = "input"})),
      shaped("skinny4x1s1r1g4p1t2c2",
             "chain a(input x: bf16[2, 9, 1024], weight w: bf16[2, 23, 1024],\n"
             "        weight v: bf16[2, 23, 1024], weight b: f32[23] align 4) {\n"
             "  g = contract \"bmk,bnk->bmn\"(x, w)\n  u = contract \"bmk,bnk->bmn\"(x, v)\n"
             "  h = mul(relu(add(g, b)), u)\n  return h: f32 align 4 }"),
  };
}

std::string dual_gemm(const char* dtype, int m, int n, int k) {
  return fmt::format(
      "chain a(input x: {0}[{1}, {3}], weight w: {0}[{2}, {3}], weight v: {0}[{2}, {3}],\n"
      "        weight b: {0}[{2}] align {4}) {{\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(relu(add(g, b)), u)\n  return h: f32 align 4 }}",
      dtype, m, n, k, dtype[1] == '3' ? 4 : 2);
}

// Slices of N with unlike numbers of rows, and K that ends, or is divided, inside a block of 128
// bytes.
std::vector<WrittenCase> shares() {
  return {
      with_symbols(shaped("skinny4x1s4r1g4p3n5", linear({.m = "M", .n = 46, .k = 1096})),
                   counted(16)),
      with_symbols(shaped("skinny4x1s2r1g4p3c2n5", linear({.m = "M", .n = 45, .k = 1096})),
                   {0, 1, 2, 7, 8, 9, 16}),
      with_symbols(
          shaped("skinny2x1s3r0g2p3c3n4", linear({.dtype = "f16", .m = "M", .n = 71, .k = 1064})),
          {0, 1, 2, 3, 8, 16}),
      shaped("skinny1x1s1r2g1p1c7n3", linear({.m = "8", .n = 50, .k = 1320})),
      shaped("skinny1x1s3r1g2p2c5n3", linear({.dtype = "f32", .m = "13", .n = 50, .k = 652})),
      shaped("skinny8x1s3r0g4p3n12", linear({.m = "5", .n = 23, .k = 1480})),
      shaped("skinny4x1s5r0g3p5n5a", linear({.m = "3", .n = 23, .k = 1096})),
      shaped("skinny4x1s4r1g2p5x8n3a", linear({.dtype = "f32", .m = "11", .n = 40, .k = 620})),
      shaped("skinny4x1s4r1g4p3n3", linear({.m = "9", .n = 100, .k = 1208, .role = "input"})),
      shaped("skinny4x2s4r1g4p3", linear({.m = "6", .n = 40, .k = 1208})),
      shaped("skinny4x1s1r2g1p2", linear({.m = "6", .n = 40, .k = 1208}), 2),
      shaped("skinny4x1s2r1g4p3c2n5", dual_gemm("bf16", 9, 43, 1096)),
      shaped("skinny4x1s4r1g4p3n4", dual_gemm("f16", 5, 23, 1032)),
      shaped("skinny4x1s1r1g4p1c2n3",
             "chain a(input x: bf16[2, 9, 1032], weight w: bf16[2, 46, 1032]) {\n"
             "  y = contract \"bmk,bnk->bmn\"(x, w)\n  return y: f32 }"),
      skinny("the planner's slices, padded rows",
             "chain a(input x: bf16[7, 1096] strides[1104, 1], weight w: bf16[1041, 1096]\n"
             "        strides[1112, 1]) {\n"
             "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 strides[1047, 1] align 2 }"),
  };
}

std::vector<WrittenCase> layouts() {
  return {
      skinny("w left of x",
             "chain a(input x: bf16[6, 640], weight w: bf16[40, 640]) {\n"
             "  y = contract \"nk,mk->mn\"(w, x)\n  return y: f32 }"),
      skinny("padded rows",
             "chain a(input x: bf16[7, 576] strides[584, 1], weight w: bf16[41, 576]\n"
             "        strides[600, 1]) {\n"
             "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 strides[47, 1] align 2 }"),
      skinny("one row of x for all, columns apart",
             "chain a(input x: f16[5, 512] strides[0, 1], weight w: f16[24, 512]) {\n"
             "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 strides[96, 3] align 4 }"),
      skinny("batch",
             "chain a(input x: bf16[3, 5, 512], weight w: bf16[3, 24, 512]) {\n"
             "  y = contract \"bmk,bnk->bmn\"(x, w)\n  return y: bf16 }"),
      skinny("batch of symbolic rows, padded",
             "chain a[M in 0..16](input x: f16[M, 2, 576] strides[1200, 584, 1],\n"
             "                    weight w: f16[2, 17, 576] strides[9984, 584, 1]) {\n"
             "  y = contract \"mbk,bnk->bmn\"(x, w)\n"
             "  return y: f16 strides[400, 19, 1] align 2 }"),
      skinny("grouped",
             "chain a(input x: bf16[7, 3, 512], weight w: bf16[3, 24, 512]) {\n"
             "  y = contract \"bgk,gnk->bgn\"(x, w)\n  return y: bf16 }"),
      split(skinny("two batch labels",
                   "chain a(input x: bf16[2, 4, 3, 1024], weight w: bf16[3, 19, 2, 1024]) {\n"
                   "  y = contract \"amck,cnak->amcn\"(x, w)\n  return y: f32 }"),
            2),
      shaped("skinny4x1s1r1g1p1",
             "chain a(input x: bf16[0, 5, 512], weight w: bf16[0, 24, 512]) {\n"
             "  y = contract \"bmk,bnk->bmn\"(x, w)\n  return y: bf16 }"),
  };
}

std::vector<WrittenCase> epilogues() {
  return {
      skinny("bias, silu, residual",
             "chain a(input x: bf16[9, 1088], weight w: bf16[40, 1088], weight b: bf16[40],\n"
             "        input r: bf16[9, 40]) {\n"
             "  y = add(silu(add(contract \"mk,nk->mn\"(x, w), b)), r)\n  return y: bf16 }"),
      skinny("bias, residual, scalar, two results, odd",
             "chain a[M in 0..9](input x: f16[M, 512], weight w: f16[33, 512],\n"
             "        weight b: f16[33] align 2, input r: f16[M, 33] align 2, scalar s: f32) {\n"
             "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  z = scale(add(relu(y), r), s)\n"
             "  return y: f32 align 4, z: f32 strides[35, 1] align 4 }"),
      split(skinny("bias, silu, residual",
                   "chain a(input x: bf16[9, 1088], weight w: bf16[39, 1088],\n"
                   "        weight b: bf16[39] align 2, input r: bf16[9, 39] align 2) {\n"
                   "  y = add(silu(add(contract \"mk,nk->mn\"(x, w), b)), r)\n"
                   "  return y: bf16 align 2 }"),
            2),
      skinny("dual GEMM", dual_gemm("bf16", 4, 24, 1088)),
      skinny("dual GEMM, odd", dual_gemm("f16", 9, 23, 576)),
      skinny("dual GEMM, tf32", dual_gemm("f32", 16, 15, 544)),
      shaped("skinny4x1s2r0g2p2", dual_gemm("bf16", 5, 23, 1024), 2),
      shaped("skinny4x1s2r2g2p2a", dual_gemm("bf16", 5, 23, 1024)),
      shaped("skinny8x1s1r1g1p1", linear({.m = "5", .n = 33, .k = 576, .role = "input"})),
      shaped("skinny4x1s1r1g1p1", linear({.m = "12", .n = 24, .k = 1024, .role = "input"}), 2),
      shaped("skinny4x1s1r1g1p1",  // w and v are inputs
             "chain a(input x: bf16[5, 512], weight w: bf16[24, 512], input v: bf16[24, 512]) {\n"
             "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
             "  h = mul(relu(g), u)\n  return h: f32 }"),
      shaped("skinny4x1s1r1g1p1",  // w is the previous kernel's
             "chain a(input x: bf16[5, 512], input p: bf16[24, 512]) {\n"
             "  w = cast(relu(p), bf16)\n  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }"),
      skinny("x from the previous kernel",
             "chain a[M in 0..12](input x: bf16[M, 512], weight w: bf16[256, 512],\n"
             "                    weight v: bf16[24, 256]) {\n"
             "  h = cast(relu(contract \"mk,nk->mn\"(x, w)), bf16)\n"
             "  y = contract \"mk,nk->mn\"(h, v)\n  return h: bf16, y: bf16 }"),
      shaped("skinny4x1s2r0g2p2a",
             "chain a[M in 0..12](input x: bf16[M, 512], weight w: bf16[256, 512],\n"
             "                    weight v: bf16[24, 256]) {\n"
             "  h = cast(relu(contract \"mk,nk->mn\"(x, w)), bf16)\n"
             "  y = contract \"mk,nk->mn\"(h, v)\n  return h: bf16, y: bf16 }"),
  };
}

}  // namespace

std::vector<WrittenCase> skinny_cases() {
  std::vector<WrittenCase> all = sizes();
  for (auto* more : {&shapes, &async_shapes, &clusters, &shares, &layouts, &epilogues}) {
    for (WrittenCase& made : (*more)()) all.push_back(std::move(made));
  }
  return all;
}

}  // namespace catenary::gpu_suite
