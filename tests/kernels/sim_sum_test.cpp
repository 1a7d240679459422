// SPDX-License-Identifier: Apache-2.0
// Contractions that add into one accumulator, in the simulator: K segments of `gemm_sm90` and of
// `gemm_sm80`, with tails in every segment; batches, ragged rows, split-K, clusters, other layouts.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
  std::string tile;  // empty: the best of the family
  std::string family = "gemm_sm90";
  int split_k = 0;
  std::vector<i32> ends = {};
  i64 symbol = 0;
};

std::string run(const Case& from, const HostCompiler& compiler) {
  const std::string name = fmt::format("{}, {} {}", from.name, from.family, from.tile);
  std::string failure;
  for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal}) {
    SimulatedChainOptions options;
    options.plan.force_tile = from.tile;
    options.plan.split_k = from.split_k;
    if (from.tile.empty()) options.family = from.family;
    options.symbol = from.symbol;
    options.ends = from.ends;
    options.fill = fill;
    options.sm_count = 2;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return name + ": " + take_report(chain.takeError()).message;
    const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
    if (family_name(kernels[0]) != from.family) return name + ": another family";
    if (kernels.size() != (from.split_k > 1 ? 2 : 1)) return name + ": not one contraction";
    failure = first_failure(*chain, name, 2);
    if (!failure.empty()) return failure;
  }
  return failure;
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}

// The dx of a gated layer: dg wg + du wu, with `k` and `l` terms.
std::string dx(i64 m, i64 n, i64 k, i64 l, const char* dtype = "bf16") {
  return fmt::format(
      "chain a(input dg: {4}[{0}, {2}], weight wg: {4}[{2}, {1}], input du: {4}[{0}, {3}],\n"
      "        weight wu: {4}[{3}, {1}], weight b: bf16[{1}]) {{\n"
      "  g = contract \"mk,kn->mn\"(dg, wg)\n  u = contract \"mk,kn->mn\"(du, wu)\n"
      "  s = add(g, u)\n  y = add(s, b)\n  return y: bf16 }}",
      m, n, k, l, dtype);
}

// Both operands contiguous along K.
std::string k_major(const char* dtype, i64 k, i64 l) {
  return fmt::format(
      "chain a(input x: {2}[200, {0}], weight w: {2}[136, {0}], weight v: {2}[200, {1}],\n"
      "        input z: {2}[136, {1}]) {{\n"
      "  p = contract \"mk,nk->mn\"(x, w)\n  q = contract \"mk,nk->mn\"(v, z)\n"
      "  y = add(p, q)\n  return y: f32 }}",
      k, l, dtype);
}

// Four products; the third has two K loops, the last one its operands in the other order.
constexpr const char* kFour =
    "chain a(input x: bf16[3, 72, 136], weight w: bf16[3, 200, 136], input y: bf16[3, 72, 64],\n"
    "        weight v: bf16[3, 200, 64], input z: bf16[3, 72, 2, 40] strides[6400, 80, 40, 1],\n"
    "        weight u: bf16[3, 200, 2, 40] strides[48000, 120, 48, 1], weight t: bf16[3, 200, 8],\n"
    "        input s: bf16[3, 72, 8]) {\n"
    "  a = contract \"bmk,bnk->bmn\"(x, w)\n  b = contract \"bmk,bnk->bmn\"(y, v)\n"
    "  c = contract \"bmjk,bnjk->bmn\"(z, u)\n  d = contract \"bnk,bmk->bmn\"(t, s)\n"
    "  e = add(a, b)\n  f = add(c, d)\n  g = add(e, f)\n  h = relu(g)\n  return h: bf16 }";

std::string ragged(i64 rows) {
  return fmt::format(
      "chain a(input dg: bf16[{0}, 136], weight wg: bf16[3, 136, 200], input du: bf16[{0}, 72],\n"
      "        weight wu: bf16[3, 72, 200], input e: i32[3]) {{\n"
      "  g = contract \"mk,ekn->mn\"(dg, wg) ragged m by e over e\n"
      "  u = contract \"mk,ekn->mn\"(du, wu) ragged m by e over e\n"
      "  y = add(g, u)\n  return y: bf16 }}",
      rows);
}

}  // namespace

