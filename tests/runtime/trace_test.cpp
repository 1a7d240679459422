// SPDX-License-Identifier: Apache-2.0
// The trace of what programs ask for: each request is one line, and reading it gives the request.
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <thread>

#include "ir/log.h"
#include "runtime/engine.h"
#include "runtime/lookup/pack_lookup.h"
#include "tests/support/packed_chains.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using test::layer_chain;
using test::LayerSizes;
using test::must;

TEST_CASE("a trace has one line for each chain, target and options, also of threads") {
  const test::TempDir folder;
  LookupOptions options;
  options.trace = folder / "run.ctrace";
  PackLookup packs(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&packs] {
      for (int k = 1; k <= 8; ++k) {
        LayerSizes sizes;
        sizes.k = 64 * k;
        for (const char* target : {"h200", "a100"}) {
          packs.trace(make_request(layer_chain(sizes), must(find_target(target)), false, {}));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::ifstream file(folder / "run.ctrace");
  std::set<KernelKey> keys;
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    keys.insert(must(parse_request_line(line)).key);
  }
  CHECK(lines == 16);
  CHECK(keys.size() == 16);

  std::vector<std::string> warnings;
  options.trace = folder / "absent/run.ctrace";
  options.warn = [&](const std::string& line) { warnings.push_back(line); };
  PackLookup lost(options);
  for (int i = 0; i < 2; ++i) {
    lost.trace(make_request(layer_chain(), must(find_target("h200")), false, {}));
  }
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("cannot write the trace") != std::string::npos);
}

TEST_CASE("an engine's option algebraic_norms is the word of its chains") {
  const test::TempDir folder;
  EngineOptions options;
  options.plan.algebraic_norms = true;
  options.lookup.jit = JitMode::kOff;
  options.lookup.trace = folder / "word.ctrace";
  Engine engine(options);
  const Target target = must(find_target("h200"));
  const Chain chain = layer_chain().chain();
  auto record = engine.obtain(chain, target);
  REQUIRE_FALSE(record);
  CHECK(take_report(record.takeError()).code == ErrorCode::kPackMiss);
  Chain word = chain;
  word.words.algebraic_norms = true;
  std::ifstream file(folder / "word.ctrace");
  std::string line;
  REQUIRE(std::getline(file, line));
  const ChainRequest asked = make_request(must(verify(word)), target, false, {});
  CHECK(must(parse_request_line(line)).key == asked.key);
  CHECK(make_request(must(verify(chain)), target, false, {}).key != asked.key);
}

TEST_CASE("without a callback a warning goes to the log") {
  static std::vector<std::string> lines;
  lines.clear();
  set_log([](void*, i32, const char* line) { lines.push_back(line); }, nullptr, LogLevel::kWarn);
  const test::TempDir folder;
  LookupOptions options;
  options.trace = folder / "absent/run.ctrace";
  PackLookup packs(options);
  for (int i = 0; i < 2; ++i) {
    packs.trace(make_request(layer_chain(), must(find_target("h200")), false, {}));
  }
  set_log(nullptr, nullptr, LogLevel::kOff);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("cannot write the trace") != std::string::npos);
}

TEST_CASE("a line that is no line of a trace is refused") {
  const std::string good =
      request_line(make_request(layer_chain(), must(find_target("h200")), false, {}));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"{", "["},
           {"\"chain\"", "\"chains\""},
           {"\"simulator\":false", "\"simulator\":0"},
           {"\"sm_count\":132", "\"sm_count\":0"},
           {"\"arch\":\"sm_90a\"", "\"arch\":\"sm_x\""},
           {"\"split_k\":0", "\"split_k\":-1"},
           {"\"l2_bytes\"", "\"l3_bytes\""}}) {
    std::string bad = good;
    REQUIRE(bad.find(from) != std::string::npos);
    bad.replace(bad.find(from), from.size(), to);
    CAPTURE(bad);
    auto request = parse_request_line(bad);
    REQUIRE_FALSE(request);
    CHECK(take_report(request.takeError()).code == ErrorCode::kParse);
  }
}
