// SPDX-License-Identifier: Apache-2.0
// A batch-invariant plan in the simulator: the bits of a row are the same for every M, at every
// position and beside any other rows, for sums of products and of squares.
#include <doctest/doctest.h>

#include <catenary/catenary.hpp>
#include <cstdlib>

#include "ir/random/random.h"

namespace {

constexpr std::int64_t kColumns = 40, kTerms = 328;

// A norm, its rows rounded, then two weights: the families of every part must keep the order.
ctn::Chain build(std::int64_t m) {
  ctn::Chain chain("invariant");
  const auto x = chain.input("x", ctn::f32, {m, kTerms});
  const auto w = chain.weight("w", ctn::bf16, {kColumns, kTerms});
  const auto v = chain.weight("v", ctn::bf16, {24, kTerms});
  const auto scale = ctn::rsqrt(ctn::sum("mk->m", ctn::square(x)) * (1.0 / kTerms) + 0.00001);
  const auto n = ctn::cast(x.labeled("mk") * scale.labeled("m"), ctn::bf16);
  chain.output(ctn::silu(ctn::linear(n, w)), ctn::f32);
  chain.output(ctn::linear(n, v), ctn::f32);
  return chain;
}

std::vector<float> numbers(std::int64_t count, std::uint64_t seed) {
  catenary::Random random(seed);
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>(random.range(-1000000, 1000000)) / 1000000.0f;
  return values;
}

// Both outputs of `m` rows, where row `at` is `row` and the others are random.
struct Result {
  std::vector<float> y, z;
};
Result run(const ctn::Engine& engine, std::int64_t m, std::int64_t at,
           const std::vector<float>& row) {
  std::vector<float> x = numbers(m * kTerms, 100 + m);
  std::copy(row.begin(), row.end(), x.begin() + at * kTerms);
  std::vector<std::uint16_t> w, v;
  for (const float value : numbers(kColumns * kTerms, 1))
    w.push_back(std::bit_cast<std::uint32_t>(value) >> 16);
  for (const float value : numbers(24 * kTerms, 2))
    v.push_back(std::bit_cast<std::uint32_t>(value) >> 16);
  const ctn::Executable layer = engine.prepare(build(m), 0);
  const ctn::Buffer dx(0, x), dw(0, w), dv(0, v), dy(0, m * kColumns * 4), dz(0, m * 24 * 4);
  const ctn::Buffer workspace(0, layer.workspace_bytes());
  const ctn::Stream stream(0);
  layer.launch(stream.get(), {dx.get(), dw.get(), dv.get(), dy.get(), dz.get()},
               {.workspace = workspace.get()});
  Result result{std::vector<float>(m * kColumns), std::vector<float>(m * 24)};
  dy.download(result.y.data());
  dz.download(result.z.data());
  return {{result.y.begin() + at * kColumns, result.y.begin() + (at + 1) * kColumns},
          {result.z.begin() + at * 24, result.z.begin() + (at + 1) * 24}};
}

}  // namespace

TEST_CASE("a row has the same bits for every M and at every position") {
  setenv("CATENARY_DEVICE", "sim", 1);
  ctn_engine_options options{};
  options.struct_size = sizeof options;
  options.batch_invariant = 1;
  const ctn::Engine engine(options);
  const std::vector<float> row = numbers(kTerms, 7);
  const Result one = run(engine, 1, 0, row);
  for (const std::int64_t m : {2, 7, 8, 9, 16, 17, 24, 33, 48, 64, 65, 130, 300}) {
    CAPTURE(m);
    for (const std::int64_t at : {std::int64_t{0}, m / 2, m - 1}) {
      const Result other = run(engine, m, at, row);
      CHECK(other.y == one.y);
      CHECK(other.z == one.z);
    }
  }
}

