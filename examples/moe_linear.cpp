// SPDX-License-Identifier: Apache-2.0
// One projection of a mixture of experts: rows [ends[e-1], ends[e]) of x meet the weight of expert
// e, in one launch. `ends` is device memory, so groups may change from launch to launch (here one
// is empty, and none is a multiple of a tile) and the host never waits for their sizes.
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
  constexpr Sizes kShrunk{64, 96, 80};
  example::require_same(build(kFull), "moe_linear.chain");
  const bool device = ctn::device_count() > 0;
  const Sizes size = device && !example::simulated() ? kFull : kShrunk;

  auto x = example::random_numbers<Bf16>(size.rows * size.in, 1, 1);
  auto w = example::random_numbers<Bf16>(kExperts * size.out * size.in, 0.1, 2);
  const auto rows = static_cast<std::int32_t>(size.rows);
  std::vector<std::int32_t> ends = {rows / 3, rows / 3, rows - 5, rows};  // expert 1 has no rows
  example::Check check;

  // The reference on the first row of each expert that has one.
  const std::vector<std::int64_t> first = {0, ends[0], ends[2]};
  std::vector<std::int32_t> few_ends = {1, 1, 2, 3};
  const auto few = static_cast<std::int64_t>(first.size());
  std::vector<Bf16> few_rows, expected(few * size.out);
  for (std::int64_t row : first) {
    few_rows.insert(few_rows.end(), &x[row * size.in], &x[row * size.in] + size.in);
  }
  ctn::run_reference(build({few, size.in, size.out}),
                     {few_rows.data(), w.data(), few_ends.data(), expected.data()});
  for (std::int64_t r = 0; r < few; ++r) {
    const std::int64_t expert = r == 0 ? 0 : r + 1, n = r * 11;
    double sum = 0;
    for (std::int64_t k = 0; k < size.in; ++k) {
      sum += number(few_rows[r * size.in + k]) * number(w[(expert * size.out + n) * size.in + k]);
    }
    check.near("reference", r * size.out + n, number(expected[r * size.out + n]), sum);
  }

  const ctn::Engine engine;
  if (!device) {
    example::compile_only(engine, build(kFull));
    return check.result();
  }
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  std::vector<Bf16> y(size.rows * size.out);
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dw(0, w), dends(0, ends), dy(0, y.size() * sizeof(Bf16));
  layer.launch(stream.get(), {dx.get(), dw.get(), dends.get(), dy.get()});
  dy.download(y.data());
  for (std::int64_t r = 0; r < few; ++r) {
    const auto row = expected.begin() + r * size.out;
    check.all_near("device", y, first[r] * size.out, std::vector<Bf16>(row, row + size.out));
  }
  std::printf("ran %s\n", example::where());
  return check.result();
}

}  // namespace

int main() { return example::run(program); }
