// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/cache_mode.h"

#include <fmt/format.h>

#include "compiler/compile/environment.h"

namespace catenary {

std::string read_cache_mode(const char* variable, CacheMode& mode) {
  const std::string value = environment(variable);
  if (value == "off") {
    mode = CacheMode::kOff;
  } else if (value == "ro") {
    mode = CacheMode::kReadOnly;
  } else if (value == "rw") {
    mode = CacheMode::kReadWrite;
  } else if (!value.empty()) {
    return fmt::format("{}={} is ignored: set it to off, ro or rw", variable, value);
  }
  return "";
}

}  // namespace catenary
