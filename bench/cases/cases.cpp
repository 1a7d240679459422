// SPDX-License-Identifier: Apache-2.0
#include "bench/cases/cases.h"

#include <fnmatch.h>

#include <algorithm>

#include "bench/tuner.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::bench {
namespace {

struct Shape {
  i64 m, n, k;
  std::string text() const { return fmt::format("{}x{}x{}", m, n, k); }
};

constexpr Shape kGemmShapes[] = {{8192, 4096, 4096}, {4096, 4096, 4096}, {8192, 3072, 768},
                                 {512, 11008, 4096}, {256, 14336, 4096}, {8192, 16384, 4096}};
constexpr Shape kGatedShapes[] = {{8192, 4096, 4096},
                                  {8192, 16384, 4096},
                                  {512, 11008, 4096},
                                  {256, 14336, 4096},
                                  {8192, 3072, 768}};
constexpr const char* kCublasLt = "cuBLASLt best";

// f32 operands run in tf32, at half the rate of the 16-bit formats.
std::string math_text(DType dtype) {
  return dtype == DType::kF32 ? "tf32" : std::string(dtype_text(dtype));
}
double math_rate(DType dtype) { return dtype == DType::kF32 ? 0.5 : 1; }

enum class Ending { kPlain, kBias, kBiasGelu };

std::string linear_chain(DType dtype, Shape s, Ending ending) {
  const std::string_view t = dtype_text(dtype);
  const std::string head =
      fmt::format("input x: {0}[{1}, {3}], weight w: {0}[{2}, {3}]", t, s.m, s.n, s.k);
  if (ending == Ending::kPlain) {
    return fmt::format(
        "chain gemm({}) {{\n  y = contract \"mk,nk->mn\"(x, w)\n  return y: {}\n}}\n", head, t);
  }
  const bool gelu = ending == Ending::kBiasGelu;
  return fmt::format(
      "chain gemm_{}({}, weight b: {}[{}]) {{\n"
      "  h = contract \"mk,nk->mn\"(x, w)\n  y = {}\n  return y: {}\n}}\n",
      gelu ? "bias_gelu" : "bias", head, t, s.n, gelu ? "gelu_tanh(add(h, b))" : "add(h, b)", t);
}

Case linear_case(DType dtype, Shape s, Ending ending) {
  constexpr const char* kNames[] = {"gemm", "gemm_bias", "gemm_bias_gelu"};
  constexpr LtEpilogue kEpilogues[] = {LtEpilogue::kNone, LtEpilogue::kBias, LtEpilogue::kGeluBias};
  const int which = static_cast<int>(ending);
  Case c;
  c.dtype = math_text(dtype);
  c.shape = s.text();
  c.name = fmt::format("{}/{}/{}", kNames[which], c.shape, c.dtype);
  c.group = ending == Ending::kPlain ? "gemm" : "epilogue";
  c.chain = linear_chain(dtype, s, ending);
  c.flops = 2.0 * s.m * s.n * s.k;
  c.rate = math_rate(dtype);
  c.peer.name = kCublasLt;
  PeerGemm product{dense_problem(dtype, s.m, s.n, s.k, kEpilogues[which]), "x", "w", "y", ""};
  if (ending != Ending::kPlain) {
    product.bias = "b";
    c.no_epilogue = linear_chain(dtype, s, Ending::kPlain);
    c.peer.name += ending == Ending::kBias ? " + BIAS" : " + GELU_BIAS";
  }
  if (ending == Ending::kBiasGelu) c.note = "tanh form of GELU on both sides";
  c.peer.steps = {product};
  return c;
}

Case swiglu_case(Shape s) {
  const DType dtype = DType::kBF16;
  Case c;
  c.dtype = "bf16";
  c.shape = s.text();
  c.name = fmt::format("swiglu/{}/bf16", c.shape);
  c.group = "swiglu";
  c.chain = fmt::format(
      "chain swiglu(input x: bf16[{0}, {2}], weight wg: bf16[{1}, {2}], weight wu: bf16[{1}, {2}]) "
      "{{\n  g = contract \"mk,nk->mn\"(x, wg)\n  u = contract \"mk,nk->mn\"(x, wu)\n"
      "  y = mul(silu(g), u)\n  return y: bf16\n}}\n",
      s.m, s.n, s.k);
  c.flops = 4.0 * s.m * s.n * s.k;
  c.peer.name = "2 x cuBLASLt best + our pointwise kernel";
  const LtProblem problem = dense_problem(dtype, s.m, s.n, s.k);
  c.peer.steps = {PeerGemm{problem, "x", "wg", "g_16", ""},
                  PeerGemm{problem, "x", "wu", "u_16", ""}, gate_step("y", {s.m, s.n})};
  c.peer.scratch = gate_scratch({s.m, s.n});
  return c;
}

// One copy per launch of a graph; fewer of large weights, which pass the L2 anyway.
int small_copies(i64 weight_bytes) {
  return static_cast<int>(std::clamp<i64>((i64{1} << 31) / weight_bytes, 10, 100));
}

Case small_case(i64 m, i64 n, i64 k) {
  Case c = linear_case(DType::kBF16, {m, n, k}, Ending::kPlain);
  c.name = fmt::format("small/{}/bf16", c.shape);
  c.group = "small";
  c.copies = small_copies(2 * n * k);
  return c;
}

Case small_bias_silu_case(i64 m, i64 n, i64 k) {
  Case c = small_case(m, n, k);
  c.name = fmt::format("small_bias_silu/{}/bf16", c.shape);
  c.group = "small_bias_silu";
  c.no_epilogue = c.chain;
  c.chain = fmt::format(
      "chain bias_silu(input x: bf16[{0}, {2}], weight w: bf16[{1}, {2}], weight b: bf16[{1}]) "
      "{{\n  h = contract \"mk,nk->mn\"(x, w)\n  y = silu(add(h, b))\n  return y: bf16\n}}\n",
      m, n, k);
  c.peer.name = "cuBLASLt best + BIAS, our SiLU kernel";
  PeerGemm product{dense_problem(DType::kBF16, m, n, k, LtEpilogue::kBias), "x", "w", "h_16", "b"};
  c.peer.steps = {product,
                  PeerPointwise{fmt::format("chain silu_tail(input h_16: bf16[{0}, {1}]) {{\n"
                                            "  y = silu(h_16)\n  return y: bf16\n}}\n",
                                            m, n)}};
  c.peer.scratch = {{"h_16", bf16_tensor({m, n})}};
  return c;
}

// width -> 2 x hidden -> width as one chain.
Case mlp_case(i64 m, i64 hidden, i64 width) {
  constexpr DType dtype = DType::kBF16;
  Case c;
  c.dtype = "bf16";
  c.shape = Shape{m, hidden, width}.text();
  c.name = fmt::format("mlp/{}/bf16", c.shape);
  c.group = "mlp";
  c.copies = small_copies(3 * 2 * hidden * width);
  c.chain = fmt::format(
      "chain mlp(input x: bf16[{0}, {2}], weight wg: bf16[{1}, {2}], weight wu: bf16[{1}, {2}], "
      "weight wd: bf16[{2}, {1}]) {{\n"
      "  g = contract \"mk,nk->mn\"(x, wg)\n  u = contract \"mk,nk->mn\"(x, wu)\n"
      "  h = cast(mul(silu(g), u), bf16)\n  y = contract \"mk,nk->mn\"(h, wd)\n"
      "  return y: bf16\n}}\n",
      m, hidden, width);
  c.flops = 6.0 * m * hidden * width;
  c.peer.name = "3 x cuBLASLt best + our pointwise kernel";
  const LtProblem up = dense_problem(dtype, m, hidden, width);
  c.peer.steps = {PeerGemm{up, "x", "wg", "g_16", ""}, PeerGemm{up, "x", "wu", "u_16", ""},
                  gate_step("h_16", {m, hidden}),
                  PeerGemm{dense_problem(dtype, m, width, hidden), "h_16", "wd", "y", ""}};
  c.peer.scratch = gate_scratch({m, hidden});
  c.peer.scratch.push_back({"h_16", bf16_tensor({m, hidden})});
  c.note = "shape is M x hidden x width";
  return c;
}

Case pseudo_linear_case(i64 width) {
  constexpr i64 batch = 32768;
  Case c;
  c.dtype = "f32";
  c.shape = fmt::format("{}x{}", batch, width);
  c.name = fmt::format("pseudo_linear/{}/f32", c.shape);
  c.group = "pseudo_linear";
  c.chain = fmt::format(
      "chain pseudo_linear(input x: f32[{0}, {1}], weight w: f32[{1}], weight b: f32[{1}]) {{\n"
      "  y = relu(add(mul(x, w), b))\n  return y: f32\n}}\n",
      batch, width);
  return c;
}

Case pseudo_chain_case(i64 width) {
  constexpr i64 batch = 32;
  constexpr int layers = 8;
  Case c;
  c.dtype = "f32";
  c.shape = fmt::format("{}x{}", batch, width);
  c.name = fmt::format("pseudo_chain8/{}/f32", c.shape);
  c.group = "pseudo_chain8";
  c.copies = 100;
  std::string parameters = fmt::format("input x: f32[{}, {}]", batch, width);
  std::string lines;
  for (int layer = 0; layer < layers; ++layer) {
    parameters += fmt::format(", weight w{0}: f32[{1}], weight b{0}: f32[{1}]", layer, width);
    lines += fmt::format("  {} = relu(add(mul({}, w{}), b{}))\n",
                         layer + 1 == layers ? "y" : fmt::format("h{}", layer),
                         layer == 0 ? "x" : fmt::format("h{}", layer - 1), layer, layer);
  }
  c.chain = fmt::format("chain pseudo_chain8({}) {{\n{}  return y: f32\n}}\n", parameters, lines);
  return c;
}

}  // namespace

