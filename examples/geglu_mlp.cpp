// SPDX-License-Identifier: Apache-2.0
// A GeGLU feed-forward block in two kernels: a dual GEMM with both biases and the activation, then
// the projection down with its bias. h is cast to bf16 between them, the only rounding inside the
// chain; it is in the workspace, which the caller provides.
#include "example.h"

using example::Bf16;
using example::dot;
using example::number;

namespace {

struct Sizes {
  std::int64_t rows, model, hidden;
};

ctn::Chain build(Sizes size) {
  ctn::Chain chain("geglu_mlp");
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.model});
  const auto wg = chain.weight("wg", ctn::bf16, {size.hidden, size.model});
  const auto bg = chain.weight("bg", ctn::bf16, {size.hidden});
  const auto wu = chain.weight("wu", ctn::bf16, {size.hidden, size.model});
  const auto bu = chain.weight("bu", ctn::bf16, {size.hidden});
  const auto wd = chain.weight("wd", ctn::bf16, {size.model, size.hidden});
  const auto bd = chain.weight("bd", ctn::bf16, {size.model});
  const auto g = ctn::contract("mk,nk->mn", x, wg, "g");
  const auto u = ctn::contract("mk,nk->mn", x, wu, "u");
  const auto gate = ctn::gelu_tanh(g + bg);
  const auto h = ctn::cast(gate * (u + bu), ctn::bf16, "h");
  chain.output(ctn::contract("mk,nk->mn", h, wd, "d") + bd, ctn::bf16);
  return chain;
}

int program() {
  constexpr Sizes kFull{8192, 768, 3072};
  constexpr Sizes kSmall{64, 96, 160};
  constexpr std::int64_t kCheckedRows = 2;
  example::require_same(build(kFull), "geglu_mlp.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  auto x = example::random_numbers<Bf16>(size.rows * size.model, 1, 1);
  auto wg = example::random_numbers<Bf16>(size.hidden * size.model, 0.1, 2);
  auto bg = example::random_numbers<Bf16>(size.hidden, 1, 3);
  auto wu = example::random_numbers<Bf16>(size.hidden * size.model, 0.1, 4);
  auto bu = example::random_numbers<Bf16>(size.hidden, 1, 5);
  auto wd = example::random_numbers<Bf16>(size.model * size.hidden, 0.1, 6);
  auto bd = example::random_numbers<Bf16>(size.model, 1, 7);
  example::Check check;

  std::vector<Bf16> expected(kCheckedRows * size.model);
  ctn::run_reference(build({kCheckedRows, size.model, size.hidden}),
                     {x.data(), wg.data(), bg.data(), wu.data(), bu.data(), wd.data(), bd.data(),
                      expected.data()});
  std::vector<Bf16> h(size.hidden);  // of row 0
  for (std::int64_t n = 0; n < size.hidden; ++n) {
    const double g = dot(x.data(), &wg[n * size.model], size.model) + number(bg[n]);
    const double u = dot(x.data(), &wu[n * size.model], size.model) + number(bu[n]);
    const double t = std::tanh(0.7978845608028654 * (g + 0.044715 * g * g * g));
    h[n] = example::to_bf16(0.5 * g * (1 + t) * u);
  }
  for (std::int64_t n = 0; n < size.model; n += 17) {
    check.near("reference", n, number(expected[n]),
               dot(h.data(), &wd[n * size.hidden], size.hidden) + number(bd[n]));
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable block = engine.prepare(build(size), /*device=*/0);
  example::print_plan(block.compiled());
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dwg(0, wg), dbg(0, bg), dwu(0, wu), dbu(0, bu), dwd(0, wd),
      dbd(0, bd);
  const ctn::Buffer dy(0, x.size() * sizeof(Bf16)), workspace(0, block.workspace_bytes());
  block.launch(
      stream.get(),
      {dx.get(), dwg.get(), dbg.get(), dwu.get(), dbu.get(), dwd.get(), dbd.get(), dy.get()},
      {.workspace = workspace.get()});
  std::vector<Bf16> y(x.size());
  dy.download(y.data());
  check.all_near("device", y, 0, expected);
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
