// SPDX-License-Identifier: Apache-2.0
// Packs through the C ABI and its C++ header, in the simulator: a chain is compiled, packed, and
// run by an engine that may not compile; every wrong argument is one sentence.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "catenary/pack.hpp"
#include "tests/support/temp_dir.h"

namespace {

// z = silu(x w^T + b), M in 1..hi.
ctn::Chain layer(std::int64_t hi = 16, const std::string& name = "layer") {
  ctn::Chain c(name);
  c.symbol("M", 1, hi);
  auto x = c.input("x", ctn::f32, {ctn::symbol, 32});
  auto w = c.weight("w", ctn::f32, {24, 32});
  auto b = c.weight("b", ctn::f32, {24});
  c.output(ctn::silu(ctn::linear(x, w) + b), ctn::f32);
  return c;
}

ctn::Engine engine_of(ctn_jit_mode jit) {
  ctn_engine_options options{};
  options.cache_mode = CTN_CACHE_OFF;
  options.jit = jit;
  return ctn::Engine(options);
}

bool has_compiler() {
  try {
    engine_of(CTN_JIT_AUTO).compile(layer(), "h200");
    return true;
  } catch (const ctn::Error& error) {
    if (error.code() != CTN_HOST_COMPILER_MISSING) throw;
    MESSAGE("skipped: no host compiler");
    return false;
  }
}

std::vector<float> run(const ctn::Executable& executable, std::int64_t rows) {
  std::vector<float> x(static_cast<size_t>(rows) * 32);
  std::vector<float> w(24 * 32);
  std::vector<float> y(static_cast<size_t>(rows) * 24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
  ctn::Buffer dx(0, x);
  ctn::Buffer dw(0, w);
  ctn::Buffer db(0, std::vector<float>(24, 0.5f));
  ctn::Buffer dy(0, y.size() * sizeof(float));
  ctn::Buffer workspace(0, static_cast<size_t>(executable.workspace_bytes()));
  ctn::Stream stream(0);
  ctn::LaunchOptions options;
  options.symbol = rows;
  options.workspace = workspace.get();
  executable.launch(stream.get(), {dx.get(), dw.get(), db.get(), dy.get()}, options);
  dy.download(y.data());
  std::vector<float> expected(y.size());
  std::vector<float> bias(24, 0.5f);
  ctn::run_reference(layer(), {x.data(), w.data(), bias.data(), expected.data()}, {}, rows);
  for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-3));
  return y;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Call>
ctn_status status_of(const Call& call) {
  try {
    call();
  } catch (const ctn::Error& error) {
    return error.code();
  }
  return CTN_OK;
}

struct Simulated {
  Simulated() { ::setenv("CATENARY_DEVICE", "sim", 1); }
} simulated;

}  // namespace

TEST_CASE("a compiled chain is saved, opened and run without a compiler") {
  if (!has_compiler()) return;
  const catenary::test::TempDir folder;
  const ctn::Engine compiling = engine_of(CTN_JIT_AUTO);
  const ctn::Compiled compiled = compiling.compile(layer(), "h200");
  const std::vector<float> direct = run(compiling.load(compiled, 0), 5);
  ctn::save(compiled, folder / "a.ctnpack");
  ctn::save(compiling.compile(layer(), "h200"), folder / "b.ctnpack");
  CHECK(bytes_of(folder / "a.ctnpack") == bytes_of(folder / "b.ctnpack"));

  const ctn::Engine strict = engine_of(CTN_JIT_OFF);
  CHECK(run(strict.load(ctn::open_compiled(folder / "a.ctnpack"), 0), 5) == direct);
  CHECK(status_of([&] { strict.prepare(layer(), 0); }) == CTN_PACK_MISS);
  const ctn::Pack pack(folder / "a.ctnpack", {.verify_all = true});
  ctn::add_pack(strict, pack);
  const ctn::Executable found = strict.prepare(layer(16, "renamed"), 0);
  CHECK(run(found, 5) == direct);
  CHECK(run(found, 16).size() == 16 * 24);
  CHECK(found.compiled().explain() == compiled.explain());
  REQUIRE(found.compiled().kernels().size() == compiled.kernels().size());
  CHECK(found.compiled().kernels()[0].source.empty());

  CHECK(status_of([&] { strict.prepare(layer(17), 0); }) == CTN_PACK_MISS);
  CHECK(std::string(ctn_last_error()).find("M in 1..16 (asked: 1..17)") != std::string::npos);
  const std::string missed = ctn::missed(strict);
  CHECK(std::count(missed.begin(), missed.end(), '\n') == 2);
}

