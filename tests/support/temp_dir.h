// SPDX-License-Identifier: Apache-2.0
// A temporary folder for one test, mode 0700, removed with its content.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace catenary::test {

// In memory, for many small files, if the machine has /dev/shm and TMPDIR is unset.
inline std::string fast_folder() {
  const std::string memory = "/dev/shm";
  const bool usable = !std::getenv("TMPDIR") && ::access(memory.c_str(), W_OK | X_OK) == 0;
  return usable ? memory : std::filesystem::temp_directory_path().string();
}

class TempDir {
 public:
  explicit TempDir(const std::string& parent = std::filesystem::temp_directory_path()) {
    std::string pattern = parent + "/catenary-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Sets an environment variable for a scope; null: unsets it.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    const char* old = std::getenv(name);
    had_ = old != nullptr;
    if (had_) old_ = old;
    set(value);
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;
  ~ScopedEnv() { set(had_ ? old_.c_str() : nullptr); }

 private:
  void set(const char* value) {
    if (value) {
      ::setenv(name_, value, 1);
    } else {
      ::unsetenv(name_);
    }
  }
  const char* name_;
  std::string old_;
  bool had_ = false;
};

}  // namespace catenary::test
