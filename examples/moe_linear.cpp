// SPDX-License-Identifier: Apache-2.0
// One projection of a mixture of experts: rows ends[e-1] to ends[e] - 1 of x are multiplied by the
// weight of expert e, in one launch. `ends` is in device memory: groups may change from launch to
// launch, and the host never waits for their sizes. Here one group is empty, and none is a multiple
// of a tile.
#include "example.h"

using example::Bf16;
using example::number;

namespace {

constexpr std::int64_t kExperts = 4;

struct Sizes {
  std::int64_t rows, in, out;
};

ctn::Chain build(Sizes size) {
  ctn::Chain chain("moe_linear");
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.in});
  const auto w = chain.weight("w", ctn::bf16, {kExperts, size.out, size.in});
  const auto ends = chain.input("ends", ctn::i32, {kExperts});
  chain.output(ctn::contract("mk,enk->mn", x, w, {'m', ends, 'e'}, "y"), ctn::bf16);
  return chain;
}

int program() {
  constexpr Sizes kFull{16384, 4096, 14336};
  constexpr Sizes kSmall{64, 96, 80};
  example::require_same(build(kFull), "moe_linear.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  auto x = example::random_numbers<Bf16>(size.rows * size.in, 1, 1);
  auto w = example::random_numbers<Bf16>(kExperts * size.out * size.in, 0.1, 2);
  const auto rows = static_cast<std::int32_t>(size.rows);
  std::vector<std::int32_t> ends = {rows / 3, rows / 3, rows - 5, rows};  // expert 1 has no rows
  example::Check check;

  // The reference evaluates the first row of each expert that has rows.
  const std::vector<std::int64_t> first = {0, ends[0], ends[2]};
  std::vector<std::int32_t> first_ends = {1, 1, 2, 3};
  const auto count = static_cast<std::int64_t>(first.size());
  std::vector<Bf16> first_rows, expected(count * size.out);
  for (std::int64_t row : first) {
    first_rows.insert(first_rows.end(), &x[row * size.in], &x[row * size.in] + size.in);
  }
  ctn::run_reference(build({count, size.in, size.out}),
                     {first_rows.data(), w.data(), first_ends.data(), expected.data()});
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t expert = r == 0 ? 0 : r + 1, n = r * 11;
    check.near(
        "reference", r * size.out + n, number(expected[r * size.out + n]),
        example::dot(&first_rows[r * size.in], &w[(expert * size.out + n) * size.in], size.in));
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  std::vector<Bf16> y(size.rows * size.out);
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dw(0, w), dends(0, ends), dy(0, y.size() * sizeof(Bf16));
  layer.launch(stream.get(), {dx.get(), dw.get(), dends.get(), dy.get()});
  dy.download(y.data());
  for (std::int64_t r = 0; r < count; ++r) {
    const auto row = expected.begin() + r * size.out;
    check.all_near("device", y, first[r] * size.out, std::vector<Bf16>(row, row + size.out));
  }
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
