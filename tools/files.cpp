// SPDX-License-Identifier: Apache-2.0
#include "tools/files.h"

#include "ir/names.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace catenary::tools {

Error make_folder(const std::string& path) {
  const std::error_code code = llvm::sys::fs::create_directories(path);
  // create_directories succeeds if a file has that name.
  if (!code && llvm::sys::fs::is_directory(path)) return Error::success();
  return make_error(ErrorCode::kIo, "folder {} could not be created ({}): choose another one",
                    quoted(path), code ? code.message() : "a file has that name");
}

Error write_file(const std::string& path, llvm::StringRef bytes) {
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  if (!code) {
    file << bytes;
    file.close();
    code = file.error();
    file.clear_error();  // otherwise the stream aborts the process
  }
  if (!code) return Error::success();
  return make_error(ErrorCode::kIo,
                    "{} could not be written ({}): check the folder and the free space",
                    quoted(path), code.message());
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
