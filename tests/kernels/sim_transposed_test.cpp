// SPDX-License-Identifier: Apache-2.0
// Transposed products of `gemm_sm90` in the simulator, with every schedule. Tiles and subtiles are
// partial along M and N. Operands of the epilogue vary along M, along N or along both. Outputs have
// 16 bits or are f32.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "shared/gemm_sm90_config.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
  std::string tile;
  int split_k = 0;
  int sm_count = 2;
};

std::string run(const Case& from, const HostCompiler& compiler) {
  const std::string name = fmt::format("{}, {}", from.name, from.tile);
  for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal}) {
    SimulatedChainOptions options;
    options.plan.force_tile = from.tile;
    options.plan.split_k = from.split_k;
    options.fill = fill;
    options.sm_count = from.sm_count;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return name + ": " + take_report(chain.takeError()).message;
    const KernelPlan& kernel = chain->plan().buckets[0].kernels[0];
    if (kernel.candidate.tile != from.tile) return name + ": " + kernel.candidate.tile;
    std::string failure = first_failure(*chain, name, 2);
    if (!failure.empty()) return failure;
  }
  return "";
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}

// y = relu(x w * s + b), with a factor for each row and a term for each column.
std::string affine(i64 m, i64 n, i64 k, const char* x = "mk", const char* w = "nk",
                   const char* result = "bf16") {
  const auto sizes = [&](const char* labels, i64 free) {
    return labels[1] == 'k' ? fmt::format("{}, {}", free, k) : fmt::format("{}, {}", k, free);
  };
  return fmt::format(
      "chain a(input x: bf16[{}], weight w: bf16[{}], input s: bf16[{}], weight b: f32[{}]) {{\n"
      "  y = relu(add(mul(contract \"{},{}->mn\"(x, w), s @ \"m\"), b))\n  return y: {} }}",
      sizes(x, m), sizes(w, n), m, n, x, w, result);
}

std::string residual(i64 m, i64 n, i64 k) {
  return fmt::format(
      "chain a(input x: f16[{0}, {2}], weight w: f16[{1}, {2}], input r: f16[{0}, {1}],\n"
      "        input t: f16[{0}, {1}]) {{\n"
      "  y = add(contract \"mk,nk->mn\"(x, w), r)\n  z = mul(y, t)\n"
      "  return z: f16, y: f16 }}",
      m, n, k);
}

}  // namespace

TEST_CASE("every schedule of transposed products, with odd rows of D") {
  run_all({
      {"ping-pong", affine(151, 328, 136), "64x136x64p2s6t"},
      {"ping-pong, two fragments", affine(97, 264, 72), "128x72x64p2s6t"},
      {"cooperative", affine(129, 264, 136), "128x72x64g2s6t"},
      {"cooperative, two fragments", affine(65, 328, 72), "256x72x64g2s4t"},
      {"three warpgroups", affine(141, 264, 72), "192x72x64g3s6t"},
      {"one warpgroup", affine(101, 136, 264), "64x104x64g1s6t"},
      {"M clusters", affine(147, 264, 136), "64x80x64p2s6c2t"},
      {"N clusters", affine(147, 264, 136), "64x80x64p2s6n2t"},
      {"split-K", affine(147, 136, 520), "64x80x64p2s6t", 3},
  });
}

// Most of these tiles have columns that the CTAs of a cluster cannot share in equal multiples of 8.
// The CTAs load boxes in turns. A box has 8 columns where the last tile is mostly outside D.
TEST_CASE("transposed products in clusters of four and eight") {
  run_all({
      {"4 x 1", affine(143, 264, 136), "64x144x64g1s6c4t", 1, 4},
      {"4 x 1, prime", affine(131, 264, 136), "64x136x64p2s6c4t", 1, 4},
      {"4 x 1, D ends early", affine(75, 264, 72), "64x104x64g1s6c4t", 1, 4},
      {"4 x 1, equal parts", affine(127, 264, 136), "64x128x64g1s6c4t", 1, 4},
      {"4 x 2", affine(147, 520, 136), "128x72x64g2s4c4n2t", 1, 8},
      {"2 x 4", affine(301, 264, 72), "64x80x64p2s6c2n4t", 1, 8},
      {"2 x 2, split-K", affine(147, 264, 520), "64x88x64p2s6c2n2t", 3, 4},
      {"4 x 1, two outputs", residual(143, 264, 136), "64x144x64g1s6c4t", 1, 4},
  });
}

TEST_CASE("operands and outputs of transposed products") {
  run_all({
      {"residual, two outputs", residual(151, 264, 72), "64x104x64p2s4t"},
      {"residual, partial subtile", residual(77, 136, 72), "64x80x64g1s4t"},
      {"f32", affine(151, 328, 72, "mk", "nk", "f32"), "64x136x64p2s6t"},
      {"N-major weight", affine(75, 264, 136, "mk", "kn"), "128x80x64p2s6t"},
      {"M-major x", affine(200, 136, 72, "km", "nk"), "64x128x64p2s6t"},
      {"groups",
       "chain a(input x: bf16[75, 3, 72], weight w: bf16[3, 136, 72], weight b: bf16[3, 136]) {\n"
       "  y = relu(add(contract \"bgk,gnk->bgn\"(x, w), b @ \"gn\"))\n  return y: bf16 }",
       "64x80x64p2s6t"},
      {"sum of products",
       "chain a(input x: bf16[75, 72], weight w: bf16[72, 136], input z: bf16[75, 136],\n"
       "        weight v: bf16[136, 136]) {\n"
       "  y = add(contract \"mk,kn->mn\"(x, w), contract \"mk,kn->mn\"(z, v))\n"
       "  return y: bf16 }",
       "64x80x64p2s6t"},
      {"cp.async loads", affine(75, 136, 75), "64x80x64p2s6t"},
      {"tf32",
       "chain a(input x: f32[75, 100], weight w: f32[136, 100]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }",
       "64x80x32p2s6t"},
      {"fp8",
       "chain a(input x: e4m3[75, 272], weight w: e4m3[136, 272], input s: f32[75]) {\n"
       "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: bf16 }",
       "64x80x128p2s6t"},
  });
}
