// SPDX-License-Identifier: Apache-2.0
#include "bench/cases/layer.h"

#include <algorithm>

#include "bench/tuner.h"

namespace catenary::bench {
namespace {

using Kind = Layer::Kind;
using Epilogue = Layer::Epilogue;

bool has_bias(const Layer& l) {
  return l.epilogue != Epilogue::kNone && l.epilogue != Epilogue::kSwiglu;
}

// "bf16[128, 4096]".
std::string tensor_text(const Layer& l, const std::vector<i64>& sizes) {
  return fmt::format("{}[{}]", dtype_text(l.dtype), fmt::join(sizes, ", "));
}

// Rows of `width` elements.
std::vector<i64> row_sizes(const Layer& l, i64 width) {
  if (l.kind != Kind::kGrouped) return {l.m, width};
  return l.rows_first ? std::vector<i64>{l.m, l.groups, width}
                      : std::vector<i64>{l.groups, l.m, width};
}

std::vector<i64> weight_sizes(const Layer& l) {
  const bool one = l.kind == Kind::kDense || l.kind == Kind::kDual;
  return one ? std::vector<i64>{l.n, l.k} : std::vector<i64>{l.groups, l.n, l.k};
}

// A weight parameter of the chain, or its integers and scales.
std::string weight_text(const Layer& l, std::string_view name) {
  if (!l.packed) return fmt::format("weight {}: {}", name, tensor_text(l, weight_sizes(l)));
  return fmt::format("weight q{0}: {1}[{2}, {3}] packed, weight s{0}: {4}[{2}, {5}]", name,
                     dtype_text(*l.packed), l.n, l.k, dtype_text(l.dtype), l.k / scaled_columns(l));
}

// The same as an operand.
std::string operand_text(const Layer& l, std::string_view name) {
  if (!l.packed) return std::string(name);
  return fmt::format("dequant(q{0}, s{0}) block (1, {1})", name, scaled_columns(l));
}

std::vector<i64> bias_sizes(const Layer& l) {
  return l.kind == Kind::kGrouped ? std::vector<i64>{l.groups, l.n} : std::vector<i64>{l.n};
}

const char* output_labels(const Layer& l) {
  if (l.kind != Kind::kGrouped) return "mn";
  return l.rows_first ? "bgn" : "gbn";
}

// The contraction of x and `weight`.
std::string contraction_text(const Layer& l, const char* weight) {
  const char* labels = l.kind == Kind::kExperts   ? "mk,enk->mn"
                       : l.kind != Kind::kGrouped ? "mk,nk->mn"
                       : l.rows_first             ? "bgk,gnk->bgn"
                                                  : "gbk,gnk->gbn";
  const char* ragged = l.kind == Kind::kExperts ? " ragged m by ends over e" : "";
  return fmt::format("contract \"{}\"(x, {}){}", labels, operand_text(l, weight), ragged);
}

// `value` with the bias added and the activation applied.
std::string activated(const Layer& l, const std::string& value) {
  if (l.epilogue == Epilogue::kNone) return value;
  const bool grouped = l.kind == Kind::kGrouped;
  const std::string sum = fmt::format("add({}, b{})", value, grouped ? " @ \"gn\"" : "");
  if (l.epilogue == Epilogue::kBiasSilu) return fmt::format("silu({})", sum);
  if (l.epilogue == Epilogue::kBiasGelu) return fmt::format("gelu_tanh({})", sum);
  return sum;
}

std::string chain_text(const Layer& l) {
  const std::string name = l.packed ? packed_chain_name("layer", l.m) : "layer";
  std::string head = fmt::format("chain {}(input x: {}", name, tensor_text(l, row_sizes(l, l.k)));
  const std::string ends =
      l.kind == Kind::kExperts ? fmt::format(", input ends: i32[{}]", l.groups) : "";
  const std::string_view type = dtype_text(l.dtype);
  if (l.epilogue == Epilogue::kSwiglu) {
    return fmt::format(
        "{}, {}, {}{}) {{\n  g = {}\n  u = {}\n"
        "  y = mul(silu(g), u)\n  return y: {}\n}}\n",
        head, weight_text(l, "wg"), weight_text(l, "wu"), ends, contraction_text(l, "wg"),
        contraction_text(l, "wu"), type);
  }
  head += ", " + weight_text(l, "w") + ends;
  if (has_bias(l)) head += ", weight b: " + tensor_text(l, bias_sizes(l));
  const std::string product = contraction_text(l, "w");
  if (l.epilogue == Epilogue::kNone) {
    return fmt::format("{}) {{\n  y = {}\n  return y: {}\n}}\n", head, product, type);
  }
  return fmt::format("{}) {{\n  h = {}\n  y = {}\n  return y: {}\n}}\n", head, product,
                     activated(l, "h"), type);
}

LtEpilogue lt_epilogue(Epilogue epilogue) {
  if (epilogue == Epilogue::kBiasGelu) return LtEpilogue::kGeluBias;
  const bool bias = epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasSilu;
  return bias ? LtEpilogue::kBias : LtEpilogue::kNone;
}

// The GEMMs with one weight, into `out`: one, a strided batch, or one per group with rows.
std::vector<PeerGemm> gemms(const Layer& l, const char* weight, const char* out) {
  const LtProblem dense = dense_problem(l.dtype, l.m, l.n, l.k);
  if (l.kind == Kind::kDense || l.kind == Kind::kDual) return {{dense, "x", weight, out, ""}};
  if (l.kind == Kind::kGrouped) {
    LtProblem p = dense;
    p.batch = l.groups;
    p.row_a = l.rows_first ? l.groups * l.k : l.k;
    p.row_d = l.rows_first ? l.groups * l.n : l.n;
    p.batch_a = l.rows_first ? l.k : l.m * l.k;
    p.batch_b = l.n * l.k;
    p.batch_d = l.rows_first ? l.n : l.m * l.n;
    return {{p, "x", weight, out, ""}};
  }
  std::vector<PeerGemm> all;
  i64 start = 0;
  for (i64 e = 0; e < l.groups; ++e) {
    const i64 rows = l.rows[static_cast<size_t>(e)];
    if (rows > 0) {
      PeerGemm one{dense_problem(l.dtype, rows, l.n, l.k), "x", weight, out, ""};
      one.a_offset = start * l.k;
      one.b_offset = e * l.n * l.k;
      one.d_offset = start * l.n;
      all.push_back(one);
    }
    start += rows;
  }
  return all;
}

void append(const std::vector<PeerGemm>& all, Peer& peer) {
  peer.steps.insert(peer.steps.end(), all.begin(), all.end());
}

Peer swiglu_peer(const Layer& l) {
  Peer peer;
  peer.name = l.kind == Kind::kExperts ? "2 loops of cuBLASLt best + our pointwise kernel"
              : l.kind == Kind::kGrouped
                  ? "2 x strided batched cuBLASLt best + our pointwise kernel"
                  : "2 x cuBLASLt best + our pointwise kernel";
  append(gemms(l, "wg", "g_16"), peer);
  append(gemms(l, "wu", "u_16"), peer);
  peer.steps.emplace_back(gate_step("y", row_sizes(l, l.n), l.dtype));
  peer.scratch = gate_scratch(row_sizes(l, l.n), l.dtype);
  return peer;
}

// Adds the step y = `tail` of h_16, by a kernel of ours.
void add_tail(const Layer& l, const std::string& tail, bool bias, Peer& peer) {
  const std::string rows = tensor_text(l, row_sizes(l, l.n));
  const std::string extra = bias ? ", input b: " + tensor_text(l, bias_sizes(l)) : "";
  peer.steps.emplace_back(
      PeerPointwise{fmt::format("chain layer_tail(input h_16: {}{}) {{\n  y = {}\n"
                                "  return y: {}\n}}\n",
                                rows, extra, tail, dtype_text(l.dtype))});
  peer.scratch = {{"h_16", contiguous_tensor(l.dtype, row_sizes(l, l.n))}};
}

// Bias and GELU (tanh form) by cuBLASLt's epilogue; SiLU by a kernel of ours.
Peer dense_peer(const Layer& l) {
  const bool silu = l.epilogue == Epilogue::kBiasSilu;
  Peer peer;
  peer.name = "cuBLASLt best";
  PeerGemm product = gemms(l, "w", silu ? "h_16" : "y").front();
  product.problem.epilogue = lt_epilogue(l.epilogue);
  if (has_bias(l)) product.bias = "b";
  peer.steps = {product};
  if (silu) add_tail(l, "silu(h_16)", false, peer);
  return peer;
}

// One strided batch; bias and activation by a kernel of ours.
Peer batch_peer(const Layer& l) {
  Peer peer;
  peer.name = "strided batched cuBLASLt best";
  const bool plain = l.epilogue == Epilogue::kNone;
  append(gemms(l, "w", plain ? "y" : "h_16"), peer);
  if (plain) return peer;
  peer.name += " + our pointwise kernel";
  add_tail(l, activated(l, fmt::format("h_16 @ \"{}\"", output_labels(l))), true, peer);
  return peer;
}

// One GEMM per group, with the bias by cuBLASLt's epilogue.
Peer loop_peer(const Layer& l) {
  const bool silu = l.epilogue == Epilogue::kBiasSilu;
  Peer peer = loop_of(gemms(l, "w", silu ? "h_16" : "y").front());
  i64 group = 0;
  for (PeerStep& step : peer.steps) {
    PeerGemm& product = std::get<PeerGemm>(step);
    product.problem.epilogue = lt_epilogue(l.epilogue);
    if (!has_bias(l)) continue;
    product.bias = "b";
    product.bias_offset = group++ * l.n;
  }
  if (silu) add_tail(l, "silu(h_16)", false, peer);
  return peer;
}

// The peer multiplies by 16-bit weights of its own.
void add_own_weights(const Layer& l, Peer& peer) {
  peer.own_weights = true;
  for (const PeerStep& step : peer.steps) {
    const auto* product = std::get_if<PeerGemm>(&step);
    if (product == nullptr) continue;
    peer.scratch.push_back({product->b, contiguous_tensor(l.dtype, weight_sizes(l))});
  }
}

std::string shape_text(const Layer& l) {
  if (l.kind == Kind::kDense || l.kind == Kind::kDual) {
    return fmt::format("{}x{}x{}", l.m, l.n, l.k);
  }
  if (l.kind == Kind::kExperts) return fmt::format("{}e{}x{}x{}", l.groups, l.m, l.n, l.k);
  return fmt::format("{}{}x{}x{}x{}", l.rows_first ? "bg" : "gb", l.groups, l.m, l.n, l.k);
}

}  // namespace

std::string_view epilogue_text(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return "none";
    case Epilogue::kBias:
      return "bias";
    case Epilogue::kBiasSilu:
      return "bias_silu";
    case Epilogue::kBiasGelu:
      return "bias_gelu";
    case Epilogue::kSwiglu:
      return "swiglu";
  }
  return "";
}

