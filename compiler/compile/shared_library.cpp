// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

namespace catenary {

SharedLibrary::SharedLibrary(const std::string& name, int flags)
    : handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | flags)), path_(name) {
  if (handle_ == nullptr) {
    const char* reason = ::dlerror();
    problem_ = reason == nullptr ? "it cannot be opened" : reason;
    return;
  }
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr &&
      *map->l_name != '\0') {
    path_ = map->l_name;
  }
}

void* SharedLibrary::find(const char* symbol) {
  void* found = handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
  if (found == nullptr && problem_.empty()) problem_ = std::string("it has no ") + symbol;
  return found;
}

std::vector<std::string> library_files(const std::string& folder,
                                       llvm::ArrayRef<const char*> subfolders,
                                       llvm::ArrayRef<const char*> sonames) {
  std::vector<std::string> files;
  for (const char* subfolder : subfolders) {
    for (const char* soname : sonames) {
      const std::string path = folder + subfolder + "/" + soname;
      struct stat info;
      if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) files.push_back(path);
    }
  }
  return files;
}

}  // namespace catenary
