// SPDX-License-Identifier: Apache-2.0
// A file that the user asked for, written whole or not at all: the bytes go to a file without a
// name in the same folder, which is synced and takes the path at commit(). Until then, and after
// any failure or kill, the path has what it had before.
#pragma once

#include <string>
#include <utility>

#include "ir/error.h"
#include "llvm/ADT/StringRef.h"

namespace catenary {

class OutputFile {
 public:
  // Whether open(path) would succeed; writes nothing that remains. For the start of long work. kIo
  // as open().
  static Error check(const std::string& path);

  // Whether open() of both paths would write one file, which need not exist: "a" and "./a", or a
  // link and its target. Hard links are two files, since a new file replaces one name.
  static bool same(const std::string& path, const std::string& other);

  // Links are followed. Devices and pipes are written in place. kIo names the path: its folder does
  // not exist or cannot be written, it is a folder itself, or this user may not write it.
  static Expected<OutputFile> open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile() { discard(); }

  // Appends. The first failure is kept for commit().
  void write(llvm::StringRef bytes);

  // "/proc/self/fd/7": for a program that writes the file itself, instead of write().
  std::string path_for_programs() const;

  // Puts the file in place with the mode of the one that it replaces. kIo names the step that
  // failed; the path has what it had before.
  Error commit();

 private:
  OutputFile() = default;
  void flush();
  void discard();
  int put_in_place();

  std::string asked_;   // as the user named it
  std::string path_;    // with links followed
  std::string draft_;   // name under which the bytes are; empty: none
  std::string buffer_;  // bytes that are not in the file yet
  int file_ = -1;
  int problem_ = 0;  // errno of the first write that failed
  bool in_place_ = false;
};

// Writes the whole file. kIo as open() and commit().
Error write_output(const std::string& path, llvm::StringRef bytes);

}  // namespace catenary
