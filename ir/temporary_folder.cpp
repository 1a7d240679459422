// SPDX-License-Identifier: Apache-2.0
#include "ir/temporary_folder.h"

#include <climits>
#include <cstdlib>

namespace catenary {

std::string temporary_folder() {
  std::string folder = "/tmp";
  for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
    const char* value = ::secure_getenv(name);
    if (value == nullptr || *value == '\0') continue;
    folder = value;
    break;
  }
  char absolute[PATH_MAX];
  return ::realpath(folder.c_str(), absolute) != nullptr ? absolute : folder;
}

}  // namespace catenary
