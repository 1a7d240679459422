// SPDX-License-Identifier: Apache-2.0
// The advice of kDriverMissing to use the simulator, and how work that needs a GPU leaves it out.
#pragma once

#include <string_view>

#include "ir/error.h"

namespace catenary::cuda {

// The end of the message.
inline constexpr std::string_view kSimulatorAdvice =
    ", or set CATENARY_DEVICE=sim to run in the simulator";

// The error without that end, for what the simulator cannot do, such as measuring times.
inline Error without_simulator_advice(Error error) {
  ErrorReport report = take_report(std::move(error));
  const std::string_view message = report.message;
  if (report.code == ErrorCode::kDriverMissing && message.ends_with(kSimulatorAdvice))
    report.message.resize(message.size() - kSimulatorAdvice.size());
  return make_error_text(report.code, std::move(report.message), report.at);
}

}  // namespace catenary::cuda
