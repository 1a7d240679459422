// SPDX-License-Identifier: Apache-2.0
// Folders for output; formats sizes.
#pragma once

#include <string>

#include "ir/error.h"

namespace catenary::tools {

// Creates `path` and its parents. kIo.
Error make_folder(const std::string& path);

// make_folder(), and a check that files can be made in it: for the start of long work. kIo.
Error prepare_folder(const std::string& path);

// "34.1 KiB".
std::string bytes_text(i64 bytes);

}  // namespace catenary::tools
