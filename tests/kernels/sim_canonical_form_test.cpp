// SPDX-License-Identifier: Apache-2.0
// Chains in other spellings than the canonical one, in the simulator: a norm before a product is
// inside its kernel however casts, heads and rows are written, and results are the reference's.
#include <doctest/doctest.h>

#include "tests/support/sim_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Spelling {
  std::string symbol;
  std::string x;     // dimensions of x, the last one K
  std::string w;     // those of w
  std::string rows;  // labels of the rows
  std::string equation;
  std::string strides;  // of the result
};

const Spelling kSpellings[] = {
    {"", "5, 256", "48, 256", "m", "mk,nk->mn", ""},
    {"", "5, 256", "3, 16, 256", "m", "mk,hdk->mhd", ""},
    {"[M in 1..9]", "M, 256", "3, 16, 256", "m", "mk,hdk->mhd", ""},
    {"", "5, 256", "3, 16, 256", "m", "mk,hdk->hmd", ""},
    {"", "5, 256", "3, 16, 256", "m", "mk,hdk->mhd", " strides[80, 24, 1]"},
    {"", "2, 3, 256", "48, 256", "bs", "bsk,nk->bsn", ""},
    {"[B in 1..9]", "B, 1, 256", "48, 256", "bs", "bsk,nk->bsn", ""},
    {"", "2, 3, 256", "3, 16, 256", "bs", "bsk,hdk->bshd", ""},
};

// RMSNorm with a gain and a cast to f32, then the product.
std::string normed(const Spelling& s, bool gain) {
  return fmt::format(
      "chain a{0}(input x: bf16[{1}], {6}weight w: bf16[{2}]) {{\n"
      "  xf = cast(x, f32)\n"
      "  r = rsqrt(add(mul(sum \"{3}k->{3}\"(square(xf)), 0.00390625), 0.00001))\n"
      "  n = cast({7}mul(xf @ \"{3}k\", r @ \"{3}\"){8}, bf16)\n"
      "  y = contract \"{4}\"(n, w)\n  return y: bf16{5} }}",
      s.symbol, s.x, s.w, s.rows, s.equation, s.strides, gain ? "weight g: bf16[256], " : "",
      gain ? "mul(" : "", gain ? ", g @ \"k\")" : "");
}

SimulatedChain make(const std::string& text, bool algebraic, FillKind fill) {
  SimulatedChainOptions options;
  options.target = "h200";
  options.plan.prefer_inside = true;
  options.fill = fill;
  options.symbol = text.find('[') < text.find('(') ? 5 : 0;
  auto chain = SimulatedChain::make(
      algebraic ? text.substr(0, text.find('(')) + " algebraic_norms" + text.substr(text.find('('))
                : text,
      options);
  if (!chain) FAIL(text << "\n" << take_report(chain.takeError()).message);
  return std::move(*chain);
}

}  // namespace

TEST_SUITE("spellings, in the simulator") {
  TEST_CASE("a norm is inside the product's kernel, rounded and in its algebraic form") {
    for (const Spelling& spelling : kSpellings) {
      for (const bool gain : {false, true}) {
        for (const bool algebraic : {false, true}) {
          const std::string text = normed(spelling, gain);
          CAPTURE(text);
          CAPTURE(algebraic);
          const SimulatedChain chain = make(text, algebraic, FillKind::kNormal);
          for (const PlanBucket& bucket : chain.plan().buckets) CHECK(bucket.kernels.size() == 1);
          for (u64 seed = 1; seed <= 2; ++seed) {
            const SimulatedOutcome outcome = chain.run(seed);
            CHECK_MESSAGE(outcome.name == "", outcome.name << ": " << outcome.message);
          }
        }
      }
    }
  }
}
