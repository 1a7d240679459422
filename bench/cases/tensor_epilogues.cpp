// SPDX-License-Identifier: Apache-2.0
// Products whose epilogue reads tensors of the size of the result: a residual that is added, and
// the backward passes of a gated layer and of GELU. The peer is cuBLASLt and a pointwise kernel;
// `no_epilogue` is the product by itself.
#include "bench/cases/cases.h"
#include "bench/tuner.h"

namespace catenary::bench {
namespace {

// groups > 1: [M, G, ..] tensors and a weight for each group.
struct Sizes {
  i64 m, groups, n, k;

  std::vector<i64> rows(i64 width) const {
    return groups > 1 ? std::vector<i64>{m, groups, width} : std::vector<i64>{m, width};
  }
  std::vector<i64> weight() const {
    return groups > 1 ? std::vector<i64>{groups, k, n} : std::vector<i64>{k, n};
  }
  std::string text() const {
    return groups > 1 ? fmt::format("{}x{}x{}x{}", m, groups, n, k)
                      : fmt::format("{}x{}x{}", m, n, k);
  }
  const char* equation() const { return groups > 1 ? "bgk,gkn->bgn" : "mk,kn->mn"; }
};

std::string bf16(const std::vector<i64>& sizes) {
  return fmt::format("bf16[{}]", fmt::join(sizes, ", "));
}

// What follows the product: the tensors that it reads, its lines from `in` (the product, or the
// peer's stored product) on, and its outputs. The product is rounded to bf16 before.
struct Tail {
  const char* name;
  std::vector<std::string> reads;
  std::string lines;
  std::vector<std::string> outputs;
};

const Tail kResidual = {"residual", {"r"}, "  y = add(p, r)\n", {"y"}};
const Tail kGlu = {"dglu",
                   {"g", "u"},
                   "  a = silu(g)\n  h = mul(a, u)\n  du = mul(p, a)\n  s = sigmoid(g)\n"
                   "  one = constant(1)\n  t = mul(s, add(one, mul(g, sub(one, s))))\n"
                   "  dg = mul(mul(p, u), t)\n",
                   {"h", "du", "dg"}};
const Tail kGelu = {"dgelu",
                    {"a"},
                    "  h = gelu_tanh(a)\n  one = constant(1)\n  c = constant(1.5957691216057308)\n"
                    "  cubic = constant(0.044715)\n  three = constant(0.134145)\n"
                    "  q = mul(a, a)\n  b = mul(c, a)\n"
                    "  s = sigmoid(mul(b, add(one, mul(cubic, q))))\n"
                    "  t = mul(mul(b, sub(one, s)), add(one, mul(three, q)))\n"
                    "  da = mul(p, mul(s, add(one, t)))\n",
                    {"h", "da"}};

std::string returns(const Tail& tail) {
  std::vector<std::string> outputs;
  for (const std::string& name : tail.outputs) outputs.push_back(name + ": bf16");
  return fmt::format("  return {}\n}}\n", fmt::join(outputs, ", "));
}

std::string read_text(const Sizes& s, const Tail& tail) {
  std::string text;
  for (const std::string& name : tail.reads)
    text += fmt::format(", input {}: {}", name, bf16(s.rows(s.n)));
  return text;
}

std::string product_head(const Sizes& s) {
  return fmt::format("input x: {}, weight w: {}", bf16(s.rows(s.k)), bf16(s.weight()));
}

std::string fused_text(const Sizes& s, const Tail& tail) {
  return fmt::format("chain {}({}{}) {{\n  p = cast(contract \"{}\"(x, w), bf16)\n{}{}", tail.name,
                     product_head(s), read_text(s, tail), s.equation(), tail.lines, returns(tail));
}

std::string plain_text(const Sizes& s, const std::string& out) {
  return fmt::format("chain plain({}) {{\n  {} = contract \"{}\"(x, w)\n  return {}: bf16\n}}\n",
                     product_head(s), out, s.equation(), out);
}

std::string tail_text(const Sizes& s, const Tail& tail) {
  return fmt::format("chain {}_tail(input p: {}{}) {{\n{}{}", tail.name, bf16(s.rows(s.n)),
                     read_text(s, tail), tail.lines, returns(tail));
}

LtProblem product_problem(const Sizes& s) {
  LtProblem p = dense_problem(DType::kBF16, s.m, s.n, s.k);
  p.b_n_major = true;
  p.row_a = s.groups * s.k;
  p.row_b = s.n;
  p.row_d = s.groups * s.n;
  p.batch = s.groups;
  p.batch_a = s.k;
  p.batch_b = s.k * s.n;
  p.batch_d = s.n;
  return p;
}

Case tail_case(const Sizes& s, const Tail& tail) {
  Case c;
  c.dtype = "bf16";
  c.group = "tensor_epilogue";
  c.shape = s.text();
  c.name = fmt::format("{}/{}/bf16", tail.name, c.shape);
  c.chain = fused_text(s, tail);
  const std::string& last = tail.outputs.back();
  c.no_epilogue = plain_text(s, last);
  c.flops = 2.0 * static_cast<double>(s.m) * s.groups * s.n * s.k;
  const TensorType stored = bf16_tensor(s.rows(s.n));
  c.peer.name = "cuBLASLt best + our pointwise kernel";
  c.peer.steps = {PeerGemm{product_problem(s), "x", "w", "p", ""},
                  PeerPointwise{tail_text(s, tail)}};
  c.peer.scratch = {{"p", stored}};
  return c;
}

}  // namespace

std::vector<Case> tensor_epilogue_cases(i64 m, i64 groups, i64 n, i64 k) {
  std::vector<Case> cases;
  for (const Tail* tail : {&kResidual, &kGlu, &kGelu})
    cases.push_back(tail_case({m, groups, n, k}, *tail));
  return cases;
}

std::vector<Case> all_tensor_epilogue_cases() {
  return {tail_case({8192, 1, 4096, 4096}, kResidual), tail_case({8192, 1, 4096, 14336}, kResidual),
          tail_case({2048, 1, 3072, 768}, kResidual),  tail_case({2560, 12, 3072, 1024}, kGlu),
          tail_case({8192, 1, 14336, 4096}, kGlu),     tail_case({4096, 1, 5632, 2048}, kGlu),
          tail_case({8192, 1, 3072, 768}, kGelu),      tail_case({4096, 1, 8192, 2048}, kGelu)};
}

}  // namespace catenary::bench
