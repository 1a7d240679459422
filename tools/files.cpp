// SPDX-License-Identifier: Apache-2.0
#include "tools/files.h"

#include "ir/names.h"
#include "ir/output_file.h"
#include "llvm/Support/FileSystem.h"

namespace catenary::tools {

Error make_folder(const std::string& path) {
  const std::error_code code = llvm::sys::fs::create_directories(path);
  // create_directories succeeds if a file has that name.
  if (!code && llvm::sys::fs::is_directory(path)) return Error::success();
  return make_error(ErrorCode::kIo, "folder {} could not be created ({}): choose another one",
                    quoted(path), code ? code.message() : "a file has that name");
}

Error prepare_folder(const std::string& path) {
  if (Error error = make_folder(path)) return error;
  return OutputFile::check(path + "/any");
}

std::string bytes_text(i64 bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace catenary::tools
