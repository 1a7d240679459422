// SPDX-License-Identifier: Apache-2.0
// The gradient of random chains of all ops, forms and options against central differences of the
// float64 reference. A mismatch is shrunk, and its seed replays it:
//   CATENARY_GRADIENT_SEEDS=2000 build/tests/gradient_random_test      (from seed 0)
//   CATENARY_GRADIENT_SEED=1234 build/tests/gradient_random_test
#include <doctest/doctest.h>

#include <cstdlib>

#include "ir/random/random.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"
#include "tests/support/gradient_chain.h"
#include "tests/support/gradient_check.h"

using namespace catenary;

namespace {

i64 number_from(const char* name, i64 otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

RandomChainOptions chain_options(u64 seed) {
  RandomChainOptions options;
  options.max_elements = 96;
  options.no_ragged = seed % 3 != 0;
  options.max_contractions = static_cast<int>(seed % 5 == 4 ? 0 : 2);
  return options;
}

GradientOptions gradient_options(const Chain& chain, u64 seed) {
  Random random(seed + 99);
  GradientOptions options;
  options.save_f32 = true;
  options.f32_weights = true;
  options.accumulate = random.chance(30);
  options.recompute = static_cast<Recompute>(random.range(0, 3));
  if (options.recompute == Recompute::kBudget) options.save_budget = random.range(0, 2000);
  if (random.chance(50)) return options;
  // All parameters, scalars too, or some.
  const bool some = random.chance(50);
  for (const Value& value : chain.values) {
    if (value.op != Op::kParameter || value.type.dtype == DType::kI32) continue;
    if (!some || random.chance(60)) options.wanted.push_back(value.name);
  }
  return options;
}

i64 symbol_of(const Chain& chain, u64 seed) {
  if (!chain.symbol) return 0;
  return Random(seed + 7).range(chain.symbol->lo, chain.symbol->hi);
}

struct Outcome {
  GradientCheck check;
  bool refused = false;
};

// `chain` is of smooth_chain().
Outcome outcome_of(const Chain& chain, u64 seed) {
  const VerifiedChain valid = [&] {
    auto result = verify(chain);
    if (!result)
      FAIL("seed " << seed << ": " << take_report(result.takeError()).message << "\n"
                   << print(chain));
    return std::move(*result);
  }();
  GradientOptions options = gradient_options(chain, seed);
  auto gradient = make_gradient(valid, options);
  if (!gradient && !options.wanted.empty()) {  // one of them reaches an output by a comparison only
    llvm::consumeError(gradient.takeError());
    options.wanted.clear();
    gradient = make_gradient(valid, options);
  }
  if (!gradient) {
    const ErrorReport report = take_report(gradient.takeError());
    Outcome outcome;
    // kUnsupported: an operand by its row and the group of it.
    outcome.refused =
        report.code == ErrorCode::kInvalidArgument || report.code == ErrorCode::kUnsupported;
    if (!outcome.refused) outcome.check.wrong = report.message;
    return outcome;
  }
  return {check_gradient(valid, *gradient, symbol_of(chain, seed), seed), false};
}

void report_mismatch(const Chain& chain, u64 seed) {
  const Chain small = shrink(chain, [&](const Chain& candidate) {
    return outcome_of(candidate, seed).check.wrong.has_value();
  });
  const Outcome outcome = outcome_of(small, seed);
  std::string chains;
  const VerifiedChain valid = verified_text(print(small));
  auto gradient = make_gradient(valid, gradient_options(small, seed));
  if (gradient) {
    chains = gradient_text(*gradient);
  } else {
    llvm::consumeError(gradient.takeError());
  }
  FAIL("CATENARY_GRADIENT_SEED=" << seed << " replays it: " << *outcome.check.wrong << "\n"
                                 << print(small) << "\n"
                                 << chains);
}

}  // namespace

TEST_SUITE("ir") {
  TEST_CASE("gradients of random chains are those of central differences") {
    const i64 one = number_from("CATENARY_GRADIENT_SEED", -1);
    const i64 count = one >= 0 ? one + 1 : number_from("CATENARY_GRADIENT_SEEDS", 300);
    int checked = 0, unsettled = 0, refused = 0;
    for (i64 seed = std::max<i64>(one, 0); seed < count; ++seed) {
      const Chain chain =
          smooth_chain(random_chain(static_cast<u64>(seed), chain_options(static_cast<u64>(seed))));
      const Outcome outcome = outcome_of(chain, static_cast<u64>(seed));
      if (outcome.check.wrong) report_mismatch(chain, static_cast<u64>(seed));
      checked += outcome.check.checked;
      unsettled += outcome.check.unsettled;
      refused += outcome.refused ? 1 : 0;
    }
    MESSAGE(checked << " gradients checked, " << unsettled << " not finite, " << refused
                    << " chains refused");
    if (one >= 0) return;
    CHECK(unsettled * 20 < checked);
    CHECK(refused * 5 < count);
    CHECK(checked > count);
  }
}
