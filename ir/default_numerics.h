// SPDX-License-Identifier: Apache-2.0
// The state of a thread on which the text and the value of a number depend, for a scope.
#pragma once

#include <locale.h>

#include <cfenv>

namespace catenary {

// For its lifetime this thread has the locale "C" and the default floating-point environment:
// rounding to nearest, subnormals kept, no traps. Restores the caller's. A host may set a locale
// with a decimal comma, another rounding mode or flush-to-zero; plans and sources must not depend
// on them. Threads that are started in the scope inherit the environment, but not the locale.
class DefaultNumerics {
 public:
  DefaultNumerics() noexcept;
  DefaultNumerics(const DefaultNumerics&) = delete;
  DefaultNumerics& operator=(const DefaultNumerics&) = delete;
  ~DefaultNumerics();

 private:
  std::fenv_t environment_;
  locale_t locale_;
};

}  // namespace catenary
