// SPDX-License-Identifier: Apache-2.0
// The process's environment as text.
#pragma once

#include <cstdlib>
#include <string>

namespace catenary {

// The value of the environment variable `name`; empty when it is unset.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace catenary
