// SPDX-License-Identifier: Apache-2.0
// The linear layers of one transformer layer for a few rows: norm and QKV; O and the residual;
// norm, gate and up with SwiGLU; down and the residual. Four kernels where M is small. The gains of
// the norms are folded into the weights: RMSNorm(x) w^T = scale(x) * (x (g w)^T).
#include "example.h"

using example::Bf16;
using example::dot;
using example::number;

namespace {

struct Sizes {
  std::int64_t rows, model, keys, hidden;
};

constexpr double kEpsilon = 0.00001;

// 1 / sqrt(mean of the squares + epsilon) of each row.
ctn::Tensor row_scale(const ctn::Tensor& x, std::int64_t columns) {
  const auto squares = ctn::sum("mk->m", ctn::square(x));
  return ctn::rsqrt(squares * (1.0 / static_cast<double>(columns)) + kEpsilon).labeled("m");
}

ctn::Chain build(Sizes size) {
  ctn::Chain chain("llama_layer");
  const auto weight = [&](const char* name, std::int64_t out, std::int64_t in) {
    return chain.weight(name, ctn::bf16, {out, in});
  };
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.model});
  const auto a = chain.input("a", ctn::bf16, {size.rows, size.model});
  const auto wq = weight("wq", size.model, size.model);
  const auto wk = weight("wk", size.keys, size.model);
  const auto wv = weight("wv", size.keys, size.model);
  const auto wo = weight("wo", size.model, size.model);
  const auto wg = weight("wg", size.hidden, size.model);
  const auto wu = weight("wu", size.hidden, size.model);
  const auto wd = weight("wd", size.model, size.hidden);

  const auto xs = row_scale(x, size.model);
  const auto q = ctn::linear(x, wq) * xs;
  const auto k = ctn::linear(x, wk) * xs;
  const auto v = ctn::linear(x, wv) * xs;
  const auto h = ctn::cast(ctn::linear(a, wo) + x, ctn::bf16, "h");
  const auto hs = row_scale(h, size.model);
  const auto g = ctn::linear(h, wg) * hs;
  const auto u = ctn::linear(h, wu) * hs;
  const auto s = ctn::cast(ctn::silu(g) * u, ctn::bf16, "s");
  const auto y = ctn::linear(s, wd) + h;
  for (const ctn::Tensor& output : {q, k, v, y}) chain.output(output, ctn::bf16);
  return chain;
}

int program() {
  constexpr Sizes kFull{1, 4096, 1024, 14336};
  constexpr Sizes kSmall{5, 128, 64, 192};
  example::require_same(build(kFull), "llama_layer.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  const auto random = [](std::int64_t count, double scale, std::uint32_t seed) {
    return example::random_numbers<Bf16>(count, scale, seed);
  };
  auto x = random(size.rows * size.model, 1, 1), a = random(size.rows * size.model, 1, 2);
  auto wq = random(size.model * size.model, 0.05, 3), wk = random(size.keys * size.model, 0.05, 4);
  auto wv = random(size.keys * size.model, 0.05, 5), wo = random(size.model * size.model, 0.05, 6);
  auto wg = random(size.hidden * size.model, 0.05, 7);
  auto wu = random(size.hidden * size.model, 0.05, 8);
  auto wd = random(size.model * size.hidden, 0.05, 9);
  const std::int64_t widths[] = {size.model, size.keys, size.keys, size.model};
  std::vector<std::vector<Bf16>> expected;
  for (const std::int64_t width : widths) expected.emplace_back(size.rows * width);
  ctn::run_reference(build(size), {x.data(), a.data(), wq.data(), wk.data(), wv.data(), wo.data(),
                                   wg.data(), wu.data(), wd.data(), expected[0].data(),
                                   expected[1].data(), expected[2].data(), expected[3].data()});
  example::Check check;
  const double mean = dot(x.data(), x.data(), size.model) / static_cast<double>(size.model);
  for (std::int64_t n = 0; n < size.keys; n += 7) {
    check.near("reference", n, number(expected[1][n]),
               dot(x.data(), &wk[n * size.model], size.model) / std::sqrt(mean + kEpsilon));
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), da(0, a), dwq(0, wq), dwk(0, wk), dwv(0, wv), dwo(0, wo), dwg(0, wg),
      dwu(0, wu), dwd(0, wd);
  const ctn::Buffer workspace(0, layer.workspace_bytes());
  std::vector<ctn::Buffer> out;
  for (const auto& one : expected) out.emplace_back(0, one.size() * sizeof(Bf16));
  layer.launch(stream.get(),
               {dx.get(), da.get(), dwq.get(), dwk.get(), dwv.get(), dwo.get(), dwg.get(),
                dwu.get(), dwd.get(), out[0].get(), out[1].get(), out[2].get(), out[3].get()},
               {.workspace = workspace.get()});
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::vector<Bf16> got(expected[i].size());
    out[i].download(got.data());
    check.all_near("device", got, 0, expected[i]);
  }
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
