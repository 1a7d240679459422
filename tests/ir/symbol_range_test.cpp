// SPDX-License-Identifier: Apache-2.0
// A chain for another range of its symbol is the chain that a user writes for that range.
#include "ir/symbol_range.h"

#include <doctest/doctest.h>

#include "ir/text/text.h"

using namespace catenary;

namespace {

std::string text_for(const std::string& range, const std::string& rows) {
  return "chain layer" + range + "(input x: bf16[" + rows +
         ", 64], weight w: bf16[32, 64], input s: f32[" + rows +
         ", 2] strides[4, 1]) {\n"
         "  y = contract \"mk,nk->mn\"(x, w)\n"
         "  q = sum \"ms->m\"(s)\n"
         "  return y: bf16 strides[64, 1], q: f32\n}\n";
}

VerifiedChain verified(const std::string& text) {
  Expected<Chain> chain = parse(text);
  if (!chain) FAIL(take_report(chain.takeError()).message << "\n" << text);
  Expected<VerifiedChain> result = verify(std::move(*chain));
  if (!result) FAIL(take_report(result.takeError()).message << "\n" << text);
  return std::move(*result);
}

std::string changed(const VerifiedChain& chain, i64 lo, i64 hi) {
  Expected<VerifiedChain> result = with_symbol_range(chain, lo, hi);
  if (!result) return take_report(result.takeError()).message;
  return print(result->chain());
}

}  // namespace

TEST_CASE("another range, or one size, in place of the symbol") {
  const VerifiedChain chain = verified(text_for("[M in 1..64]", "M"));
  const auto expected = [](const std::string& range, const std::string& rows) {
    return print(verified(text_for(range, rows)).chain());
  };
  CHECK(changed(chain, 1, 64) == expected("[M in 1..64]", "M"));
  CHECK(changed(chain, 65, 4096) == expected("[M in 65..4096]", "M"));
  CHECK(changed(chain, 4096, 4096) == expected("", "4096"));
  CHECK(changed(chain, 1, 1) == expected("", "1"));
}

TEST_CASE("a chain without a symbol stays as it is") {
  const VerifiedChain chain = verified(text_for("", "16"));
  CHECK(changed(chain, 1, 64) == print(chain.chain()));
}

TEST_CASE("a range that no chain can have is refused") {
  const VerifiedChain chain = verified(text_for("[M in 1..64]", "M"));
  CHECK(changed(chain, 1, i64{1} << 32).find("give bounds") != std::string::npos);
  CHECK(changed(chain, 9, 3).find("give bounds") != std::string::npos);
}
