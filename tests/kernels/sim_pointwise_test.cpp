// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels in the simulator: operands that are alike but for the dimension along which
// they vary.
#include <doctest/doctest.h>

#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
};

std::string run(const Case& from, const HostCompiler& compiler) {
  SimulatedChainOptions options;
  options.compiler = &compiler;
  auto chain = SimulatedChain::make(from.chain, options);
  if (!chain) return from.name + ": " + take_report(chain.takeError()).message;
  return first_failure(*chain, from.name, 2);
}

}  // namespace

// As template arguments they differ only in the place of one stride.
TEST_CASE("operands along unlike dimensions, of equal strides") {
  const std::vector<Case> cases = {
      {"two of one vector",
       "chain a(input x: f32[5, 5, 8], input s: f32[5]) {\n"
       "  y = mul(mul(x @ \"abc\", s @ \"a\"), s @ \"b\")\n  return y: f32 }"},
      {"two kernels' worth",
       "chain a(input x: f32[5, 5, 8], input s: f32[5]) {\n  y = mul(x @ \"abc\", s @ \"a\")\n"
       "  z = mul(x @ \"abc\", s @ \"b\")\n  return y: f32, z: f32 }"},
      {"after a contraction",
       "chain a(input x: f32[5, 5, 32], weight w: f32[8, 32], input s: f32[5]) {\n"
       "  h = contract \"abk,ck->abc\"(x, w)\n"
       "  y = mul(mul(h @ \"abc\", s @ \"a\"), s @ \"b\")\n  return y: f32 }"},
      {"terms and their sums by group",
       "chain a(input e: i32[4], input s: f32[4], input d: f32[4, 8]) {\n"
       "  a = mul(d @ \"mn\", s @ \"m\")\n  t = sum \"mn->en\"(a) ragged m by e over e\n"
       "  return t: f32, a: f32 }"},
  };
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}