TEST_CASE("gemm_sm90: every kind of tile") {
  std::vector<Case> cases;
  for (const char* tile : {"64x64x64g1s8", "128x128x64p2s6", "128x128x64p2s6c2", "128x128x64p2s2",
                           "128x256x64g2s4", "128x128x64p2s6n2", "128x128x64p2s6c2n2",
                           "64x128x64g1s3k2", "64x64x64g1s4k4", "128x64x64g2s4k2w"}) {
    cases.push_back({"dx", dx(200, 200, 136, 328), tile});
  }
  run_all(cases);
}

TEST_CASE("gemm_sm90: layouts, batches, dtypes, split-K") {
  run_all({
      {"one k-tile each", dx(72, 136, 8, 16), "64x64x64g1s8"},
      {"f16", dx(72, 136, 200, 64, "f16"), "128x128x64p2s6"},
      {"K-major", k_major("bf16", 72, 264), "128x128x64p2s6"},
      {"tf32", k_major("f32", 36, 100), "64x64x32g1s8"},
      {"four products", kFour, "64x64x64g1s8"},
      {"four products", kFour, "128x128x64p2s6c2"},
      {"split-K", dx(72, 136, 328, 72), "64x64x64g1s8", "gemm_sm90", 3},
      {"split-K", dx(72, 136, 72, 328), "64x64x64g1s8", "gemm_sm90", 4},
  });
}

TEST_CASE("gemm_sm90: ragged rows") {
  std::vector<Case> cases;
  const std::vector<std::vector<i32>> all = {
      {75, 150, 300}, {0, 0, 0}, {64, 129, 200}, {0, 300, 300}};
  for (const auto& ends : all) {
    cases.push_back({"ragged", ragged(300), "128x128x64p2s6", "gemm_sm90", 0, ends});
    cases.push_back({"ragged", ragged(300), "64x64x64g1s8", "gemm_sm90", 0, ends});
    cases.push_back({"ragged", ragged(300), "", "gemm_sm80", 0, ends});
  }
  run_all(cases);
}

// Operands of the products may differ in every way; a segment may have fewer k-tiles than stages.
TEST_CASE("gemm_sm80: layouts, true f32, split-K, a symbol") {
  const std::string exact =
      "chain a(input x: f32[50, 70], weight w: f32[70, 90], input z: f32[9, 50],\n"
      "        weight v: f32[90, 9]) {\n"
      "  p = contract \"mk,kn->mn\" f32(x, w)\n  q = contract \"km,nk->mn\" f32(z, v)\n"
      "  y = add(p, q)\n  return y: f32 }";
  const std::string symbolic =
      "chain a[M in 0..100](input x: bf16[M, 70], weight w: bf16[70, 90], input z: bf16[M, 33],\n"
      "        weight v: bf16[90, 33]) {\n"
      "  p = contract \"mk,kn->mn\"(x, w)\n  q = contract \"nk,mk->mn\"(v, z)\n"
      "  y = add(p, q)\n  return y: f32 }";
  run_all({
      {"dx", dx(100, 90, 70, 150), "", "gemm_sm80"},
      {"dx", dx(100, 90, 70, 150), "64x64x64w2x2s4", "gemm_sm80"},
      {"split-K", dx(40, 90, 300, 70), "64x64x64w2x2s4", "gemm_sm80", 3},
      {"split-K", dx(40, 90, 20, 700), "32x128x64w1x4s4", "gemm_sm80", 4},
      {"true f32", exact, "", "gemm_sm80"},
      {"four products", kFour, "64x64x64w2x2s4", "gemm_sm80"},
      {"symbol", symbolic, "", "gemm_sm80", 0, {}, 77},
      {"symbol 0", symbolic, "", "gemm_sm80", 0, {}, 0},
  });
}
