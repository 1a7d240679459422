// SPDX-License-Identifier: Apache-2.0
// Kernels for cache tests. All bytes of a kernel follow from its number, so a test can tell whether
// a cubin is the right one and complete.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/compile/key.h"
#include "ir/error.h"

namespace catenary::test {

inline KeyFields sample_fields(int number) {
  return {"body " + std::to_string(number), "digest", "sm_90a", "-std=c++20", "nvrtc 13.0.88 CL-1"};
}

struct Sample {
  explicit Sample(int number, size_t bytes = 3000)
      : key(kernel_key(sample_fields(number))), record(key_record(sample_fields(number))) {
    cubin = {
        "kern" + std::to_string(number), "sm_90a", "nvrtc 13.0.88 CL-1", {number, 1, 2, 3}, {}};
    u32 state = static_cast<u32>(number) * 2654435761u + 1;
    for (size_t i = 0; i < bytes; ++i) {
      state = state * 1664525u + 1013904223u;
      cubin.image.push_back(static_cast<u8>(state >> 24));
    }
  }
  KernelKey key;
  std::string record;
  Cubin cubin;
};

// The paths of the regular files below `folder`.
inline std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code none;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder, none)) {
    if (!file.is_directory()) files.push_back(file.path());
  }
  return files;
}

}  // namespace catenary::test
