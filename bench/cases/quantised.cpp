// SPDX-License-Identifier: Apache-2.0
// Linear layers with quantised weights at the sizes of decode, and of a short prefill: int4 with a
// scale per 128 columns, int8 with a scale per channel. The peer is cuBLASLt's bf16 GEMM of the
// same shape, which reads two and four times the bytes.
#include "bench/cases/cases.h"

#include <algorithm>

namespace catenary::bench {
namespace {

struct Layer {
  i64 n, k;
};
constexpr Layer kLayers[] = {
    {4096, 4096}, {8192, 8192}, {28672, 4096}, {4096, 14336}, {37888, 3584}};

Case quantised_case(DType dtype, i64 m, const Layer& l) {
  const i64 columns = dtype == DType::kI8 ? l.k : 128;
  Case c;
  c.dtype = fmt::format("{} x bf16", dtype_text(dtype));
  c.shape = fmt::format("{}x{}x{}", m, l.n, l.k);
  c.name = fmt::format("{}/{}/bf16", dtype == DType::kI8 ? "int8" : "int4_g128", c.shape);
  c.group = "quantised";
  c.chain = fmt::format(
      "chain {6}(input x: bf16[{0}, {1}], weight q: {2}[{3}, {1}] packed,\n"
      "                weight s: bf16[{3}, {4}]) {{\n"
      "  w = dequant(q, s) block (1, {5})\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16\n}}\n",
      m, l.k, dtype_text(dtype), l.n, l.k / columns, columns, packed_chain_name("quantised", m));
  c.flops = 2.0 * static_cast<double>(m) * l.n * l.k;
  c.m = m;
  c.n = l.n;
  c.k = l.k;
  // As many as the bf16 weights of the peer leave memory for.
  c.copies = static_cast<int>(std::clamp<i64>((i64{1} << 33) / (2 * l.n * l.k), 10, 100));
  c.peer.name = "cuBLASLt best, bf16";
  c.peer.steps = {PeerGemm{dense_problem(DType::kBF16, m, l.n, l.k), "x", "w_16", "y", ""}};
  c.peer.scratch = {{"w_16", bf16_tensor({l.n, l.k})}};
  c.peer.own_weights = true;
  return c;
}

}  // namespace

std::vector<Case> quantised_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::kI4, DType::kI8}) {
    for (const Layer& layer : kLayers) {
      for (const i64 m : {1, 4, 8, 16, 32, 64, 256})
        cases.push_back(quantised_case(dtype, m, layer));
    }
  }
  return cases;
}

}  // namespace catenary::bench