namespace {

std::vector<std::uint16_t> bf16_numbers(std::int64_t count, std::uint64_t seed) {
  std::vector<std::uint16_t> values;
  for (const float value : numbers(count, seed))
    values.push_back(std::bit_cast<std::uint32_t>(value) >> 16);
  return values;
}

// A chain that asks for it in its text, with a symbol: one engine without the option.
constexpr std::string_view kText =
    "chain c[M in 1..4096] batch_invariant(input x: bf16[M, 328], weight w: bf16[40, 328],\n"
    "    weight v: bf16[40, 328]) {\n"
    "  y = mul(silu(contract \"mk,nk->mn\"(x, w)), contract \"mk,nk->mn\"(x, v))\n"
    "  return y: f32 }";

// Its rows, where row i of `rows` is row (i + first) % rows of x.
std::vector<float> run_symbol(const ctn::Executable& layer, const std::vector<std::uint16_t>& x,
                              std::int64_t rows, std::int64_t first) {
  std::vector<std::uint16_t> turned(rows * kTerms);
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto from = x.begin() + (i + first) % rows * kTerms;
    std::copy(from, from + kTerms, turned.begin() + i * kTerms);
  }
  const ctn::Buffer dx(0, turned), dw(0, bf16_numbers(kColumns * kTerms, 1)),
      dv(0, bf16_numbers(kColumns * kTerms, 2)), dy(0, rows * kColumns * 4);
  const ctn::Buffer workspace(0, layer.workspace_bytes());
  const ctn::Stream stream(0);
  layer.launch(stream.get(), {dx.get(), dw.get(), dv.get(), dy.get()},
               {.symbol = rows, .workspace = workspace.get()});
  std::vector<float> turned_y(rows * kColumns), y(rows * kColumns);
  dy.download(turned_y.data());
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(turned_y.begin() + i * kColumns, kColumns,
                y.begin() + (i + first) % rows * kColumns);
  }
  return y;
}

}  // namespace

// Whether a row is summed in the epilogue of its product would depend on the prediction for M.
TEST_CASE("the sum of a product's row has the same bits for every M") {
  setenv("CATENARY_DEVICE", "sim", 1);
  constexpr std::int64_t kInner = 2048, kWidth = 128, kRows = 64;
  const ctn::Engine engine;
  const ctn::Executable layer = engine.prepare(
      ctn::Chain::parse("chain c[M in 1..64] batch_invariant(input x: f16[M, 2048],\n"
                        "    weight w: f16[128, 2048]) {\n"
                        "  y = contract \"mk,nk->mn\"(x, w)\n  s = sum \"mn->m\"(square(y))\n"
                        "  h = mul(y, s @ \"m\")\n  return h: f16, s: f32 }"),
      0);
  // Numbers of f16 too, up to 2.
  const std::vector<std::uint16_t> x = bf16_numbers(kRows * kInner, 3);
  const ctn::Buffer dw(0, bf16_numbers(kWidth * kInner, 4)), workspace(0, layer.workspace_bytes());
  const ctn::Stream stream(0);
  std::vector<float> first;
  for (const std::int64_t rows : {4, 5, 8, 9, 33, 64}) {
    CAPTURE(rows);
    const ctn::Buffer dx(0, std::vector<std::uint16_t>(x.begin(), x.begin() + rows * kInner));
    const ctn::Buffer dh(0, rows * kWidth * 2), ds(0, rows * 4);
    layer.launch(stream.get(), {dx.get(), dw.get(), dh.get(), ds.get()},
                 {.symbol = rows, .workspace = workspace.get()});
    std::vector<float> sums(rows);
    ds.download(sums.data());
    if (first.empty()) first = sums;
    sums.resize(first.size());
    CHECK(sums == first);
  }
}

TEST_CASE("every row of 64 has the same bits at M = 1 to 64 and at 4096, asked for in the text") {
  setenv("CATENARY_DEVICE", "sim", 1);
  const ctn::Engine engine;
  const ctn::Executable layer = engine.prepare(ctn::Chain::parse(kText), 0);
  const std::vector<std::uint16_t> x = bf16_numbers(4096 * kTerms, 3);
  const std::vector<float> all = run_symbol(layer, x, 4096, 0);
  const std::vector<float> expected(all.begin(), all.begin() + 64 * kColumns);
  for (std::int64_t m = 1; m <= 64; ++m) {
    CAPTURE(m);
    const std::vector<float> y = run_symbol(layer, x, m, m / 3);
    CHECK(std::equal(y.begin(), y.end(), expected.begin()));
  }
}

namespace {

// The results of the first `rows` rows of x by a layer with one weight, or with two.
std::vector<float> first_rows(const ctn::Executable& layer, const std::vector<std::uint16_t>& x,
                              const std::vector<std::vector<std::uint16_t>>& weights,
                              std::int64_t rows, std::int64_t terms, std::int64_t columns) {
  const ctn::Buffer dx(0, std::vector<std::uint16_t>(x.begin(), x.begin() + rows * terms));
  const ctn::Buffer dy(0, rows * columns * 4), workspace(0, layer.workspace_bytes());
  std::vector<ctn::Buffer> held;
  std::vector<void*> arguments = {dx.get()};
  for (const auto& weight : weights) arguments.push_back(held.emplace_back(0, weight).get());
  arguments.push_back(dy.get());
  const ctn::Stream stream(0);
  layer.launch(stream.get(), arguments, {.symbol = rows, .workspace = workspace.get()});
  std::vector<float> y(rows * columns);
  dy.download(y.data());
  return y;
}

}  // namespace

