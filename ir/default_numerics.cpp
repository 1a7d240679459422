// SPDX-License-Identifier: Apache-2.0
#include "ir/default_numerics.h"

namespace catenary {

DefaultNumerics::DefaultNumerics() noexcept {
  // For "C" newlocale returns the C library's own object: it allocates nothing and cannot fail.
  static const locale_t c_locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  std::fegetenv(&environment_);
  std::fesetenv(FE_DFL_ENV);
  locale_ = ::uselocale(c_locale);
}

DefaultNumerics::~DefaultNumerics() {
  ::uselocale(locale_);
  std::fesetenv(&environment_);
}

}  // namespace catenary
