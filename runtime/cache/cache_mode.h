// SPDX-License-Identifier: Apache-2.0
// How a folder of files on disk is used, and the environment variables that say so.
#pragma once

#include <string>

#include "shared/int.h"

namespace catenary {

enum class CacheMode : u8 { kReadWrite, kReadOnly, kOff };

// Sets `mode` from the environment variable `variable`: off, ro or rw. Any other value leaves
// `mode` and returns a warning; empty: no warning.
std::string read_cache_mode(const char* variable, CacheMode& mode);

}  // namespace catenary
