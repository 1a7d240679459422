// SPDX-License-Identifier: Apache-2.0
// Handwritten chains with several weights over one activation; see cases.h. Sizes are small enough
// for the simulator.
#include "tests/gpu/sm90_cases.h"

namespace catenary::gpu_suite {
namespace {

// Three weights of unlike, odd N, with a bias on one of them, and outputs of two types.
std::string three(const char* m, i64 k, const char* dtype = "bf16") {
  return fmt::format(
      "chain a{3}(input x: {0}[{1}, {2}], weight wq: {0}[75, {2}], weight wk: {0}[23, {2}],\n"
      "        weight wv: {0}[40, {2}], weight b: f32[75] align 4) {{\n"
      "  q = add(contract \"mk,nk->mn\"(x, wq), b)\n  k = contract \"mk,nk->mn\"(x, wk)\n"
      "  v = silu(contract \"mk,nk->mn\"(x, wv))\n"
      "  return q: {0} align {4}, k: {0} align {4}, v: f32 }}",
      dtype, m, k, m[0] == 'M' ? "[M in 0..64]" : "", dtype[0] == 'f' && dtype[1] == '3' ? 4 : 2);
}

// Gate and up, of one epilogue, beside a router.
const char* const kRouter =
    "chain a(input x: f16[5, 576], weight w: f16[40, 576], weight u: f16[40, 576],\n"
    "        weight r: f16[9, 576]) {\n"
    "  g = contract \"mk,nk->mn\"(x, w)\n  p = contract \"mk,nk->mn\"(x, u)\n"
    "  h = mul(silu(g), p)\n  s = contract \"mk,nk->mn\"(x, r)\n"
    "  return h: f16, s: f32 align 4 }";

// Both weights are read by the second launch, which waits for x.
const char* const kAfterKernel =
    "chain a(input p: bf16[33, 576], weight w: bf16[40, 576], weight v: bf16[24, 576]) {\n"
    "  x = cast(relu(p), bf16)\n  y = contract \"mk,nk->mn\"(x, w)\n"
    "  z = contract \"mk,nk->mn\"(x, v)\n  return y: f32, z: bf16 }";

// Persistent CTAs: more tiles than an H200 has SMs, in unlike shares.
const char* const kLarge =
    "chain a(input x: bf16[1500, 264], weight w: bf16[1544, 264], weight v: bf16[200, 264],\n"
    "        weight b: f32[200]) {\n"
    "  y = contract \"mk,nk->mn\"(x, w)\n  z = silu(add(contract \"mk,nk->mn\"(x, v), b))\n"
    "  return y: bf16, z: f32 }";
const char* const kLargeSymbol =
    "chain a[M in 0..1500](input x: bf16[M, 264], weight w: bf16[1544, 264],\n"
    "        weight v: bf16[75, 264]) {\n"
    "  y = contract \"mk,nk->mn\"(x, w)\n  z = contract \"mk,nk->mn\"(x, v)\n"
    "  return y: bf16, z: bf16 align 2 }";

// The gradients of two weights that read x.
const char* const kWgrads =
    "chain a(input x: bf16[520, 264], input dg: bf16[520, 1544], input du: bf16[520, 200]) {\n"
    "  g = contract \"tn,tk->nk\"(dg, x)\n  u = contract \"tn,tk->nk\"(du, x)\n"
    "  return g: f32, u: bf16 }";

const char* const kRaggedWgrads =
    "chain a(input x: bf16[520, 264], input dg: bf16[520, 1544], input du: bf16[520, 200],\n"
    "        input e: i32[5]) {\n"
    "  g = contract \"tn,tk->enk\"(dg, x) ragged t by e over e\n"
    "  u = contract \"tn,tk->enk\"(du, x) ragged t by e over e\n  return g: f32, u: bf16 }";

WrittenCase beside(const std::string& name, std::string text, const char* tile = "",
                   std::vector<i64> symbols = {}) {
  WrittenCase made;
  made.name = fmt::format("side by side, {} {}", name, tile);
  made.text = std::move(text);
  made.tile = tile;
  made.symbols = std::move(symbols);
  return made;
}

}  // namespace

std::vector<WrittenCase> beside_cases() {
  std::vector<WrittenCase> cases;
  for (const char* m : {"1", "7", "16", "24", "64"}) {
    for (const char* dtype : {"bf16", "f16", "f32"}) {
      cases.push_back(beside(fmt::format("{} rows {}", m, dtype), three(m, 1088, dtype)));
    }
  }
  cases.push_back(beside("symbol", three("M", 576), "", {0, 1, 8, 9, 17, 33, 64}));
  for (const char* tile : {"skinny8x1s2r1g4p3", "skinny4x2s4r1g2p5", "skinny8x1s2r1g2p3a",
                           "skinny4x1s2r1g2p3c2", "skinny4x1s2r1g2p3t2c2"}) {
    cases.push_back(beside("8 rows", three("8", 1088), tile));
  }
  for (const char* tile : {"64x32x64g1s8k1", "64x64x64g1s6k2", "64x32x64g1s8k4"}) {
    cases.push_back(beside("33 rows", three("33", 1088), tile));
    cases.push_back(beside("72 rows", three("72", 584), tile));
    cases.push_back(beside("after another kernel", kAfterKernel, tile));
  }
  for (const char* tile :
       {"", "64x64x64g1s6", "128x64x64p2s6", "128x128x64p2s6c2", "128x128x64p2s6n2"}) {
    cases.push_back(beside("persistent", kLarge, tile));
    cases.push_back(beside("weight gradients", kWgrads, tile));
  }
  for (const char* tile : {"64x64x64g1s6", "128x128x64p2s6c2"}) {
    cases.push_back(beside("weight gradients of experts", kRaggedWgrads, tile));
  }
  cases.push_back(beside("persistent, symbol", kLargeSymbol, "64x64x64g1s6", {0, 1, 65, 1500}));
  cases.push_back(beside("several row tiles", three("40", 584), "16x64x128w1x4s5"));
  cases.push_back(beside("a router", kRouter));
  cases.push_back(beside("a router", kRouter, "64x32x64g1s8k2"));
  cases.push_back(beside("after another kernel", kAfterKernel));
  return cases;
}

}  // namespace catenary::gpu_suite
