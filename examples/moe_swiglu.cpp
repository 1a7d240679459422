// SPDX-License-Identifier: Apache-2.0
// The feed-forward block of a mixture of experts: gate and up projections of each expert's rows in
// one kernel with SwiGLU, then the projection down. Both contractions are ragged by the same ends,
// which are in device memory. Here one expert has no rows.
#include "example.h"

using example::Bf16;
using example::dot;
using example::number;

namespace {

constexpr std::int64_t kExperts = 4;

struct Sizes {
  std::int64_t rows, model, hidden;
};

ctn::Chain build(Sizes size) {
  ctn::Chain chain("moe_swiglu");
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.model});
  const auto wg = chain.weight("wg", ctn::bf16, {kExperts, size.hidden, size.model});
  const auto wu = chain.weight("wu", ctn::bf16, {kExperts, size.hidden, size.model});
  const auto wd = chain.weight("wd", ctn::bf16, {kExperts, size.model, size.hidden});
  const auto ends = chain.input("ends", ctn::i32, {kExperts});
  const ctn::Ragged experts{'m', ends, 'e'};
  const auto gate = ctn::contract("mk,enk->mn", x, wg, experts, "gate");
  const auto up = ctn::contract("mk,enk->mn", x, wu, experts, "up");
  const auto h = ctn::cast(ctn::silu(gate) * up, ctn::bf16, "h");
  chain.output(ctn::contract("mn,ekn->mk", h, wd, experts), ctn::bf16);
  return chain;
}

// The host's copies of the weights.
struct Weights {
  explicit Weights(Sizes size)
      : wg(example::random_numbers<Bf16>(kExperts * size.hidden * size.model, 0.1, 2)),
        wu(example::random_numbers<Bf16>(kExperts * size.hidden * size.model, 0.1, 3)),
        wd(example::random_numbers<Bf16>(kExperts * size.hidden * size.model, 0.1, 4)) {}
  std::vector<Bf16> wg, wu, wd;
};

// One row through expert `e`, every 11th element of it, against the reference's `expected`.
void check_row(const Weights& weights, Sizes size, std::int64_t e, const Bf16* x,
               const Bf16* expected, example::Check& check) {
  std::vector<Bf16> h(size.hidden);
  for (std::int64_t n = 0; n < size.hidden; ++n) {
    const std::int64_t row = (e * size.hidden + n) * size.model;
    h[n] = example::to_bf16(example::silu(dot(x, &weights.wg[row], size.model)) *
                            dot(x, &weights.wu[row], size.model));
  }
  for (std::int64_t k = 0; k < size.model; k += 11) {
    check.near("reference", k, number(expected[k]),
               dot(h.data(), &weights.wd[(e * size.model + k) * size.hidden], size.hidden));
  }
}

int program() {
  constexpr Sizes kFull{16384, 4096, 14336};
  constexpr Sizes kSmall{64, 96, 80};
  example::require_same(build(kFull), "moe_swiglu.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  auto x = example::random_numbers<Bf16>(size.rows * size.model, 1, 1);
  Weights weights(size);
  const auto rows = static_cast<std::int32_t>(size.rows);
  std::vector<std::int32_t> ends = {rows / 3, rows / 3, rows - 5, rows};  // expert 1 has no rows
  example::Check check;

  // The reference evaluates the first row of each expert that has rows.
  const std::vector<std::int64_t> first = {0, ends[0], ends[2]};
  const std::int64_t experts[] = {0, 2, 3};
  std::vector<std::int32_t> first_ends = {1, 1, 2, 3};
  const auto count = static_cast<std::int64_t>(first.size());
  std::vector<Bf16> first_rows, expected(count * size.model);
  for (const std::int64_t row : first) {
    first_rows.insert(first_rows.end(), &x[row * size.model], &x[row * size.model] + size.model);
  }
  ctn::run_reference(build({count, size.model, size.hidden}),
                     {first_rows.data(), weights.wg.data(), weights.wu.data(), weights.wd.data(),
                      first_ends.data(), expected.data()});
  for (std::int64_t r = 0; r < count; ++r) {
    check_row(weights, size, experts[r], &first_rows[r * size.model], &expected[r * size.model],
              check);
  }

  const ctn::Engine engine;
  if (!example::has_device()) return example::compile_only(engine, build(kFull), check);
  const ctn::Executable block = engine.prepare(build(size), /*device=*/0);
  example::print_plan(block.compiled());
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dwg(0, weights.wg), dwu(0, weights.wu), dwd(0, weights.wd),
      dends(0, ends);
  const ctn::Buffer dy(0, x.size() * sizeof(Bf16)), workspace(0, block.workspace_bytes());
  block.launch(stream.get(), {dx.get(), dwg.get(), dwu.get(), dwd.get(), dends.get(), dy.get()},
               {.workspace = workspace.get()});
  std::vector<Bf16> y(x.size());
  dy.download(y.data());
  for (std::int64_t r = 0; r < count; ++r) {
    const auto row = expected.begin() + r * size.model;
    check.all_near("device", y, first[r] * size.model, std::vector<Bf16>(row, row + size.model));
  }
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
