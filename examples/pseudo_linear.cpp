// SPDX-License-Identifier: Apache-2.0
// The elementwise "pseudo-linear" layer, y = relu(x * w + b): three operators in C++, one kernel
// and one pass over memory on the GPU. w and b broadcast over the rows.
#include "example.h"

namespace {

struct Sizes {
  std::int64_t rows, width;
};

ctn::Chain build(Sizes size) {
  ctn::Chain chain("pseudo_linear");
  const auto x = chain.input("x", ctn::f32, {size.rows, size.width});
  const auto w = chain.weight("w", ctn::f32, {size.width});
  const auto b = chain.weight("b", ctn::f32, {size.width});
  chain.output(ctn::relu(x * w + b), ctn::f32);
  return chain;
}

int program() {
  constexpr Sizes kFull{32768, 4096};
  constexpr Sizes kSmall{64, 96};
  constexpr std::int64_t kCheckedRows = 16;
  example::require_same(build(kFull), "pseudo_linear.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  auto x = example::random_numbers<float>(size.rows * size.width, 1, 1);
  auto w = example::random_numbers<float>(size.width, 1, 2);
  auto b = example::random_numbers<float>(size.width, 1, 3);
  example::Check check;

  std::vector<float> expected(kCheckedRows * size.width);
  ctn::run_reference(build({kCheckedRows, size.width}),
                     {x.data(), w.data(), b.data(), expected.data()});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::size_t column = i % size.width;
    check.near("reference", i, expected[i], std::max(x[i] * w[column] + b[column], 0.0f));
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dw(0, w), db(0, b);
  const ctn::Buffer dy(0, x.size() * sizeof(float));
  layer.launch(stream.get(), {dx.get(), dw.get(), db.get(), dy.get()});
  std::vector<float> y(x.size());
  dy.download(y.data());
  check.all_near("device", y, 0, expected);
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
