// SPDX-License-Identifier: Apache-2.0
// A gated MLP at decode time with weights of 4 bits. A checkpoint's words (those of
// compressed-tensors: eight values + 8 a word) are put into the packed layout once, on the host;
// a scale belongs to 128 columns of a row. Chain and launch are those of any other weight.
#include <algorithm>

#include "catenary/repack.hpp"
#include "example.h"

using example::Bf16;
using example::number;

namespace {

constexpr std::int64_t kMaxRows = 16;
constexpr std::int64_t kGroup = 128;  // columns that share a scale

struct Sizes {
  std::int64_t in, hidden;
};

ctn::Chain build(Sizes size) {
  ctn::Chain chain("int4_decode");
  chain.symbol("M", 1, kMaxRows);
  const auto x = chain.input("x", ctn::bf16, {ctn::symbol, size.in});
  const auto weight = [&chain](const std::string& name, std::int64_t n, std::int64_t k) {
    const auto q = chain.weight("q" + name, ctn::i4, {n, k}, {.packed = true});
    const auto s = chain.weight("s" + name, ctn::bf16, {n, k / kGroup});
    return std::pair(q, s);
  };
  const auto [qg, sg] = weight("g", size.hidden, size.in);
  const auto [qu, su] = weight("u", size.hidden, size.in);
  const auto [qd, sd] = weight("d", size.in, size.hidden);
  const auto r = chain.input("r", ctn::bf16, {ctn::symbol, size.in});
  const auto g = ctn::linear(x, ctn::dequant(qg, sg, 1, kGroup, "wg"));
  const auto u = ctn::linear(x, ctn::dequant(qu, su, 1, kGroup, "wu"));
  const auto h = ctn::cast(ctn::silu(g) * u, ctn::bf16, "h");
  const auto d = ctn::linear(h, ctn::dequant(qd, sd, 1, kGroup, "wd"));
  chain.output(d + r, ctn::bf16);
  return chain;
}

// A weight of `rows` x `columns` numbers, rounded to 16 steps of a scale.
struct Quantised {
  Quantised(std::int64_t rows, std::int64_t columns, std::uint32_t seed)
      : columns(columns), values(rows * columns), scales(rows * columns / kGroup) {
    const auto w = example::random_numbers<float>(rows * columns, 0.1, seed);
    std::vector<std::uint32_t> words(w.size() / 8);
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (i % kGroup == 0) {
        float most = 0;
        for (std::int64_t k = 0; k < kGroup; ++k) most = std::max(most, std::fabs(w[i + k]));
        scales[i / kGroup] = example::to_bf16(most / 7);
      }
      const double steps = std::round(w[i] / number(scales[i / kGroup]));
      values[i] = static_cast<std::int8_t>(std::clamp(steps, -8.0, 7.0));
      words[i / 8] |= static_cast<std::uint32_t>(values[i] + 8) << (4 * (i % 8));
    }
    packed = ctn::repack(ctn::WeightFormat::compressed_tensors, ctn::i4, rows, columns,
                         std::as_bytes(std::span(words)));
  }
  // The product of a row with x.
  double dot(const Bf16* x, std::int64_t row) const {
    double sum = 0;
    for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      sum += number(*x++) * values[i] * number(scales[i / kGroup]);
    }
    return sum;
  }

  std::int64_t columns;
  std::vector<std::int8_t> values;
  std::vector<Bf16> scales;
  std::vector<std::byte> packed;
};

struct Weights {
  explicit Weights(Sizes size)
      : gate(size.hidden, size.in, 1), up(size.hidden, size.in, 2), down(size.in, size.hidden, 3) {}
  Quantised gate, up, down;
};

// The row h of one row of x in double precision, rounded where the chain rounds.
std::vector<Bf16> hidden_row(const Weights& w, const Bf16* x, Sizes size) {
  std::vector<Bf16> h(size.hidden);
  for (std::int64_t n = 0; n < size.hidden; ++n) {
    h[n] = example::to_bf16(example::silu(w.gate.dot(x, n)) * w.up.dot(x, n));
  }
  return h;
}

// A rounding of h that goes the other way is half a step of bf16 in one of its terms.
void check_row(example::Check& check, const char* what, const Weights& w, const Bf16* x,
               const Bf16* r, const Bf16* y, Sizes size) {
  const std::vector<Bf16> h = hidden_row(w, x, size);
  for (std::int64_t n = 0; n < size.in; n += size.in / 16) {
    const double expected = w.down.dot(h.data(), n) + number(r[n]);
    check.within(what, n, number(y[n]), expected, 0x1p-7 * std::fabs(expected) + 4e-3);
  }
}

int program() {
  constexpr Sizes kFull{4096, 14336};
  constexpr Sizes kSmall{256, 384};
  example::require_same(build(kFull), "int4_decode.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);
  const std::size_t count = kMaxRows * size.in;
  auto x = example::random_numbers<Bf16>(count, 1, 4);
  auto r = example::random_numbers<Bf16>(count, 1, 5);
  std::vector<Bf16> y(count);
  Weights w(size);
  example::Check check;

  const ctn::Engine engine;
  if (!example::has_device()) {
    ctn::run_reference(
        build(size),
        {x.data(), w.gate.packed.data(), w.gate.scales.data(), w.up.packed.data(),
         w.up.scales.data(), w.down.packed.data(), w.down.scales.data(), r.data(), y.data()},
        {}, 1);
    check_row(check, "reference", w, x.data(), r.data(), y.data(), size);
    return example::compile_only(engine, build(kFull), check, {"sm_90a"});
  }
  const ctn::Executable layer = engine.prepare(build(size), /*device=*/0);
  example::print_plan(layer.compiled());
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dr(0, r), dqg(0, w.gate.packed), dsg(0, w.gate.scales),
      dqu(0, w.up.packed), dsu(0, w.up.scales), dqd(0, w.down.packed), dsd(0, w.down.scales);
  const ctn::Buffer dy(0, count * sizeof(Bf16)), workspace(0, layer.workspace_bytes());
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{5}, kMaxRows}) {
    layer.launch(stream.get(),
                 {dx.get(), dqg.get(), dsg.get(), dqu.get(), dsu.get(), dqd.get(), dsd.get(),
                  dr.get(), dy.get()},
                 {.symbol = rows, .workspace = workspace.get()});
    dy.download(y.data());
    const std::int64_t last = (rows - 1) * size.in;
    check_row(check, "device", w, &x[last], &r[last], &y[last], size);
  }
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
