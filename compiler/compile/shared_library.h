// SPDX-License-Identifier: Apache-2.0
// A shared library that is opened at run time, and its functions by name. It is never closed:
// CUDA's libraries register exit handlers and start threads, which must not run in unmapped code.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace catenary {

class SharedLibrary {
 public:
  // Opens `name`, a file or a soname, with RTLD_NOW | RTLD_LOCAL | `flags`. If that fails, the
  // object is not open and problem() has the loader's reason.
  explicit SharedLibrary(const std::string& name, int flags = 0);

  bool is_open() const { return handle_ != nullptr; }

  // Why the library is not usable: it did not open, or need() missed a function. Empty: it is
  // usable.
  const std::string& problem() const { return problem_; }

  // The file that was opened; the given name where the loader does not tell the file.
  const std::string& path() const { return path_; }

  // Sets `out` to the function `symbol`, or to null. The first missing one becomes the problem.
  template <typename Function>
  void need(const char* symbol, Function*& out) {
    out = reinterpret_cast<Function*>(find(symbol));
  }

 private:
  void* find(const char* symbol);

  void* handle_ = nullptr;
  std::string path_;
  std::string problem_;
};

// The regular files <folder><subfolder>/<soname>, by subfolder, then by soname.
std::vector<std::string> library_files(const std::string& folder,
                                       llvm::ArrayRef<const char*> subfolders,
                                       llvm::ArrayRef<const char*> sonames);

}  // namespace catenary
