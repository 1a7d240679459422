// SPDX-License-Identifier: Apache-2.0
// A linear layer at decode time: small M, a large weight. M is symbolic, so one executable runs
// every M from 1 to 64; tensors and M are arguments of a launch.
#include "example.h"

using example::Bf16;
using example::number;

namespace {

constexpr std::int64_t kMaxRows = 64;

struct Sizes {
  std::int64_t n, k;
};

// y[m, n] = silu(sum over k of x[m, k] w[n, k], plus b[n])
ctn::Chain build(Sizes size) {
  ctn::Chain chain("small_batch");
  chain.symbol("M", 1, kMaxRows);
  const auto x = chain.input("x", ctn::bf16, {ctn::symbol, size.k});
  const auto w = chain.weight("w", ctn::bf16, {size.n, size.k});
  const auto b = chain.weight("b", ctn::bf16, {size.n});
  chain.output(ctn::silu(ctn::contract("mk,nk->mn", x, w, "h") + b), ctn::bf16);
  return chain;
}

int program() {
  constexpr Sizes kFull{2048, 4096};
  constexpr Sizes kSmall{64, 96};
  constexpr std::int64_t kCheckedRows = 3;
  example::require_same(build(kFull), "small_batch.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  auto x = example::random_numbers<Bf16>(kMaxRows * size.k, 1, 1);
  auto w = example::random_numbers<Bf16>(size.n * size.k, 0.1, 2);
  auto b = example::random_numbers<Bf16>(size.n, 1, 3);
  example::Check check;

  // Rows are independent: the reference evaluates only the first ones.
  std::vector<Bf16> expected(kCheckedRows * size.n);
  const ctn::Chain chain = build(size);
  ctn::run_reference(chain, {x.data(), w.data(), b.data(), expected.data()}, {}, kCheckedRows);
  for (std::int64_t i = 0; i < 8; ++i) {
    const std::int64_t m = i % kCheckedRows, n = i * 7 % size.n;
    const double h = example::dot(&x[m * size.k], &w[n * size.k], size.k);
    check.near("reference", m * size.n + n, number(expected[m * size.n + n]),
               example::silu(h + number(b[n])));
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable layer = engine.prepare(chain, /*device=*/0);
  example::print_plan(layer.compiled());
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dw(0, w), db(0, b);
  const ctn::Buffer dy(0, kMaxRows * size.n * sizeof(Bf16));
  const ctn::Buffer workspace(0, layer.workspace_bytes());
  std::vector<Bf16> y(kMaxRows * size.n);
  for (std::int64_t rows : {kCheckedRows, std::int64_t{17}, kMaxRows}) {
    layer.launch(stream.get(), {dx.get(), dw.get(), db.get(), dy.get()},
                 {.symbol = rows, .workspace = workspace.get()});
    dy.download(y.data());
    check.all_near("device", y, 0, expected);
  }
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