PeerPointwise gate_step(const std::string& out, llvm::ArrayRef<i64> sizes, DType dtype) {
  return {
      fmt::format("chain swiglu_tail(input g_16: {2}[{0}], input u_16: {2}[{0}]) {{\n"
                  "  {1} = mul(silu(g_16), u_16)\n  return {1}: {2}\n}}\n",
                  fmt::join(sizes, ", "), out, dtype_text(dtype))};
}

std::vector<PeerScratch> gate_scratch(llvm::ArrayRef<i64> sizes, DType dtype) {
  return {{"g_16", contiguous_tensor(dtype, sizes)}, {"u_16", contiguous_tensor(dtype, sizes)}};
}

std::string linear_text(i64 m, i64 n, i64 k) {
  return linear_chain(DType::kBF16, {m, n, k}, Ending::kPlain);
}

std::vector<Case> all_cases() {
  constexpr Ending kEndings[] = {Ending::kPlain, Ending::kBias, Ending::kBiasGelu};
  std::vector<Case> cases;
  for (const Shape& shape : kGemmShapes) {
    for (const Ending ending : kEndings) {
      cases.push_back(linear_case(DType::kBF16, shape, ending));
    }
  }
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    for (const Ending ending : kEndings) {
      cases.push_back(linear_case(dtype, kGemmShapes[0], ending));
    }
  }
  for (const Shape& shape : kGatedShapes) cases.push_back(swiglu_case(shape));
  for (Case& c : grouped_cases(2560, 12, 3072, 1024)) cases.push_back(std::move(c));
  constexpr i64 kBatches[] = {1, 2, 4, 8, 16, 32, 64, 128};
  for (const i64 m : kBatches) cases.push_back(small_case(m, 2048, 4096));
  for (const i64 m : kBatches) cases.push_back(small_bias_silu_case(m, 2048, 4096));
  for (const auto& [n, k] : {std::pair(4096, 4096), {8192, 8192}, {28672, 4096}, {4096, 14336}}) {
    for (const i64 m : {1, 8, 16, 64}) cases.push_back(small_case(m, n, k));
  }
  for (const i64 m : {1, 16, 64}) cases.push_back(mlp_case(m, 14336, 4096));
  for (const i64 width : {128, 512, 1024, 4096, 16384}) cases.push_back(pseudo_linear_case(width));
  for (const i64 width : {128, 512, 1024, 4096}) cases.push_back(pseudo_chain_case(width));
  for (Case& c : all_ragged_cases()) cases.push_back(std::move(c));
  for (Case& c : quantised_cases()) cases.push_back(std::move(c));
  for (Case& c : fp8_cases()) cases.push_back(std::move(c));
  for (Case& c : beside_cases()) cases.push_back(std::move(c));
  for (Case& c : all_tensor_epilogue_cases()) cases.push_back(std::move(c));
  for (const auto& [m, k] : {std::pair<i64, i64>{256, 4096}, {2048, 4096}, {16384, 3584}})
    for (Case& c : row_cases(m, k)) cases.push_back(std::move(c));
  return cases;
}

bool matches(const std::string& name, const std::string& patterns) {
  if (patterns.empty()) return true;
  llvm::SmallVector<llvm::StringRef, 4> parts;
  llvm::StringRef(patterns).split(parts, ',', -1, false);
  for (const llvm::StringRef part : parts) {
    if (::fnmatch(part.trim().str().c_str(), name.c_str(), 0) == 0) return true;
  }
  return false;
}

}  // namespace catenary::bench