// Few columns and a long K: the CTAs of a cluster have k-slices where M is small; persistent CTAs
// add the sums of the same slices. 51 k-tiles do not divide by four.
TEST_CASE("k-slices of a cluster and of one CTA have the same bits") {
  setenv("CATENARY_DEVICE", "sim", 1);
  constexpr std::int64_t kLong = 3264, kNarrow = 136, kRows = 200;
  const std::string dual =
      "weight v: bf16[136, 3264]) {\n"
      "  y = mul(silu(contract \"mk,nk->mn\"(x, w)), contract \"mk,nk->mn\"(x, v))\n";
  const std::string one = "weight b: bf16[136]) {\n  y = add(contract \"mk,nk->mn\"(x, w), b)\n";
  const auto prepare = [&](bool is_dual, const char* tile) {
    ctn_engine_options options{};
    options.struct_size = sizeof options;
    options.force_tile = tile;
    const ctn::Engine engine(options);
    return engine.prepare(
        ctn::Chain::parse("chain c[M in 1..200] batch_invariant(input x: bf16[M, 3264],\n"
                          "    weight w: bf16[136, 3264], " +
                          (is_dual ? dual : one) + "  return y: f32 }"),
        0);
  };
  for (const bool is_dual : {false, true}) {
    CAPTURE(is_dual);
    const std::vector<std::uint16_t> x = bf16_numbers(kRows * kLong, 5);
    const std::vector<std::vector<std::uint16_t>> weights = {
        bf16_numbers(kNarrow * kLong, 6), bf16_numbers(is_dual ? kNarrow * kLong : kNarrow, 7)};
    const ctn::Executable planned = prepare(is_dual, nullptr);
    CHECK(planned.compiled().explain().find("cluster split-K 4") != std::string::npos);
    const std::vector<float> all = first_rows(planned, x, weights, kRows, kLong, kNarrow);
    for (const std::int64_t rows : {1, 9, 64, 65, 129}) {
      CAPTURE(rows);
      const std::vector<float> some = first_rows(planned, x, weights, rows, kLong, kNarrow);
      CHECK(std::equal(some.begin(), some.end(), all.begin()));
    }
    // A dual tile has so many columns of each weight.
    const char* large = is_dual ? "128x64x64g2s6z4" : "128x128x64g2s6z4";
    const char* ping_pong = is_dual ? "64x64x64p2s8z4" : "64x128x64p2s8z4";
    for (const char* tile : {"64x64x64g1s8z4", large, ping_pong}) {
      CAPTURE(tile);
      const ctn::Executable forced = prepare(is_dual, tile);
      CHECK(forced.compiled().explain().find("sums of 4 k-slices") != std::string::npos);
      CHECK(first_rows(forced, x, weights, kRows, kLong, kNarrow) == all);
    }
  }
}

TEST_CASE("a ragged row has the same bits whatever the sizes of the groups") {
  setenv("CATENARY_DEVICE", "sim", 1);
  const ctn::Engine engine;
  constexpr std::int64_t kRows = 70;
  const ctn::Executable layer = engine.prepare(
      ctn::Chain::parse(
          "chain c batch_invariant(input x: bf16[70, 328], weight w: bf16[3, 40, 328],\n"
          "    input e: i32[3]) {\n"
          "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: f32 }"),
      0);
  // All groups have one weight, so a row may be of any of them.
  std::vector<std::uint16_t> w;
  for (int g = 0; g < 3; ++g) {
    for (const std::uint16_t value : bf16_numbers(kColumns * kTerms, 1)) w.push_back(value);
  }
  const ctn::Buffer dx(0, bf16_numbers(kRows * kTerms, 3)), dw(0, w), dy(0, kRows * kColumns * 4);
  const ctn::Buffer workspace(0, layer.workspace_bytes());
  const ctn::Stream stream(0);
  std::vector<float> expected;
  for (const std::vector<std::int32_t>& ends : {std::vector<std::int32_t>{70, 70, 70},
                                                {1, 2, 70},
                                                {0, 33, 70},
                                                {17, 17, 70},
                                                {64, 65, 70}}) {
    const ctn::Buffer de(0, ends);
    layer.launch(stream.get(), {dx.get(), dw.get(), de.get(), dy.get()},
                 {.workspace = workspace.get()});
    std::vector<float> y(kRows * kColumns);
    dy.download(y.data());
    if (expected.empty()) expected = y;
    CHECK(y == expected);
  }
}

TEST_CASE("the free plan of a small M has other bits: the test can fail") {
  setenv("CATENARY_DEVICE", "sim", 1);
  const ctn::Engine engine;
  const std::vector<float> row = numbers(kTerms, 7);
  CHECK(run(engine, 1, 0, row).y != run(engine, 300, 0, row).y);
}
