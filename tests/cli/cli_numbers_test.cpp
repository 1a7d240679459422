// SPDX-License-Identifier: Apache-2.0
// Numbers on the command line: every option that takes one, as --help lists them, refuses what is
// no whole number of its range; scalars are numbers of float32.
#include <regex>

#include "tests/support/command.h"

using catenary::test::CommandResult;
using catenary::test::TempDir;

namespace {

const std::string kScaled = fmt::format("'{}/tests/chains/scaled.chain'", CATENARY_SOURCE_DIR);

struct NumberOption {
  std::string command;
  std::string option;
};

class Command {
 public:
  CommandResult operator()(const std::string& arguments) {
    return catenary::test::run_command(CATENARY_COMMAND, folder_, arguments);
  }

 private:
  TempDir folder_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The options that --help of `command` shows with a number's type.
std::vector<NumberOption> number_options(Command& run, const std::string& command) {
  const std::string help = run(command + " --help").out;
  static const std::regex kOption("(--[a-z-]+) (INT|UINT|FLOAT)\\b");
  std::vector<NumberOption> found;
  for (std::sregex_iterator it(help.begin(), help.end(), kOption), end; it != end; ++it) {
    found.push_back({command, (*it)[1].str()});
  }
  return found;
}

}  // namespace

TEST_CASE("every option that is a number refuses what is none") {
  Command run;
  std::vector<NumberOption> options;
  for (const char* command :
       {"explain", "compile", "run", "check", "gradient", "bench", "tune", "cache prune"}) {
    for (NumberOption& option : number_options(run, command)) options.push_back(std::move(option));
  }
  CHECK(options.size() >= 14);
  for (const auto& [command, option] : options) {
    const bool has_file =
        command == "run" || command == "check" || command == "gradient" || command == "tune";
    for (const char* value : {"-1", "99999999999999999999", "18446744073709551616", "1e3", "0x10",
                              "1.5", "7x", "' 7'", "inf"}) {
      const std::string line =
          fmt::format("{} {}={} {}", command, option, value, has_file ? kScaled : "");
      INFO(line);
      const CommandResult result = run(line);
      INFO(result.err);
      CHECK(result.exit_code == 2);
      CHECK(has(result.err, option));
      CHECK(has(result.err, "not a "));
    }
  }
}

TEST_CASE("a number with leading zeros is decimal") {
  Command run;
  const CommandResult result = run("run --device ref --symbol 08 " + kScaled);
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(has(result.out, "f32[8, 12]"));
}

TEST_CASE("the largest seed is taken, and a schedule beyond it is refused") {
  Command run;
  const std::string check = "check --device ref --seed 18446744073709551615 " + kScaled;
  CHECK(run(check).exit_code == 0);
  const CommandResult sim =
      run("check --device sim --schedules 2 --seed 18446744073709551615 " + kScaled);
  INFO(sim.err);
  CHECK(sim.exit_code != 0);
  CHECK((has(sim.err, "beyond 64 bits") || has(sim.err, "host_compiler_missing")));
}

TEST_CASE("scalars are numbers of float32") {
  Command run;
  const std::string line = "run --device ref " + kScaled + " --input alpha=";
  for (const char* value : {"1e400", "-1e39", "1e-400", "3.5e38"}) {
    INFO(value);
    const CommandResult result = run(line + value);
    CHECK(result.exit_code == 2);
    CHECK(has(result.err, value));
    CHECK(has(result.err, "range of float32"));
  }
  for (const char* value : {"1,5", "1.5x", "0x10", "1e", "--1", "+-1", "++1", "+-inf", "+"}) {
    INFO(value);
    const CommandResult result = run(line + value);
    CHECK(result.exit_code == 2);
    CHECK(has(result.err, "give a number"));
  }
  for (const char* value : {"1.5", "+2", "-0", "inf", "nan", "1e-40", ".5"}) {
    INFO(value);
    CHECK(run(line + value).exit_code == 0);
  }
}

TEST_CASE("sizes have units of 1024") {
  Command run;
  for (const char* value : {"4096", "64MiB", "1G", "2kb", "0", "7b"}) {
    INFO(value);
    const CommandResult result = run(fmt::format("cache prune --max-size {}", value));
    INFO(result.err);
    CHECK(result.exit_code == 0);
  }
  for (const char* value :
       {"-1", "1e3", "8E", "9223372036854775808", "1.5G", "5q", "MiB", "1GiBs"}) {
    INFO(value);
    const CommandResult result = run(fmt::format("cache prune --max-size={}", value));
    CHECK(result.exit_code == 2);
    CHECK(has(result.err, "--max-size"));
  }
}
