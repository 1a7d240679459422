// SPDX-License-Identifier: Apache-2.0
// Runs the built `catenary` command: exit code, stdout and stderr.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace catenary::test {

struct CommandResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
};

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// `program` with `arguments` (in shell syntax) and `environment` ("NAME=value ..."). The cache is
// in `folder`; no device is visible.
inline CommandResult run_command(const std::string& program, const TempDir& folder,
                                 const std::string& arguments,
                                 const std::string& environment = "") {
  const std::string line =
      fmt::format("CATENARY_CACHE_DIR='{}' CUDA_VISIBLE_DEVICES= {} '{}' {} 2>'{}'",
                  folder / "cache", environment, program, arguments, folder / "stderr");
  std::FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  CommandResult result;
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) {
    result.out.append(buffer, got);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.err = file_text(folder / "stderr");
  return result;
}

}  // namespace catenary::test
