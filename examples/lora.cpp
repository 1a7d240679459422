// SPDX-License-Identifier: Apache-2.0
// A linear layer with a low-rank adapter: x W^T + factor * (x A^T) B^T. The factor is a scalar of
// the launch: another one, or another adapter in the same buffers, needs no compilation. Two
// launches show that a factor of 0 is the layer without its adapter.
#include "example.h"

using example::Bf16;
using example::dot;
using example::number;

namespace {

struct Sizes {
  std::int64_t rows, in, out, rank;
};

ctn::Chain build(Sizes size) {
  ctn::Chain chain("lora");
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.in});
  const auto w = chain.weight("w", ctn::bf16, {size.out, size.in});
  const auto a = chain.weight("a", ctn::bf16, {size.rank, size.in});
  const auto b = chain.weight("b", ctn::bf16, {size.out, size.rank});
  const auto factor = chain.scalar("factor");
  const auto base = ctn::contract("mk,nk->mn", x, w, "base");
  const auto low = ctn::cast(ctn::contract("mk,rk->mr", x, a), ctn::bf16, "low");
  chain.output(ctn::scale(ctn::contract("mr,nr->mn", low, b), factor) + base, ctn::bf16);
  return chain;
}

int program() {
  constexpr Sizes kFull{4096, 4096, 4096, 16};
  constexpr Sizes kSmall{40, 96, 80, 16};
  constexpr std::int64_t kCheckedRows = 2;
  example::require_same(build(kFull), "lora.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  auto x = example::random_numbers<Bf16>(size.rows * size.in, 1, 1);
  auto w = example::random_numbers<Bf16>(size.out * size.in, 0.1, 2);
  auto a = example::random_numbers<Bf16>(size.rank * size.in, 0.1, 3);
  auto b = example::random_numbers<Bf16>(size.out * size.rank, 0.1, 4);
  example::Check check;

  std::vector<Bf16> low(size.rank);  // of row 0
  for (std::int64_t r = 0; r < size.rank; ++r) {
    low[r] = example::to_bf16(dot(x.data(), &a[r * size.in], size.in));
  }
  const float factors[] = {2, 0};
  std::vector<Bf16> expected[2];
  for (int i = 0; i < 2; ++i) {
    expected[i].resize(kCheckedRows * size.out);
    ctn::run_reference(build({kCheckedRows, size.in, size.out, size.rank}),
                       {x.data(), w.data(), a.data(), b.data(), expected[i].data()}, {factors[i]});
    for (std::int64_t n = 0; n < size.out; n += 13) {
      check.near("reference", n, number(expected[i][n]),
                 dot(x.data(), &w[n * size.in], size.in) +
                     factors[i] * dot(low.data(), &b[n * size.rank], size.rank));
    }
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dw(0, w), da(0, a), db(0, b);
  const ctn::Buffer dy(0, size.rows * size.out * sizeof(Bf16)),
      workspace(0, layer.workspace_bytes());
  std::vector<Bf16> y(size.rows * size.out);
  for (int i = 0; i < 2; ++i) {
    layer.launch(stream.get(), {dx.get(), dw.get(), da.get(), db.get(), dy.get()},
                 {.scalars = {factors[i]}, .workspace = workspace.get()});
    dy.download(y.data());
    check.all_near("device", y, 0, expected[i]);
  }
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