TEST_CASE("a pack in memory outlives its handle in an engine and in compiled chains") {
  if (!has_compiler()) return;
  const catenary::test::TempDir folder;
  ctn::PackWriter writer(false, true);
  writer.add(engine_of(CTN_JIT_AUTO).compile(layer(), "h200"));
  writer.add(engine_of(CTN_JIT_AUTO).compile(layer(8), "a100"));
  writer.finish(folder / "a.ctnpack");
  const std::string bytes = bytes_of(folder / "a.ctnpack");
  const ctn::Engine strict = engine_of(CTN_JIT_OFF);
  ctn::Compiled compiled = [&] {
    const ctn::Pack pack(std::as_bytes(std::span(bytes)));
    ctn::add_pack(strict, pack, 3);
    CHECK(pack.entries().size() == 2);
    CHECK(pack.info().find("host:sm_90a: 1 entry") != std::string::npos);
    CHECK(pack.info(CTN_JSON).find("\"entries\": 2") != std::string::npos);
    return pack.find(layer(), "h200");
  }();
  CHECK(compiled.kernels()[0].source.find("__global__") != std::string::npos);
  CHECK(status_of([&] { compiled.explain(); }) == CTN_UNSUPPORTED);
  run(strict.prepare(layer(), 0), 3);
  run(strict.load(compiled, 0), 3);
}

TEST_CASE("facts of an entry") {
  if (!has_compiler()) return;
  const catenary::test::TempDir folder;
  ctn::save(engine_of(CTN_JIT_AUTO).compile(layer(), "h200"), folder / "a.ctnpack");
  const ctn::Pack pack(folder / "a.ctnpack");
  const ctn_pack_entry_info info = pack.entries().at(0);
  CHECK(std::strlen(info.key) == 64);
  CHECK(std::string(info.chain) == "layer");
  CHECK(std::string(info.arch) == "host:sm_90a");
  CHECK(std::string(info.target) == "h200");
  CHECK(info.sm_count == 132);
  CHECK(info.symbol_lo == 1);
  CHECK(info.symbol_hi == 16);
  CHECK(info.num_kernels >= 1);
  CHECK(info.code_bytes > 1000);
  CHECK(status_of([&] { pack.compiled(1); }) == CTN_INVALID_ARGUMENT);
  ctn_pack_entry_info unset{};
  CHECK(ctn_pack_entry(pack.get(), 0, &unset) == CTN_INVALID_ARGUMENT);
  CHECK(status_of([&] { pack.find(layer(), "b200"); }) == CTN_PACK_MISS);
  CHECK(status_of([&] { pack.find(layer(), "h2000"); }) == CTN_INVALID_ARGUMENT);
}

TEST_CASE("wrong arguments and files") {
  const catenary::test::TempDir folder;
  CHECK(status_of([&] { ctn::Pack(folder / "absent"); }) == CTN_IO);
  CHECK(status_of([&] { ctn::Pack(std::string(folder / "")); }) == CTN_IO);
  std::ofstream(folder / "text") << "no pack";
  CHECK(status_of([&] { ctn::Pack(folder / "text"); }) == CTN_CORRUPT_ARTIFACT);
  CHECK(status_of([&] { ctn::open_compiled(folder / "text"); }) == CTN_CORRUPT_ARTIFACT);
  ctn::PackWriter empty;
  empty.finish(folder / "empty.ctnpack");
  CHECK(status_of([&] { ctn::open_compiled(folder / "empty.ctnpack"); }) == CTN_INVALID_ARGUMENT);
  CHECK(status_of([&] { empty.finish(folder / "absent/a.ctnpack"); }) == CTN_IO);
  const ctn::Pack pack(folder / "empty.ctnpack");
  CHECK(pack.entries().empty());
  CHECK(status_of([&] { ctn::Pack(folder / "empty.ctnpack", {.expected_sha256 = "00"}); }) ==
        CTN_CORRUPT_ARTIFACT);
  ctn_pack* handle = nullptr;
  char* text = nullptr;
  CHECK(ctn_pack_open(nullptr, nullptr, &handle) == CTN_INVALID_ARGUMENT);
  CHECK(ctn_pack_open_memory(nullptr, 0, nullptr, &handle) == CTN_INVALID_ARGUMENT);
  CHECK(ctn_pack_info(pack.get(), 7, &text) == CTN_INVALID_ARGUMENT);
  CHECK(ctn_engine_add_pack(nullptr, pack.get(), 0) == CTN_INVALID_ARGUMENT);
  CHECK(ctn_pack_writer_add(nullptr, nullptr) == CTN_INVALID_ARGUMENT);
  CHECK(ctn_compiled_save(nullptr, "x") == CTN_INVALID_ARGUMENT);
  ctn_pack_close(nullptr);
  ctn_pack_writer_destroy(nullptr);
}

TEST_CASE("options of an older header, and a wrong mode") {
  ctn_engine_options options{};
  options.struct_size = offsetof(ctn_engine_options, trace_file);
  options.cache_mode = CTN_CACHE_OFF;
  options.jit = 77;  // beyond the struct that the caller has
  ctn_engine* engine = nullptr;
  CHECK(ctn_engine_create(&options, &engine) == CTN_OK);
  ctn_engine_destroy(engine);
  options.struct_size = sizeof options;
  CHECK(ctn_engine_create(&options, &engine) == CTN_INVALID_ARGUMENT);
  CHECK(std::string(ctn_last_error()) == "options->jit is 77: use a value of ctn_jit_mode");
  ::setenv("CATENARY_JIT", "never", 1);
  options.jit = CTN_JIT_DEFAULT;
  CHECK(ctn_engine_create(&options, &engine) == CTN_INVALID_ARGUMENT);
  ::unsetenv("CATENARY_JIT");
}
