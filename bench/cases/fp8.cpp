// SPDX-License-Identifier: Apache-2.0
// Layers with operands of e4m3 and a scale per row of each: sums promoted to f32 every 128 of K,
// and fast ones; and with scales per block of 1 x 128 and 128 x 128. The peer is cuBLASLt's fp8
// GEMM with the same scales and accumulation; of gated, grouped and ragged layers it has no scales,
// and its result is not compared.
#include "bench/cases/cases.h"

namespace catenary::bench {
namespace {

constexpr DType kFp8 = DType::kE4M3;

Case fp8_case(std::string_view kind, std::string shape, double flops) {
  Case c;
  c.dtype = "e4m3";
  c.group = "fp8";
  c.shape = std::move(shape);
  c.name = fmt::format("fp8_{}/{}/e4m3", kind, c.shape);
  c.flops = flops;
  c.rate = 2;
  return c;
}

double product_flops(i64 m, i64 n, i64 k) { return 2.0 * static_cast<double>(m) * n * k; }

struct Layer {
  i64 m, n, k;
};

Case dense_case(const Layer& l, bool fast) {
  Case c = fp8_case(fast ? "fast" : "dense", fmt::format("{}x{}x{}", l.m, l.n, l.k),
                    product_flops(l.m, l.n, l.k));
  c.chain = fmt::format(
      "chain fp8(input x: e4m3[{0}, {2}], weight w: e4m3[{1}, {2}], input s: f32[{0}],\n"
      "          weight t: f32[{1}]) {{\n"
      "  h = contract \"mk,nk->mn\"{3}(x, w)\n"
      "  y = mul(mul(h, s @ \"m\"), t @ \"n\")\n  return y: bf16\n}}\n",
      l.m, l.n, l.k, fast ? " fast_accum " : "");
  c.m = l.m;
  c.n = l.n;
  c.k = l.k;
  PeerGemm gemm{dense_problem(kFp8, l.m, l.n, l.k), "x", "w", "y", ""};
  gemm.problem.scales = LtScales::kRows;
  gemm.problem.fast_accum = fast;
  gemm.scale_a = "s";
  gemm.scale_b = "t";
  c.peer.name = "cuBLASLt best, scales per row";
  c.peer.steps = {gemm};
  // Scales of 1: what cuBLASLt reaches without the work of the epilogue.
  gemm.problem.scales = LtScales::kNone;
  gemm.scale_a = gemm.scale_b = "";
  c.second_peer.name = "cuBLASLt best, no scales";
  c.second_peer.steps = {gemm};
  c.second_peer.own_weights = true;
  return c;
}

// Scales per block. `rows_inside`: the order of A's scales that cuBLASLt takes; the other one is
// compared without its scales.
Case blocks_case(const Layer& l, bool rows_inside) {
  Case c = fp8_case(rows_inside ? "blocks" : "blocks_k", fmt::format("{}x{}x{}", l.m, l.n, l.k),
                    product_flops(l.m, l.n, l.k));
  c.chain = fmt::format(
      "chain fp8_blocks(input x: e4m3[{0}, {2}], weight w: e4m3[{1}, {2}],\n"
      "                 input s: f32[{0}, {4}]{5}, weight t: f32[{3}, {4}]) {{\n"
      "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128))\n"
      "  return y: bf16\n}}\n",
      l.m, l.n, l.k, ceil_div(l.n, 128), ceil_div(l.k, 128),
      rows_inside ? fmt::format(" strides[1, {}]", l.m) : "");
  c.m = l.m;
  c.n = l.n;
  c.k = l.k;
  PeerGemm gemm{dense_problem(kFp8, l.m, l.n, l.k), "x", "w", "y", ""};
  Peer no_scales;
  no_scales.name = "cuBLASLt best, no scales";
  no_scales.steps = {gemm};
  no_scales.own_weights = true;
  if (!rows_inside) {
    c.peer = no_scales;
    return c;
  }
  gemm.problem.scales = LtScales::kBlocks;
  gemm.scale_a = "s";
  gemm.scale_b = "t";
  c.peer.name = "cuBLASLt best, scales per block";
  c.peer.steps = {gemm};
  c.second_peer = no_scales;
  return c;
}

// Scales per block, and a result with a scale for each row and 128 columns. The peer stores bf16.
Case quantising_case(const Layer& l) {
  Case c = blocks_case(l, false);
  c.name = fmt::format("fp8_blocks_to_blocks/{}/e4m3", c.shape);
  c.chain = fmt::format(
      "chain fp8_blocks(input x: e4m3[{0}, {2}], weight w: e4m3[{1}, 128, {2}],\n"
      "                 input s: f32[{0}, {3}] strides[1, {0}], weight t: f32[{1}, 1, {3}]) {{\n"
      "  h = contract \"mk,jck->mjc\"(dequant(x, s) block (1, 128),\n"
      "                             dequant(w, t) block (128, 128))\n"
      "  z = mul(max(reduce_max \"mjc->mj\"(abs(h)), 0.0001), 0.002232142857142857)\n"
      "  y = div(h, z @ \"mj\")\n  return y: e4m3, z: f32 strides[1, {0}]\n}}\n",
      l.m, l.n / 128, l.k, ceil_div(l.k, 128));
  c.peer.name = "cuBLASLt best, no scales, to bf16";
  c.peer.scratch = {{"y_16", contiguous_tensor(DType::kBF16, {l.m, l.n})}};
  std::get<PeerGemm>(c.peer.steps[0]).d = "y_16";
  return c;
}

// The result in bf16 or, quantised with one scale, in fp8. Scales of tensors are constants.
Case gated_case(const Layer& l, bool quantised) {
  Case c = fp8_case(quantised ? "gated_e4m3" : "gated", fmt::format("{}x{}x{}", l.m, l.n, l.k),
                    2 * product_flops(l.m, l.n, l.k));
  c.chain = fmt::format(
      "chain fp8_gated(input x: e4m3[{0}, {2}], weight wg: e4m3[{1}, {2}],\n"
      "                weight wu: e4m3[{1}, {2}], input s: f32[{0}], weight t: f32[{1}],\n"
      "                weight u: f32[{1}]) {{\n"
      "  g = contract \"mk,nk->mn\"(x, wg)\n  h = contract \"mk,nk->mn\"(x, wu)\n"
      "  a = mul(mul(g, s @ \"m\"), t @ \"n\")\n  b = mul(mul(h, s @ \"m\"), u @ \"n\")\n"
      "  y = {3}\n  return y: {4}\n}}\n",
      l.m, l.n, l.k, quantised ? "mul(mul(silu(a), b), 0.5)" : "mul(silu(a), b)",
      quantised ? "e4m3" : "bf16");
  c.peer.name = "2 cuBLASLt best + our pointwise kernel, no scales";
  const LtProblem problem = dense_problem(kFp8, l.m, l.n, l.k);
  const PeerPointwise gate = {
      fmt::format("chain gate(input g_16: bf16[{0}, {1}], input u_16: bf16[{0}, {1}]) {{\n"
                  "  y = mul(silu(g_16), u_16)\n  return y: {2}\n}}\n",
                  l.m, l.n, quantised ? "e4m3" : "bf16")};
  c.peer.steps = {PeerGemm{problem, "x", "wg", "g_16", ""},
                  PeerGemm{problem, "x", "wu", "u_16", ""}, gate};
  c.peer.scratch = gate_scratch({l.m, l.n});
  c.peer.own_weights = true;
  return c;
}

// Scales per block; the result in bf16.
Case gated_blocks_case(const Layer& l) {
  Case c = gated_case(l, false);
  c.name = fmt::format("fp8_blocks_gated/{}/e4m3", c.shape);
  c.chain = fmt::format(
      "chain fp8_blocks_gated(input x: e4m3[{0}, {2}], input s: f32[{0}, {4}] strides[1, {0}],\n"
      "                       weight wg: e4m3[{1}, {2}], weight t: f32[{3}, {4}],\n"
      "                       weight wu: e4m3[{1}, {2}], weight u: f32[{3}, {4}]) {{\n"
      "  d = dequant(x, s) block (1, 128)\n"
      "  g = contract \"mk,nk->mn\"(d, dequant(wg, t) block (128, 128))\n"
      "  h = contract \"mk,nk->mn\"(d, dequant(wu, u) block (128, 128))\n"
      "  y = mul(silu(g), h)\n  return y: bf16\n}}\n",
      l.m, l.n, l.k, ceil_div(l.n, 128), ceil_div(l.k, 128));
  return c;
}

// The same with a result that has a scale for each row and 128 columns. The peer stores bf16.
Case quantising_gated_case(const Layer& l) {
  Case c = gated_blocks_case(l);
  c.name = fmt::format("fp8_blocks_gated_to_blocks/{}/e4m3", c.shape);
  c.chain = fmt::format(
      "chain fp8_blocks_gated(input x: e4m3[{0}, {2}], input s: f32[{0}, {3}] strides[1, {0}],\n"
      "                       weight wg: e4m3[{1}, 128, {2}], weight t: f32[{1}, 1, {3}],\n"
      "                       weight wu: e4m3[{1}, 128, {2}], weight u: f32[{1}, 1, {3}]) {{\n"
      "  d = dequant(x, s) block (1, 128)\n"
      "  g = contract \"mk,jck->mjc\"(d, dequant(wg, t) block (128, 128))\n"
      "  h = contract \"mk,jck->mjc\"(d, dequant(wu, u) block (128, 128))\n"
      "  a = mul(silu(g), h)\n"
      "  z = mul(max(reduce_max \"mjc->mj\"(abs(a)), 0.0001), 0.002232142857142857)\n"
      "  y = div(a, z @ \"mj\")\n  return y: e4m3, z: f32 strides[1, {0}]\n}}\n",
      l.m, l.n / 128, l.k, ceil_div(l.k, 128));
  c.peer.name = "2 cuBLASLt best + our pointwise kernel, no scales, to bf16";
  std::get<PeerPointwise>(c.peer.steps[2]).chain = fmt::format(
      "chain gate(input g_16: bf16[{0}, {1}], input u_16: bf16[{0}, {1}]) {{\n"
      "  y_16 = mul(silu(g_16), u_16)\n  return y_16: bf16\n}}\n",
      l.m, l.n);
  c.peer.scratch.push_back({"y_16", contiguous_tensor(DType::kBF16, {l.m, l.n})});
  return c;
}

// x [B,G,K], w [G,N,K].
Case grouped_case(i64 b, i64 g, i64 n, i64 k) {
  Case c = fp8_case("grouped", fmt::format("{}x{}x{}x{}", b, g, n, k), g * product_flops(b, n, k));
  c.chain = fmt::format(
      "chain fp8_grouped(input x: e4m3[{0}, {1}, {3}], weight w: e4m3[{1}, {2}, {3}],\n"
      "                  input s: f32[{0}], weight t: f32[{1}, {2}]) {{\n"
      "  h = contract \"bgk,gnk->bgn\"(x, w)\n"
      "  y = mul(mul(h, s @ \"b\"), t @ \"gn\")\n  return y: bf16\n}}\n",
      b, g, n, k);
  PeerGemm gemm{dense_problem(kFp8, b, n, k), "x", "w", "y", ""};
  LtProblem& p = gemm.problem;
  p.row_a = g * k;
  p.row_d = g * n;
  p.batch = g;
  p.batch_a = k;
  p.batch_b = n * k;
  p.batch_d = n;
  c.peer = loop_of(gemm);
  c.peer.name = "loop of cuBLASLt best, no scales";
  c.peer.own_weights = true;
  return c;
}

// `rows` rows for each expert; a scale for each row, one for the weights; or scales per block.
Case experts_case(i64 experts, i64 rows, i64 n, i64 k, bool blocks) {
  const i64 m = experts * rows;
  Case c = fp8_case(blocks ? "experts_blocks" : "experts",
                    fmt::format("{}x{}x{}x{}", experts, m, n, k), product_flops(m, n, k));
  const char* const text =
      blocks ? "chain fp8_experts(input x: e4m3[{0}, {3}], weight w: e4m3[{1}, {2}, {3}],\n"
               "                  input ends: i32[{1}], input s: f32[{0}, {5}] strides[1, {0}],\n"
               "                  weight t: f32[{1}, {4}, {5}]) {{\n"
               "  y = contract \"mk,enk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block "
               "(128, 128))\n      ragged m by ends over e\n  return y: bf16\n}}\n"
             : "chain fp8_experts(input x: e4m3[{0}, {3}], weight w: e4m3[{1}, {2}, {3}],\n"
               "                  input ends: i32[{1}], input s: f32[{0}]) {{\n"
               "  h = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n"
               "  y = mul(mul(h, s @ \"m\"), 0.5)\n  return y: bf16\n}}\n";
  c.chain = fmt::format(fmt::runtime(text), m, experts, n, k, ceil_div(n, 128), ceil_div(k, 128));
  c.peer.name = "loop of cuBLASLt best, no scales";
  c.peer.own_weights = true;
  for (i64 e = 0; e < experts; ++e) {
    c.ends.push_back(static_cast<i32>((e + 1) * rows));
    PeerGemm gemm{dense_problem(kFp8, rows, n, k), "x", "w", "y", ""};
    gemm.a_offset = e * rows * k;
    gemm.b_offset = e * n * k;
    gemm.d_offset = e * rows * n;
    c.peer.steps.emplace_back(gemm);
  }
  c.note = "the peer's loop knows the group sizes on the host; shape is ExMxNxK";
  return c;
}

}  // namespace

std::vector<Case> fp8_cases() {
  constexpr Layer kDense[] = {{4096, 4096, 4096},  {8192, 8192, 8192},  {4096, 7168, 16384},
                              {4096, 24576, 1536}, {8192, 4096, 14336}, {512, 8192, 8192}};
  std::vector<Case> cases;
  for (const Layer& layer : kDense) {
    for (const bool fast : {false, true}) cases.push_back(dense_case(layer, fast));
  }
  for (const Layer& layer : {Layer{4096, 14336, 4096}, Layer{8192, 8192, 8192}}) {
    for (const bool quantised : {false, true}) cases.push_back(gated_case(layer, quantised));
    cases.push_back(gated_blocks_case(layer));
  }
  cases.push_back(quantising_gated_case({4096, 14336, 4096}));
  for (const Layer& layer : kDense) cases.push_back(blocks_case(layer, true));
  for (const Layer& layer : {kDense[0], kDense[2]}) cases.push_back(blocks_case(layer, false));
  for (const Layer& layer : {kDense[0], kDense[2], kDense[4]})
    cases.push_back(quantising_case(layer));
  cases.push_back(grouped_case(2560, 12, 1024, 3072));
  for (const bool blocks : {false, true}) {
    cases.push_back(experts_case(8, 1024, 4096, 7168, blocks));
    cases.push_back(experts_case(64, 128, 4096, 2048, blocks));
  }
  return cases;
}

}  // namespace catenary::bench
