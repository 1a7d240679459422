// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "tests/gpu/bound_chain.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/modes.h"

namespace catenary::gpu_suite {
namespace {

// A forced tile is one of gemm_sm90.
Case sanitizer_case(const Suite& suite, const WrittenCase& written) {
  Case made = from_text(written, 1);
  if (suite.target().compute_capability() != 90) made.options.force_tile.clear();
  return made;
}

// Compiles all chains on all cores, so that the launches find them in the engine's cache on disk,
// if there is one. Errors are reported when the chain is bound.
void compile_ahead(const Suite& suite) {
  if (suite.options().cache.empty()) return;
  const auto& cases = sanitizer_cases();
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < cases.size(); i = next++) {
      const Case from = sanitizer_case(suite, cases[i]);
      auto compiled =
          Engine(suite.engine_options(from.options)).compile(from.chain, suite.target());
      if (!compiled) llvm::consumeError(compiled.takeError());
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(std::thread::hardware_concurrency(), 1u); ++i) {
    threads.emplace_back(work);
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr int kSchedules = 4;

// Launches the chain, in the simulator under several schedules, and waits for it.
Error run_one(Suite& suite, BoundChain& chain, const std::string& name) {
  for (int left = suite.simulated() ? kSchedules : 1; left > 0; --left) {
    if (Error error = suite.reschedule()) return error;
    if (Error error = chain.executable().launch(chain.arguments(suite.stream()))) return error;
    if (Error error = suite.check(suite.api().stream_synchronize(suite.stream()),
                                  fmt::format("running '{}'", name))) {
      return error;
    }
  }
  return Error::success();
}

}  // namespace

Error run_sanitizer_set(Suite& suite) {
  compile_ahead(suite);
  const auto& cases = sanitizer_cases();
  size_t done = 0;
  for (const WrittenCase& written : cases) {
    if (suite.out_of_time()) break;
    const Case from = sanitizer_case(suite, written);
    const std::vector<i32> ends = written.ends.empty() ? std::vector<i32>() : written.ends[0];
    const i64 symbol = written.symbols.empty() ? 0 : written.symbols[0];
    auto bound =
        BoundChain::make(suite, written.text, symbol, FillKind::kNormal, 1, from.options, ends);
    if (!bound) return bound.takeError();
    if (Error error = run_one(suite, *bound, written.name)) return error;
    ++done;
    suite.progress(fmt::format("{} of {}: {}", done, cases.size(), written.name));
  }
  suite.progress(fmt::format("sanitizer set: {} of {} chains launched", done, cases.size()), true);
  if (done == cases.size()) return Error::success();
  return make_error(ErrorCode::kResourceLimit, "{} of {} chains ran before the time limit", done,
                    cases.size());
}

}  // namespace catenary::gpu_suite
