// SPDX-License-Identifier: Apache-2.0
// Writing the user's files and folders, and text sizes for people.
#pragma once

#include <string>

#include "ir/error.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::tools {

// Creates `path` and what is above it. kIo.
Error make_folder(const std::string& path);

// Writes the whole file. kIo.
Error write_file(const std::string& path, llvm::StringRef bytes);

// "34.1 KiB".
std::string bytes_text(i64 bytes);

}  // namespace catenary::tools
