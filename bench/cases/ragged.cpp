// SPDX-License-Identifier: Apache-2.0
// A mixture of experts: expert e has the rows [ends[e-1], ends[e]). The peer is a loop over the
// experts; their sizes are known on the host.
#include <algorithm>

#include "bench/cases/cases.h"
#include "ir/random/random.h"

namespace catenary::bench {
namespace {

enum class Kind { kForward, kGated, kDgrad, kWgrad };

struct Experts {
  std::vector<i64> rows;
  i64 n, k;
  i64 count() const { return static_cast<i64>(rows.size()); }
  i64 total() const {
    i64 sum = 0;
    for (const i64 r : rows) sum += r;
    return sum;
  }
};

std::string chain_text(const Experts& s, Kind kind) {
  const i64 m = s.total();
  const std::string x = fmt::format("input x: bf16[{}, {}]", m, s.k);
  const std::string dy = fmt::format("input dy: bf16[{}, {}]", m, s.n);
  const std::string w = fmt::format("bf16[{}, {}, {}]", s.count(), s.n, s.k);
  const std::string ends = fmt::format("input ends: i32[{}]", s.count());
  const std::string ragged = "ragged m by ends over e";
  switch (kind) {
    case Kind::kForward:
      return fmt::format(
          "chain moe({}, weight w: {}, {}) {{\n"
          "  y = contract \"mk,enk->mn\"(x, w) {}\n  return y: bf16\n}}\n",
          x, w, ends, ragged);
    case Kind::kGated:
      return fmt::format(
          "chain moe_gated({0}, weight wg: {1}, weight wu: {1}, {2}) {{\n"
          "  g = contract \"mk,enk->mn\"(x, wg) {3}\n  u = contract \"mk,enk->mn\"(x, wu) {3}\n"
          "  y = mul(silu(g), u)\n  return y: bf16\n}}\n",
          x, w, ends, ragged);
    case Kind::kDgrad:
      return fmt::format(
          "chain moe_dgrad({}, weight w: {}, {}) {{\n"
          "  dx = contract \"mn,enk->mk\"(dy, w) {}\n  return dx: bf16\n}}\n",
          dy, w, ends, ragged);
    case Kind::kWgrad:
      break;
  }
  return fmt::format(
      "chain moe_wgrad({}, {}, {}) {{\n"
      "  dw = contract \"mn,mk->enk\"(dy, x) {}\n  return dw: bf16\n}}\n",
      dy, x, ends, ragged);
}

// The GEMM of expert `e`, whose rows start at `start`.
PeerGemm expert_gemm(const Experts& s, Kind kind, i64 e, i64 start) {
  const i64 rows = s.rows[e];
  const i64 matrix = e * s.n * s.k;
  PeerGemm p;
  if (kind == Kind::kDgrad) {
    p = {dense_problem(DType::kBF16, rows, s.k, s.n), "dy", "w", "dx", ""};
    p.problem.b_n_major = true;
    p.problem.row_b = s.k;
    p.a_offset = start * s.n;
    p.b_offset = matrix;
    p.d_offset = start * s.k;
    return p;
  }
  if (kind == Kind::kWgrad) {
    p = {dense_problem(DType::kBF16, s.n, s.k, rows), "dy", "x", "dw", ""};
    p.problem.a_m_major = true;
    p.problem.b_n_major = true;
    p.problem.row_a = s.n;
    p.problem.row_b = s.k;
    p.a_offset = start * s.n;
    p.b_offset = start * s.k;
    p.d_offset = matrix;
    return p;
  }
  p = {dense_problem(DType::kBF16, rows, s.n, s.k), "x", "w", "y", ""};
  p.a_offset = start * s.k;
  p.b_offset = matrix;
  p.d_offset = start * s.n;
  return p;
}

// The weight gradient of an empty expert is zero. Otherwise an empty expert has no step.
void add_loop(const Experts& s, Kind kind, const char* b, const char* d, Peer& peer) {
  i64 start = 0;
  for (i64 e = 0; e < s.count(); ++e) {
    if (s.rows[e] > 0) {
      PeerGemm product = expert_gemm(s, kind, e, start);
      if (b != nullptr) product.b = b;
      if (d != nullptr) product.d = d;
      peer.steps.emplace_back(std::move(product));
    } else if (kind == Kind::kWgrad) {
      peer.steps.emplace_back(PeerZeros{"dw", e * s.n * s.k, s.n * s.k});
    }
    start += s.rows[e];
  }
}

Peer loop_peer(const Experts& s, Kind kind) {
  Peer peer;
  if (kind != Kind::kGated) {
    peer.name = "loop of cuBLASLt best";
    add_loop(s, kind, nullptr, nullptr, peer);
    return peer;
  }
  peer.name = "2 loops of cuBLASLt best + our pointwise kernel";
  add_loop(s, kind, "wg", "g_16", peer);
  add_loop(s, kind, "wu", "u_16", peer);
  peer.steps.emplace_back(gate_step("y", {s.total(), s.n}));
  peer.scratch = gate_scratch({s.total(), s.n});
  return peer;
}

Case ragged_case(const std::string& rows, const Experts& s, Kind kind) {
  constexpr const char* kNames[] = {"moe", "moe_gated", "moe_dgrad", "moe_wgrad"};
  Case c;
  c.dtype = "bf16";
  c.group = "moe";
  c.shape = fmt::format("{}x{}x{}x{}", s.count(), s.total(), s.n, s.k);
  c.name = fmt::format("{}_{}/{}/bf16", kNames[static_cast<int>(kind)], rows, c.shape);
  c.chain = chain_text(s, kind);
  c.flops = (kind == Kind::kGated ? 4.0 : 2.0) * static_cast<double>(s.total()) * s.n * s.k;
  c.peer = loop_peer(s, kind);
  i64 end = 0;
  for (const i64 r : s.rows) c.ends.push_back(static_cast<i32>(end += r));
  c.note = "the peer's loop knows the group sizes on the host; shape is ExMxNxK";
  return c;
}

// Decoding: most of the time is that of reading the weights of experts with rows. Each row has a
// random expert.
Case decode_case(i64 experts, i64 rows, i64 n, i64 k, Kind kind) {
  Random random(20261122 + 1000 * experts + rows);
  Experts s{std::vector<i64>(experts), n, k};
  for (i64 row = 0; row < rows; ++row) ++s.rows[random.range(0, experts - 1)];
  Case c = ragged_case("decode", s, kind);
  c.group = "moe_decode";
  // Enough copies for the weights that are read to pass the L2.
  const i64 used = std::count_if(s.rows.begin(), s.rows.end(), [](i64 r) { return r > 0; });
  const i64 expert_bytes = n * k * (kind == Kind::kGated ? 4 : 2);
  c.unread_bytes = (experts - used) * expert_bytes;
  c.copies = static_cast<int>(std::clamp<i64>((i64{1} << 28) / (used * expert_bytes), 4, 40));
  return c;
}

// Mixtral 8x7B, DeepSeek-V2-Lite and Qwen3-235B, one projection each.
void add_decode_cases(std::vector<Case>& cases) {
  constexpr i64 kSizes[][3] = {{8, 14336, 4096}, {64, 1408, 2048}, {128, 1536, 4096}};
  for (const auto& [experts, n, k] : kSizes) {
    for (const i64 rows : {1, 8, 32, 64}) {
      for (const Kind kind : {Kind::kForward, Kind::kGated}) {
        cases.push_back(decode_case(experts, rows, n, k, kind));
      }
    }
  }
}

// 64 experts of 1 to 300 rows.
std::vector<i64> many_experts() {
  Random random(20261122);
  std::vector<i64> rows;
  for (int e = 0; e < 64; ++e) rows.push_back(random.range(1, 300));
  return rows;
}

}  // namespace

std::vector<Case> ragged_cases(const std::string& kind, llvm::ArrayRef<i64> rows, i64 n, i64 k) {
  const Experts experts{rows.vec(), n, k};
  std::vector<Case> cases;
  for (const Kind which : {Kind::kForward, Kind::kGated, Kind::kDgrad, Kind::kWgrad}) {
    cases.push_back(ragged_case(kind, experts, which));
  }
  return cases;
}

std::vector<Case> all_ragged_cases() {
  constexpr i64 n = 14336, k = 4096;
  const std::pair<const char*, std::vector<i64>> kinds[] = {
      {"even", {4096, 4096, 4096, 4096}},
      {"skewed", {1024, 7168, 2560, 5632}},
      {"odd", {4001, 3999, 4211, 4173}},
      {"empty", {2048, 0, 3072, 1536, 4096, 0, 2560, 3072}},
      {"many", many_experts()}};
  std::vector<Case> cases;
  for (const auto& [kind, rows] : kinds) {
    for (Case& c : ragged_cases(kind, rows, n, k)) cases.push_back(std::move(c));
  }
  add_decode_cases(cases);
  return cases;
}

}  // namespace catenary::bench
