// SPDX-License-Identifier: Apache-2.0
// Where a chain is that no kernel or no rule supports: the line and column of the operation.
#include <doctest/doctest.h>

#include "compiler/plan.h"
#include "ir/gradient/gradient.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"
#include "tests/support/verified.h"

using namespace catenary;
using testing::verified;

namespace {

ErrorReport refusal(const std::string& text, const std::string& target,
                    const PlanOptions& options = {}) {
  auto plan = make_plan(verified(text), *find_target(target), options);
  if (plan) FAIL("no error: " << text);
  return take_report(plan.takeError());
}

void check_place(const ErrorReport& report, int line, int column, const std::string& words) {
  CHECK((report.code == ErrorCode::kUnsupported || report.code == ErrorCode::kResourceLimit));
  CHECK(report.at.line == line);
  CHECK(report.at.column == column);
  CHECK(report.message.find(words) != std::string::npos);
}

std::string line_of(const std::string& text, int number) {
  size_t begin = 0;
  for (int i = 1; i < number; ++i) begin = text.find('\n', begin) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("a plan that is refused says where the operation is") {
  check_place(refusal(R"(chain c(
      input x: f32[2, 3, 2, 4, 4] strides[1024, 64, 512, 8, 1], weight w: f32[2, 3, 2, 4, 4]) {
  g = relu(x)
    y = contract "abckm,abckn->mn"(x, w)
  return g: f32, y: f32
})",
                      "h200"),
              4, 5, "'y' = contract \"abckm,abckn->mn\": the summed labels need more");
  check_place(refusal(R"(chain c(
      input x: f32[2, 2, 2, 2, 2, 2, 2, 4], weight w: f32[2, 2, 2, 2, 2, 2, 2, 4]) {
  y = contract "abcdefmk,abcdefnk->abcdefmn"(x, w)
  return y: f32 strides[4, 8, 16, 32, 64, 128, 2, 1]
})",
                      "h200"),
              3, 3, "'y' = contract \"abcdefmk,abcdefnk->abcdefmn\" needs 6 batch loops");
  check_place(refusal(R"(chain c(input x: e4m3[64, 64], weight w: e4m3[64, 64]) {
  # a comment
  r = relu(contract "mk,nk->mn"(x, w))
  return r: bf16
})",
                      "sm_80"),
              3, 12, "no kernel family computes");
}

TEST_CASE("forms of a plan keep the place") {
  const std::string text = R"(chain c(input x: bf16[64, 128], weight g: bf16[128],
    weight v: bf16[64, 128], input z: f32[2, 3, 2, 4, 4] strides[1024, 64, 512, 8, 1],
    weight w: f32[2, 3, 2, 4, 4]) {
  s = rsqrt(add(mul(sum "mk->m"(square(x)), 0.0078125), 0.00001))
  n = cast(mul(mul(x @ "mk", s @ "m"), g @ "k"), bf16)
  y = contract "mk,nk->mn"(n, v)
  u = contract "abckm,abckn->mn"(z, w)
  return y: bf16, u: f32
})";
  for (bool fuse : {true, false}) {
    for (bool algebraic : {true, false}) {
      PlanOptions options;
      options.fuse = fuse;
      options.algebraic_norms = algebraic;
      check_place(refusal(text, "h200", options), 7, 3, "'u' = contract");
    }
  }
}

TEST_CASE("random chains that are refused: the message names the operation of that line") {
  int refused = 0;
  for (u64 seed = 0; seed < 600; ++seed) {
    RandomChainOptions options;
    options.max_contractions = 1 + static_cast<int>(seed % 3);
    options.no_dequant = seed % 2 == 0;
    const std::string text = print(random_chain(seed, options));
    for (const char* target : {"sm_80", "h200"}) {
      auto plan = make_plan(verified(text), *find_target(target), {});
      if (plan) continue;
      const ErrorReport report = take_report(plan.takeError());
      ++refused;
      REQUIRE(report.at.line > 0);
      const std::string line = line_of(text, report.at.line);
      const std::string name = line.substr(2, line.find(' ', 2) - 2);
      if (report.message.find("'" + name + "'") == std::string::npos)
        FAIL_CHECK(seed << ": " << report.message << "\n" << line);
    }
  }
  CHECK(refused > 20);
}

TEST_CASE("a gradient that has no rule says where the operation is") {
  const VerifiedChain chain =
      verified(R"(chain c(input x: bf16[64, 64], weight q: i8[64, 64], weight s: bf16[64, 1]) {
  w = dequant(q, s) block (1, 64)
  y = contract "mk,nk->mn"(x, w)
  return y: bf16
})");
  auto made = make_gradient(chain, {});
  REQUIRE(!made);
  check_place(take_report(made.takeError()), 2, 3, "'dequant' of 'w' has no gradient");
}
