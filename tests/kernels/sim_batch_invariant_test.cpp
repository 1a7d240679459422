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

TEST_CASE("the free plan of a small M has other bits: the test can fail") {
  setenv("CATENARY_DEVICE", "sim", 1);
  const ctn::Engine engine;
  const std::vector<float> row = numbers(kTerms, 7);
  CHECK(run(engine, 1, 0, row).y != run(engine, 300, 0, row).y);
}
