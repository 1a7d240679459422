// SPDX-License-Identifier: Apache-2.0
// Grouped linear layers: the label g is in every tensor. The peer is one strided batched GEMM, or a
// loop over the groups.
#include "bench/cases/cases.h"
#include "bench/tuner.h"

namespace catenary::bench {
namespace {

enum class Kind { kPlain, kBiasSilu, kGated, kDgrad, kWgrad };

struct Grouped {
  i64 b, g, n, k;
  bool rows_first;  // x [B,G,K] and y [B,G,N], else [G,B,K] and [G,B,N]
  bool k_major;     // w [G,N,K], else [G,K,N]

  std::string labels(char last) const {
    return fmt::format("{}{}", rows_first ? "bg" : "gb", last);
  }
  std::string weight_labels() const { return k_major ? "gnk" : "gkn"; }
  std::vector<i64> rows(i64 width) const {
    return rows_first ? std::vector<i64>{b, g, width} : std::vector<i64>{g, b, width};
  }
  std::vector<i64> weight() const {
    return k_major ? std::vector<i64>{g, n, k} : std::vector<i64>{g, k, n};
  }
  i64 row_step(i64 width) const { return rows_first ? g * width : width; }
  i64 group_step(i64 width) const { return rows_first ? width : b * width; }
};

// "bf16[2560, 12, 1024]".
std::string bf16(const std::vector<i64>& sizes) {
  return fmt::format("bf16[{}]", fmt::join(sizes, ", "));
}

std::string forward_chain(const Grouped& s, Kind kind) {
  const std::string product =
      fmt::format("contract \"{},{}->{}\"", s.labels('k'), s.weight_labels(), s.labels('n'));
  const std::string x = "input x: " + bf16(s.rows(s.k));
  const std::string w = bf16(s.weight());
  if (kind == Kind::kPlain) {
    return fmt::format("chain grouped({}, weight w: {}) {{\n  y = {}(x, w)\n  return y: bf16\n}}\n",
                       x, w, product);
  }
  if (kind == Kind::kBiasSilu) {
    return fmt::format(
        "chain grouped_bias_silu({}, weight w: {}, weight b: {}) {{\n  h = {}(x, w)\n"
        "  y = silu(add(h, b @ \"gn\"))\n  return y: bf16\n}}\n",
        x, w, bf16({s.g, s.n}), product);
  }
  return fmt::format(
      "chain grouped_gated({0}, weight wg: {1}, weight wu: {1}) {{\n  g = {2}(x, wg)\n"
      "  u = {2}(x, wu)\n  y = mul(silu(g), u)\n  return y: bf16\n}}\n",
      x, w, product);
}

std::string gradient_chain(const Grouped& s, Kind kind) {
  const std::string dy = "input dy: " + bf16(s.rows(s.n));
  if (kind == Kind::kDgrad) {
    return fmt::format(
        "chain grouped_dgrad({}, weight w: {}) {{\n  dx = contract \"{},{}->{}\"(dy, w)\n"
        "  return dx: bf16\n}}\n",
        dy, bf16(s.weight()), s.labels('n'), s.weight_labels(), s.labels('k'));
  }
  return fmt::format(
      "chain grouped_wgrad({}, input x: {}) {{\n  dw = contract \"{},{}->{}\"(dy, x)\n"
      "  return dw: bf16\n}}\n",
      dy, bf16(s.rows(s.k)), s.labels('n'), s.labels('k'), s.weight_labels());
}

// M = B rows of K = `terms` elements, N = `columns`.
LtProblem rows_problem(const Grouped& s, i64 columns, i64 terms, bool weights_along_columns) {
  LtProblem p = dense_problem(DType::kBF16, s.b, columns, terms);
  p.b_n_major = weights_along_columns;
  p.row_a = s.row_step(terms);
  p.row_b = s.k_major ? s.k : s.n;
  p.row_d = s.row_step(columns);
  p.batch = s.g;
  p.batch_a = s.group_step(terms);
  p.batch_b = s.n * s.k;
  p.batch_d = s.group_step(columns);
  return p;
}

LtProblem forward_problem(const Grouped& s) { return rows_problem(s, s.n, s.k, !s.k_major); }
LtProblem dgrad_problem(const Grouped& s) { return rows_problem(s, s.k, s.n, s.k_major); }

// dw [G,N,K]: the rows are summed.
LtProblem wgrad_problem(const Grouped& s) {
  LtProblem p = dense_problem(DType::kBF16, s.n, s.k, s.b);
  p.a_m_major = true;
  p.b_n_major = true;
  p.row_a = s.row_step(s.n);
  p.row_b = s.row_step(s.k);
  p.row_d = s.k;
  p.batch = s.g;
  p.batch_a = s.group_step(s.n);
  p.batch_b = s.group_step(s.k);
  p.batch_d = s.n * s.k;
  return p;
}

Peer batched_peer(const PeerGemm& product) {
  return {"strided batched cuBLASLt best", {product}, {}};
}

Peer bias_silu_peer(const Grouped& s) {
  Peer peer = batched_peer({forward_problem(s), "x", "w", "h_16", ""});
  peer.name += ", our bias and SiLU kernel";
  peer.steps.emplace_back(PeerPointwise{
      fmt::format("chain bias_silu_tail(input h_16: {}, input b: {}) {{\n"
                  "  y = silu(add(h_16 @ \"{}\", b @ \"gn\"))\n  return y: bf16\n}}\n",
                  bf16(s.rows(s.n)), bf16({s.g, s.n}), s.labels('n'))});
  peer.scratch = {{"h_16", bf16_tensor(s.rows(s.n))}};
  return peer;
}

Peer gated_peer(const Grouped& s) {
  const LtProblem problem = forward_problem(s);
  return {"2 x strided batched cuBLASLt best + our pointwise kernel",
          {PeerGemm{problem, "x", "wg", "g_16", ""}, PeerGemm{problem, "x", "wu", "u_16", ""},
           gate_step("y", s.rows(s.n))},
          gate_scratch(s.rows(s.n))};
}

Case grouped_case(const Grouped& s, Kind kind) {
  constexpr const char* kNames[] = {"grouped", "grouped_bias_silu", "grouped_gated",
                                    "grouped_dgrad", "grouped_wgrad"};
  Case c;
  c.dtype = "bf16";
  c.group = "grouped";
  c.shape = fmt::format("{}x{}x{}x{}", s.b, s.g, s.n, s.k);
  c.name = fmt::format("{}{}{}/{}/bf16", kNames[static_cast<int>(kind)], s.rows_first ? "" : "_gbk",
                       s.k_major ? "" : "_gkn", c.shape);
  c.note = fmt::format("rows [{}], weights [{}], shape is BxGxNxK", s.rows_first ? "B,G" : "G,B",
                       s.k_major ? "G,N,K" : "G,K,N");
  c.flops = (kind == Kind::kGated ? 4.0 : 2.0) * s.b * s.g * s.n * s.k;
  const bool gradient = kind == Kind::kDgrad || kind == Kind::kWgrad;
  c.chain = gradient ? gradient_chain(s, kind) : forward_chain(s, kind);
  switch (kind) {
    case Kind::kBiasSilu:
      c.no_epilogue = forward_chain(s, Kind::kPlain);
      c.peer = bias_silu_peer(s);
      return c;
    case Kind::kGated:
      c.peer = gated_peer(s);
      return c;
    case Kind::kPlain:
      c.peer = batched_peer({forward_problem(s), "x", "w", "y", ""});
      break;
    case Kind::kDgrad:
      c.peer = batched_peer({dgrad_problem(s), "dy", "w", "dx", ""});
      break;
    case Kind::kWgrad:
      c.peer = batched_peer({wgrad_problem(s), "dy", "x", "dw", ""});
      break;
  }
  c.second_peer = loop_of(std::get<PeerGemm>(c.peer.steps[0]));
  return c;
}

}  // namespace

Peer loop_of(const PeerGemm& batched) {
  Peer peer;
  peer.name = fmt::format("loop of {} cuBLASLt best", batched.problem.batch);
  for (i64 group = 0; group < batched.problem.batch; ++group) {
    PeerGemm one = batched;
    LtProblem& p = one.problem;
    one.a_offset = group * p.batch_a;
    one.b_offset = group * p.batch_b;
    one.d_offset = group * p.batch_d;
    p.batch = 1;
    p.batch_a = p.batch_b = p.batch_d = 0;
    peer.steps.emplace_back(one);
  }
  return peer;
}

std::vector<Case> grouped_cases(i64 b, i64 g, i64 n, i64 k) {
  std::vector<Case> cases;
  for (const Kind kind : {Kind::kPlain, Kind::kBiasSilu, Kind::kGated}) {
    for (const bool k_major : {true, false}) {
      for (const bool rows_first : {true, false}) {
        cases.push_back(grouped_case({b, g, n, k, rows_first, k_major}, kind));
      }
    }
  }
  for (const Kind kind : {Kind::kDgrad, Kind::kWgrad}) {
    for (const bool rows_first : {true, false}) {
      cases.push_back(grouped_case({b, g, n, k, rows_first, true}, kind));
    }
  }
  return cases;
}

}  // namespace catenary::bench
