// SPDX-License-Identifier: Apache-2.0
// The built `catenary` command in a folder of its own, and what its tests expect of errors.
#pragma once

#include <initializer_list>
#include <string>

#include "tests/support/command.h"

namespace catenary::test {

inline const std::string kChains = std::string(CATENARY_SOURCE_DIR) + "/tests/chains/";

inline std::string chain(const char* name) { return fmt::format("'{}{}.chain'", kChains, name); }

class Command {
 public:
  CommandResult operator()(const std::string& arguments, const std::string& environment = "") {
    return run_command(CATENARY_COMMAND, folder_, arguments, environment);
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

 private:
  TempDir folder_;
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Checks the exit code, one line on stderr with all `parts`, and no success on stdout.
inline void expect_error(const CommandResult& result, int exit_code,
                         std::initializer_list<std::string> parts) {
  INFO("stderr: ", result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(has(result.err, "error: "));
  CHECK_FALSE(has(result.err, "terminate"));
  for (const std::string& part : parts) {
    INFO("wanted: ", part);
    CHECK(has(result.err, part));
  }
}

// An environment without a host compiler, so that nothing runs in the simulator.
inline constexpr const char* kNoCompiler = "CATENARY_CXX=/nonexistent/cxx";

inline bool host_compiler_found(Command& command) {
  const bool found = !has(command("doctor").out, "simulator missing");
  if (!found) MESSAGE("skipped: no host compiler");
  return found;
}

}  // namespace catenary::test
