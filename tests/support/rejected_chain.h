// SPDX-License-Identifier: Apache-2.0
// Chains that verify() rejects: text with what the message says.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace catenary::testing {

inline constexpr ErrorCode kInvalid = ErrorCode::kInvalidChain;
inline constexpr ErrorCode kLimit = ErrorCode::kResourceLimit;

inline ErrorReport verify_report(Chain chain) {
  auto verified = verify(std::move(chain));
  if (verified) return {};
  return take_report(verified.takeError());
}

inline void check_rejected(Chain chain, ErrorCode code, std::string_view says) {
  const ErrorReport report = verify_report(std::move(chain));
  CAPTURE(report.message);
  CAPTURE(says);
  CHECK(report.code == code);
  CHECK(report.message.find(says) != std::string::npos);
}

// A chain's parameters and body.
struct Case {
  const char* parameters;
  const char* body;
  const char* says;
  ErrorCode code = kInvalid;
};

inline void check_case(const Case& bad, std::string_view symbol) {
  const std::string text = fmt::format("chain c{}({}) {{ {} }}", symbol, bad.parameters, bad.body);
  CAPTURE(text);
  auto chain = parse(text);
  if (!chain) FAIL(render_error(take_report(chain.takeError()), "chain", text));
  check_rejected(std::move(*chain), bad.code, bad.says);
}

}  // namespace catenary::testing
