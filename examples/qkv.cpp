// SPDX-License-Identifier: Apache-2.0
// Query, key and value of an attention layer: one chain with three outputs, launched at once. A
// launch takes the parameters in order, then the outputs in order.
#include "example.h"

using example::Bf16;
using example::dot;
using example::number;

namespace {

struct Sizes {
  std::int64_t rows, model, keys;
};

ctn::Chain build(Sizes size) {
  ctn::Chain chain("qkv");
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.model});
  const auto wq = chain.weight("wq", ctn::bf16, {size.model, size.model});
  const auto bq = chain.weight("bq", ctn::bf16, {size.model});
  const auto wk = chain.weight("wk", ctn::bf16, {size.keys, size.model});
  const auto bk = chain.weight("bk", ctn::bf16, {size.keys});
  const auto wv = chain.weight("wv", ctn::bf16, {size.keys, size.model});
  const auto bv = chain.weight("bv", ctn::bf16, {size.keys});
  const auto q = ctn::linear(x, wq, bq);
  const auto k = ctn::linear(x, wk, bk);
  const auto v = ctn::linear(x, wv, bv);
  for (const ctn::Tensor& output : {q, k, v}) chain.output(output, ctn::bf16);
  return chain;
}

// One of the three projections: its operands, and its first rows by the reference.
struct Projection {
  Projection(Sizes size, std::int64_t out, std::int64_t checked_rows, std::uint32_t seed)
      : width(out),
        w(example::random_numbers<Bf16>(width * size.model, 0.1, seed)),
        b(example::random_numbers<Bf16>(width, 1, seed + 1)),
        expected(checked_rows * width) {}
  std::int64_t width;
  std::vector<Bf16> w, b, expected;
};

int program() {
  constexpr Sizes kFull{4096, 3584, 512};
  constexpr Sizes kSmall{48, 96, 40};
  constexpr std::int64_t kCheckedRows = 2;
  example::require_same(build(kFull), "qkv.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  auto x = example::random_numbers<Bf16>(size.rows * size.model, 1, 1);
  Projection q(size, size.model, kCheckedRows, 2), k(size, size.keys, kCheckedRows, 4),
      v(size, size.keys, kCheckedRows, 6);
  ctn::run_reference(build({kCheckedRows, size.model, size.keys}),
                     {x.data(), q.w.data(), q.b.data(), k.w.data(), k.b.data(), v.w.data(),
                      v.b.data(), q.expected.data(), k.expected.data(), v.expected.data()});
  example::Check check;
  for (const Projection* one : {&q, &k, &v}) {
    for (std::int64_t n = 0; n < one->width; n += 7) {
      check.near("reference", n, number(one->expected[n]),
                 dot(x.data(), &one->w[n * size.model], size.model) + number(one->b[n]));
    }
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dwq(0, q.w), dbq(0, q.b), dwk(0, k.w), dbk(0, k.b), dwv(0, v.w),
      dbv(0, v.b);
  const ctn::Buffer dq(0, size.rows * q.width * sizeof(Bf16)),
      dk(0, size.rows * k.width * sizeof(Bf16)), dv(0, size.rows * v.width * sizeof(Bf16));
  layer.launch(stream.get(), {dx.get(), dwq.get(), dbq.get(), dwk.get(), dbk.get(), dwv.get(),
                              dbv.get(), dq.get(), dk.get(), dv.get()});
  for (const auto& [one, buffer] : {std::pair(&q, &dq), {&k, &dk}, {&v, &dv}}) {
    std::vector<Bf16> got(size.rows * one->width);
    buffer->download(got.data());
    check.all_near("device", got, 0, one->expected);
  }
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
