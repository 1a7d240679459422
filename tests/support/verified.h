// SPDX-License-Identifier: Apache-2.0
// A chain from its text, for tests whose chains are right.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace catenary::testing {

// The test fails where the chain is refused.
inline VerifiedChain verified(const std::string& text) {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  return std::move(*chain);
}

}  // namespace catenary::testing
