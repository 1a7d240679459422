// SPDX-License-Identifier: Apache-2.0
// A cache whose warnings and compiles are counted, and access to its files.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cache/cache.h"
#include "runtime/cache/cache_directory.h"
#include "tests/support/cache_samples.h"
#include "tests/support/faulty_files.h"

namespace catenary::test {

// A cache in a folder of its own; collects its warnings.
struct Fixture {
  explicit Fixture(const std::string& directory, CacheMode mode = CacheMode::kReadWrite,
                   FileSystem* own = nullptr)
      : cache({.directory = directory,
               .mode = mode,
               .warn = [this](const std::string& text) { warnings.push_back(text); },
               .file_system = own ? own : &files}) {}

  std::shared_ptr<const Cubin> get(const Sample& sample) {
    auto got = cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> {
      ++compiles;
      return sample.cubin;
    });
    if (!got) FAIL(take_report(got.takeError()).message);
    return *got;
  }
  bool warned_of(const std::string& part) const {
    for (const std::string& text : warnings) {
      if (text.find(part) != std::string::npos) return true;
    }
    return false;
  }

  FaultyFiles files;  // no call fails; fsync does nothing
  std::vector<std::string> warnings;
  int compiles = 0;
  CubinCache cache;
};

inline std::string entry_path(const std::string& folder, const Sample& sample) {
  return folder + "/v1/" + CacheDirectory::entry_name(sample.key);
}

inline std::vector<u8> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::vector<u8>& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
}

}  // namespace catenary::test