i64 scaled_columns(const Layer& l) {
  if (l.packed != DType::kI4) return l.k;
  return l.k % 128 == 0 ? 128 : l.k % 64 == 0 ? 64 : 32;
}

double layer_bytes(const Layer& l) {
  const double batch = l.kind == Kind::kGrouped ? l.groups : 1;
  const double weights = l.kind == Kind::kGrouped || l.kind == Kind::kExperts ? l.groups : 1;
  const double pair = l.epilogue == Epilogue::kSwiglu ? 2 : 1;
  const double values = pair * weights * static_cast<double>(l.n) * l.k;
  const double rows = batch * l.m * (l.k + l.n) * dtype_bytes(l.dtype);
  if (!l.packed) return rows + values * dtype_bytes(l.dtype);
  return rows + values * dtype_info(*l.packed).bits / 8 +
         values / scaled_columns(l) * dtype_bytes(l.dtype);
}

double layer_flops(const Layer& l) {
  const double batch = l.kind == Kind::kGrouped ? l.groups : 1;
  return (l.epilogue == Epilogue::kSwiglu ? 4.0 : 2.0) * batch * l.m * l.n * l.k;
}

Case layer_case(const Layer& l) {
  Case c;
  c.group = l.group;
  c.dtype = l.packed ? fmt::format("{}x{}", dtype_text(*l.packed), dtype_text(l.dtype))
                     : std::string(dtype_text(l.dtype));
  c.epilogue = epilogue_text(l.epilogue);
  c.shape = shape_text(l);
  c.name = fmt::format("{}/{}/{}/{}", c.group, c.shape, c.dtype, c.epilogue);
  c.chain = chain_text(l);
  c.flops = layer_flops(l);
  c.batch = l.groups;
  c.m = l.m;
  c.n = l.n;
  c.k = l.k;
  if (l.epilogue == Epilogue::kSwiglu) {
    c.peer = swiglu_peer(l);
  } else if (l.kind == Kind::kDense) {
    c.peer = dense_peer(l);
  } else if (l.kind == Kind::kGrouped) {
    c.peer = batch_peer(l);
    c.second_peer = loop_peer(l);
  } else {
    c.peer.name = "loop of cuBLASLt best";
    append(gemms(l, "w", "y"), c.peer);
  }
  if (l.packed) add_own_weights(l, c.peer);
  i64 end = 0;
  for (const i64 rows : l.rows) c.ends.push_back(static_cast<i32>(end += rows));
  return c;
}

}  // namespace catenary::bench
