// SPDX-License-Identifier: Apache-2.0
// The process's environment as text.
#pragma once

#include <sys/auxv.h>

#include <cstdlib>
#include <string>

namespace catenary {

// Whether the process has more rights than its user (setuid, file capabilities): the user's
// environment must then not choose what it loads and runs.
inline bool has_more_rights_than_its_user() { return ::getauxval(AT_SECURE) != 0; }

// The value of the environment variable `name`; empty when it is unset, and in a process with more
// rights than its user.
inline std::string environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace catenary
