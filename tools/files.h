// SPDX-License-Identifier: Apache-2.0
// Writes files and folders; formats sizes.
#pragma once

#include <string>

#include "ir/error.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::tools {

// Creates `path` and its parents. kIo.
Error make_folder(const std::string& path);

// Creates or replaces the file. kIo.
Error write_file(const std::string& path, llvm::StringRef bytes);

// "34.1 KiB".
std::string bytes_text(i64 bytes);

}  // namespace catenary::tools
