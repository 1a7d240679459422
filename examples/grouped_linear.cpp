// SPDX-License-Identifier: Apache-2.0
// Twelve linear layers on [batch, group, features] in one kernel, without a transpose: the group is
// the middle dimension of x and y, as the labels of the equation say. The bias has one row per
// group and broadcasts by label.
#include "example.h"

using example::Bf16;
using example::number;

namespace {

struct Sizes {
  std::int64_t batch, groups, in, out;
};

// y[b, g, n] = silu(sum over k of x[b, g, k] w[g, n, k], plus bias[g, n])
ctn::Chain build(Sizes size) {
  ctn::Chain chain("grouped_linear");
  const auto x = chain.input("x", ctn::bf16, {size.batch, size.groups, size.in});
  const auto w = chain.weight("w", ctn::bf16, {size.groups, size.out, size.in});
  const auto b = chain.weight("b", ctn::bf16, {size.groups, size.out});
  const auto h = ctn::contract("bgk,gnk->bgn", x, w, "h");
  chain.output(ctn::silu(h + b.labeled("gn")), ctn::bf16);
  return chain;
}

int program() {
  constexpr Sizes kFull{2560, 12, 1024, 3072};
  constexpr Sizes kSmall{32, 12, 64, 48};
  constexpr std::int64_t kCheckedRows = 2;
  example::require_same(build(kFull), "grouped_linear.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  auto x = example::random_numbers<Bf16>(size.batch * size.groups * size.in, 1, 1);
  auto w = example::random_numbers<Bf16>(size.groups * size.out * size.in, 0.1, 2);
  auto b = example::random_numbers<Bf16>(size.groups * size.out, 1, 3);
  example::Check check;

  std::vector<Bf16> expected(kCheckedRows * size.groups * size.out);
  ctn::run_reference(build({kCheckedRows, size.groups, size.in, size.out}),
                     {x.data(), w.data(), b.data(), expected.data()});
  for (std::int64_t g = 0; g < size.groups; ++g) {
    const std::int64_t row = size.groups + g, n = g * 5 % size.out;  // row 1 of the batch
    const double h = example::dot(&x[row * size.in], &w[(g * size.out + n) * size.in], size.in);
    check.near("reference", row * size.out + n, number(expected[row * size.out + n]),
               example::silu(h + number(b[g * size.out + n])));
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  std::vector<Bf16> y(size.batch * size.groups * size.out);
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dw(0, w), db(0, b), dy(0, y.size() * sizeof(Bf16));
  layer.launch(stream.get(), {dx.get(), dw.get(), db.get(), dy.get()});
  dy.download(y.data());
  check.all_near("device", y, 0, expected);
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
