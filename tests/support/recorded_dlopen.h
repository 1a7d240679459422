// SPDX-License-Identifier: Apache-2.0
// A dlopen() of the test program's own, which every layer calls: it keeps the names of what was
// opened. For one source file of a program.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace catenary::test {

struct OpenedLibraries {
  std::mutex mutex;
  std::vector<std::string> names;
};
inline OpenedLibraries& opened_libraries() {
  static OpenedLibraries& all = *new OpenedLibraries;
  return all;
}

// How many libraries with `part` in their name this program has tried to open.
inline size_t count_opened(const std::string& part) {
  OpenedLibraries& all = opened_libraries();
  const std::lock_guard lock(all.mutex);
  return static_cast<size_t>(std::ranges::count_if(
      all.names, [&](const std::string& name) { return name.find(part) != std::string::npos; }));
}

}  // namespace catenary::test

extern "C" void* dlopen(const char* name, int flags) noexcept {
  using Function = void* (*)(const char*, int);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "dlopen"));
  if (name != nullptr) {
    catenary::test::OpenedLibraries& all = catenary::test::opened_libraries();
    const std::lock_guard lock(all.mutex);
    all.names.emplace_back(name);
  }
  return real(name, flags);
}
