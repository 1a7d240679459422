// SPDX-License-Identifier: Apache-2.0
// Several contractions that read one activation: the queries, keys and values of a layer, and the
// gradients of gate and up. The peer is one GEMM for each; the second peer of QKV is one GEMM by a
// matrix that holds the three weights, which computes another arrangement of the outputs.
#include <algorithm>

#include "bench/cases/cases.h"
#include "bench/tuner.h"

namespace catenary::bench {
namespace {

// Llama-3-8B and Qwen2.5-7B.
constexpr QkvSizes kQkv[] = {{4096, 4096, 1024}, {3584, 3584, 512}};

}  // namespace

Case qkv_case(i64 m, const QkvSizes& l) {
  const i64 n = l.q + 2 * l.kv;
  Case c;
  c.dtype = "bf16";
  c.group = "qkv";
  c.shape = fmt::format("{}x{}x{}", m, n, l.k);
  c.name = fmt::format("qkv/{}/bf16", c.shape);
  c.chain = fmt::format(
      "chain qkv(input x: bf16[{0}, {1}], weight wq: bf16[{2}, {1}], weight wk: bf16[{3}, {1}],\n"
      "    weight wv: bf16[{3}, {1}]) {{\n  q = contract \"mk,nk->mn\"(x, wq)\n"
      "  k = contract \"mk,nk->mn\"(x, wk)\n  v = contract \"mk,nk->mn\"(x, wv)\n"
      "  return q: bf16, k: bf16, v: bf16\n}}\n",
      m, l.k, l.q, l.kv);
  c.flops = 2.0 * static_cast<double>(m) * n * l.k;
  c.m = m;
  c.n = n;
  c.k = l.k;
  c.copies = static_cast<int>(std::clamp<i64>((i64{1} << 31) / (2 * n * l.k), 10, 100));
  const LtProblem kv = dense_problem(DType::kBF16, m, l.kv, l.k);
  c.peer.name = "3 x cuBLASLt best";
  c.peer.steps = {PeerGemm{dense_problem(DType::kBF16, m, l.q, l.k), "x", "wq", "q", ""},
                  PeerGemm{kv, "x", "wk", "k", ""}, PeerGemm{kv, "x", "wv", "v", ""}};
  c.second_peer.name = "cuBLASLt best, one weight";
  c.second_peer.steps = {
      PeerGemm{dense_problem(DType::kBF16, m, n, l.k), "x", "w_16", "qkv_16", ""}};
  c.second_peer.scratch = {{"w_16", bf16_tensor({n, l.k})}, {"qkv_16", bf16_tensor({m, n})}};
  c.second_peer.own_weights = true;
  c.note = fmt::format("N is {} + {} + {}", l.q, l.kv, l.kv);
  return c;
}

Case wgrads_case(i64 rows, i64 n, i64 k) {
  Case c;
  c.dtype = "bf16";
  c.group = "wgrads";
  c.shape = fmt::format("{}x{}x{}", 2 * n, k, rows);
  c.name = fmt::format("wgrads/{}/bf16", c.shape);
  c.chain = fmt::format(
      "chain wgrads(input x: bf16[{0}, {2}], input dg: bf16[{0}, {1}], input du: bf16[{0}, {1}]) "
      "{{\n  wg = contract \"tn,tk->nk\"(dg, x)\n  wu = contract \"tn,tk->nk\"(du, x)\n"
      "  return wg: bf16, wu: bf16\n}}\n",
      rows, n, k);
  c.flops = 4.0 * static_cast<double>(rows) * n * k;
  LtProblem p = dense_problem(DType::kBF16, n, k, rows);
  p.a_m_major = true;
  p.b_n_major = true;
  p.row_a = n;
  p.row_b = k;
  p.row_d = k;
  c.peer.name = "2 x cuBLASLt best";
  c.peer.steps = {PeerGemm{p, "dg", "x", "wg", ""}, PeerGemm{p, "du", "x", "wu", ""}};
  c.note = "shape is M of both x N x K; K is the rows";
  return c;
}

std::vector<Case> beside_cases() {
  std::vector<Case> cases;
  for (const QkvSizes& layer : kQkv) {
    for (const i64 m : {1, 16, 64, 256, 512, 2048}) cases.push_back(qkv_case(m, layer));
  }
  cases.push_back(wgrads_case(8192, 3072, 768));
  cases.push_back(wgrads_case(4096, 2816, 1024));
  cases.push_back(wgrads_case(8192, 14336, 4096));
  return cases;
}

}  // namespace catenary::bench
