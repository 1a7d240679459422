// SPDX-License-Identifier: Apache-2.0
// RMSNorm, then a linear layer, as plain operations: a norm is a sum over a label and elementwise
// ops that broadcast by label. The normalised rows are rounded to bf16, as the product's operand.
#include "example.h"

using example::Bf16;
using example::number;

namespace {

struct Sizes {
  std::int64_t rows, in, out;
};

constexpr double kEpsilon = 0.00001;

ctn::Chain build(Sizes size) {
  ctn::Chain chain("norm_linear");
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.in});
  const auto g = chain.weight("g", ctn::bf16, {size.in});
  const auto w = chain.weight("w", ctn::bf16, {size.out, size.in});
  const auto squares = ctn::sum("mk->m", ctn::square(x), "squares");
  const auto mean = squares * (1.0 / static_cast<double>(size.in));
  const auto scale = ctn::rsqrt(mean + kEpsilon);
  const auto n = x.labeled("mk") * scale.labeled("m");
  const auto scaled = ctn::cast(n * g.labeled("k"), ctn::bf16, "n");
  chain.output(ctn::linear(scaled, w), ctn::bf16);
  return chain;
}

int program() {
  constexpr Sizes kFull{4096, 4096, 14336};
  constexpr Sizes kSmall{48, 96, 80};
  constexpr std::int64_t kCheckedRows = 2;
  example::require_same(build(kFull), "norm_linear.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  auto x = example::random_numbers<Bf16>(size.rows * size.in, 3, 1);
  auto g = example::random_numbers<Bf16>(size.in, 1, 2);
  auto w = example::random_numbers<Bf16>(size.out * size.in, 0.1, 3);
  example::Check check;

  std::vector<Bf16> expected(kCheckedRows * size.out);
  ctn::run_reference(build({kCheckedRows, size.in, size.out}),
                     {x.data(), g.data(), w.data(), expected.data()});
  const double mean = example::dot(x.data(), x.data(), size.in) / static_cast<double>(size.in);
  std::vector<Bf16> n(size.in);  // row 0, normalised
  for (std::int64_t k = 0; k < size.in; ++k) {
    n[k] = example::to_bf16(number(x[k]) / std::sqrt(mean + kEpsilon) * number(g[k]));
  }
  for (std::int64_t i = 0; i < size.out; i += 13) {
    check.near("reference", i, number(expected[i]),
               example::dot(n.data(), &w[i * size.in], size.in));
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dg(0, g), dw(0, w);
  const ctn::Buffer dy(0, size.rows * size.out * sizeof(Bf16)),
      workspace(0, layer.workspace_bytes());
  layer.launch(stream.get(), {dx.get(), dg.get(), dw.get(), dy.get()},
               {.workspace = workspace.get()});
  std::vector<Bf16> y(size.rows * size.out);
  dy.download(y.data());
  check.all_near("device", y, 0, expected);
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
