// SPDX-License-Identifier: Apache-2.0
// Gated experts with biases, as in gpt-oss: rows ends[e-1] to ends[e] - 1 of x go through expert
// e. A bias has a row for each expert; its use names the expert's label, and every row of x reads
// that of its own. Here one expert has no rows, and one has a single row.
#include <algorithm>

#include "example.h"

using example::Bf16;
using example::number;

namespace {

constexpr std::int64_t kExperts = 8;

struct Sizes {
  std::int64_t rows, in, hidden;
};

ctn::Chain build(Sizes size) {
  ctn::Chain chain("moe_bias");
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.in});
  const auto wg = chain.weight("wg", ctn::bf16, {kExperts, size.hidden, size.in});
  const auto wu = chain.weight("wu", ctn::bf16, {kExperts, size.hidden, size.in});
  const auto bg = chain.weight("bg", ctn::bf16, {kExperts, size.hidden});
  const auto bu = chain.weight("bu", ctn::bf16, {kExperts, size.hidden});
  const auto wd = chain.weight("wd", ctn::bf16, {kExperts, size.in, size.hidden});
  const auto bd = chain.weight("bd", ctn::bf16, {kExperts, size.in});
  const ctn::Ragged experts{'m', chain.input("ends", ctn::i32, {kExperts}), 'e'};
  const auto g = ctn::contract("mk,enk->mn", x, wg, experts, "g");
  const auto u = ctn::contract("mk,enk->mn", x, wu, experts, "u");
  const auto biased = g + bg.labeled("en");
  const auto gate = ctn::min(biased, chain.constant(7));
  const auto up = ctn::clamp(u + bu.labeled("en"), -7, 7);
  const auto gelu = ctn::quick_gelu(gate);
  const auto h = ctn::cast(gelu * (up + 1), ctn::bf16, "h");
  const auto d = ctn::contract("mk,enk->mn", h, wd, experts, "d");
  chain.output(d + bd.labeled("en"), ctn::bf16);
  return chain;
}

struct Weights {
  std::vector<Bf16> wg, wu, bg, bu, wd, bd;
};

Weights random_weights(Sizes size) {
  const std::int64_t matrix = kExperts * size.hidden * size.in;
  return {example::random_numbers<Bf16>(matrix, 0.05, 2),
          example::random_numbers<Bf16>(matrix, 0.05, 3),
          example::random_numbers<Bf16>(kExperts * size.hidden, 1, 4),
          example::random_numbers<Bf16>(kExperts * size.hidden, 1, 5),
          example::random_numbers<Bf16>(matrix, 0.05, 6),
          example::random_numbers<Bf16>(kExperts * size.in, 1, 7)};
}

// One row through one expert in double precision, rounded where the chain is: element n.
double expected_element(Sizes size, const Weights& w, const Bf16* x, std::int64_t expert,
                        std::int64_t n) {
  std::vector<Bf16> h(size.hidden);
  for (std::int64_t j = 0; j < size.hidden; ++j) {
    const std::int64_t row = expert * size.hidden + j;
    const double g =
        std::min(example::dot(x, &w.wg[row * size.in], size.in) + number(w.bg[row]), 7.0);
    const double u =
        std::clamp(example::dot(x, &w.wu[row * size.in], size.in) + number(w.bu[row]), -7.0, 7.0);
    h[j] = example::to_bf16(g / (1 + std::exp(-1.702 * g)) * (u + 1));
  }
  const std::int64_t row = expert * size.in + n;
  return example::dot(h.data(), &w.wd[row * size.hidden], size.hidden) + number(w.bd[row]);
}

int program() {
  constexpr Sizes kFull{8192, 2880, 2880};
  constexpr Sizes kSmall{64, 96, 80};
  example::require_same(build(kFull), "moe_bias.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);

  Weights w = random_weights(size);
  auto x = example::random_numbers<Bf16>(size.rows * size.in, 1, 1);
  const auto rows = static_cast<std::int32_t>(size.rows);
  // Expert 1 has no rows, expert 2 has one; the last three rows are of no expert.
  std::vector<std::int32_t> ends = {7, 7, 8, rows / 3, rows / 2, rows / 2, rows - 9, rows - 3};
  example::Check check;

  const ctn::Engine engine;
  if (!example::has_device()) {
    std::vector<Bf16> y(size.rows * size.in);
    ctn::run_reference(build(size), {x.data(), w.wg.data(), w.wu.data(), w.bg.data(), w.bu.data(),
                                     w.wd.data(), w.bd.data(), ends.data(), y.data()});
    for (const auto& [row, expert] : {std::pair{0, 0}, {7, 2}, {rows - 4, 7}}) {
      check.near("reference", row * size.in + expert, number(y[row * size.in + expert]),
                 expected_element(size, w, &x[row * size.in], expert, expert));
    }
    return example::compile_only(engine, build(kFull), check);
  }
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  std::vector<Bf16> y(size.rows * size.in);
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dwg(0, w.wg), dwu(0, w.wu), dbg(0, w.bg), dbu(0, w.bu), dwd(0, w.wd),
      dbd(0, w.bd), dends(0, ends), dy(0, y.size() * sizeof(Bf16));
  const ctn::Buffer workspace(0, layer.workspace_bytes());
  layer.launch(stream.get(),
               {dx.get(), dwg.get(), dwu.get(), dbg.get(), dbu.get(), dwd.get(), dbd.get(),
                dends.get(), dy.get()},
               {.workspace = workspace.get()});
  dy.download(y.data());
  for (const auto& [row, expert] : {std::pair{0, 0}, {6, 0}, {7, 2}, {8, 3}, {rows - 4, 7}}) {
    for (std::int64_t n = expert; n < size.in; n += size.in / 2) {
      check.near("device", row * size.in + n, number(y[row * size.in + n]),
                 expected_element(size, w, &x[row * size.in], expert, n));
    }
  }
  for (std::int64_t n = 0; n < size.in; n += 11) {
    check.near("row of no expert", n, number(y[(rows - 1) * size.in + n]), 0);
  }
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
