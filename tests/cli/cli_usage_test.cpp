// SPDX-License-Identifier: Apache-2.0
// How the command is called: help, misspelt words, numbers, targets, chain files.
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;

TEST_CASE("help and version as words and as short options") {
  Command command;
  const std::string version = command("--version").out;
  CHECK(command("version").out == version);
  CHECK(command("-V").out == version);
  CHECK(command("help").out == command("--help").out);
  CHECK(has(command("help cache prune").out, "Usage: catenary cache prune"));
  CHECK(command("help cache prune").exit_code == 0);
  expect_error(command("help expalin"), 2, {"'expalin'", "did you mean 'explain'"});
  expect_error(command("help cache prnue"), 2, {"`catenary cache`", "did you mean 'prune'"});
}

TEST_CASE("a misuse names the word, the nearest known one and the help of its subcommand") {
  Command command;
  const std::string file = " " + chain("linear");
  expect_error(command("explain" + file + " --jsonn"), 2,
               {"'--jsonn' is not an option of `catenary explain`", "did you mean '--json'",
                "see `catenary explain --help`"});
  expect_error(command("explain --jsonn"), 2, {"did you mean '--json'"});
  expect_error(command("run --sede=3" + file), 2, {"'--sede'", "did you mean '--seed'"});
  // The beginning of one option, and a word with too few dashes; another word is no typing error.
  expect_error(command("explain --batch" + file), 2, {"did you mean '--batch-invariant'"});
  expect_error(command("explain -json" + file), 2, {"did you mean '--json'"});
  CHECK_FALSE(has(command("explain --optimise" + file).err, "did you mean"));
  expect_error(command("cache prnue"), 2, {"'prnue'", "did you mean 'prune'", "`catenary cache`"});
  expect_error(command("explain" + file + " second"), 2, {"'second' is one argument more"});
  expect_error(command("--foo"), 2, {"'--foo' is not an option of `catenary`"});
  expect_error(command("explain"), 2, {"required", "see `catenary explain --help`"});
  for (const char* flag : {"--json=yes", "--json=false", "--quiet=0"}) {
    expect_error(command(fmt::format("explain {}{}", flag, file)), 2, {"[invalid_argument]"});
  }
  expect_error(command("bench --case x"), 2, {"did you mean '--cases'", "[invalid_argument]"});
  expect_error(command("bench --list --cases none"), 2, {"catenary: error:", "'none'"});
}

TEST_CASE("an empty value is refused, and no default is taken for it") {
  Command command;
  const std::string file = " " + chain("linear");
  const auto refuses = [&](const std::string& line) {
    INFO(line);
    expect_error(command(line), 2, {"''", "see `catenary "});
  };
  for (const char* use : {"explain --target", "compile --arch", "compile -o", "compile --dump",
                          "run --dump", "check --pack", "pack build -o"}) {
    refuses(use + (" ''" + file));
  }
  for (const char* use : {"cache prune --max-size", "cache verify --recompile", "bench --out",
                          "bench --cases", "tune --output"}) {
    refuses(use + std::string(" ''"));
  }
  expect_error(command("explain ''"), 2, {"'' could not be read"});
}

TEST_CASE("numbers outside their range are refused by a rule that can be read") {
  Command command;
  const std::string file = " " + chain("scaled");
  expect_error(command("check --schedules 0" + file), 2,
               {"--schedules", "'0' is not a whole number from 1 to 1000000000"});
  expect_error(command("check --samples -3" + file), 2,
               {"'-3' is not a whole number of 1 or more"});
  expect_error(command("check --samples 1.5" + file), 2, {"'1.5' is not a whole number"});
  expect_error(command("run --symbol -2" + file), 2, {"--symbol", "0 or more"});
  expect_error(command("run --seed 18446744073709551616" + file), 2,
               {"'18446744073709551616' is not a whole number of 0 or more, below 2^64"});
  expect_error(command("check --samples 9223372036854775808" + file), 2, {"below 2^63"});
  expect_error(command("tune --top 65" + file), 2, {"1 to 64"});
  for (const char* name : {"run", "check", "tune", "cache prune", "bench"}) {
    INFO(name);
    const std::string help = command(fmt::format("help {}", name)).out;
    CHECK_FALSE(has(help, "e+308"));
    CHECK_FALSE(has(help, "797693"));
  }
}

TEST_CASE("other spellings of a target are suggested, and one default serves every subcommand") {
  Command command;
  const std::string file = " " + chain("linear");
  const std::string folder = command.path("out");
  const std::pair<const char*, const char*> spellings[] = {
      {"H200", "h200"},   {"'NVIDIA H100'", "h100"}, {"sm90", "sm_90a"},
      {"90", "sm_90a"},   {"9.0", "sm_90a"},         {"compute_80", "sm_80"},
      {"SM_89", "sm_89"}, {"RTX-4090", "rtx4090"},   {"sm_100", nullptr},
      {"h20", "h200"}};
  for (const auto& [given, meant] : spellings) {
    INFO(given);
    for (const std::string& use : {std::string("explain --target "), std::string("explain --arch "),
                                   "compile --emit source -o " + folder + " --arch "}) {
      const CommandResult result = command(use + given + file);
      if (meant == nullptr) {
        CHECK(result.exit_code == 0);
      } else {
        expect_error(result, 2, {fmt::format("did you mean '{}'", meant)});
      }
    }
  }
  // The digits of an arch in another name.
  CHECK_FALSE(has(command("explain --target v100" + file).err, "did you mean 'sm_100a'"));
  const auto planned = [&](const std::string& arch) {
    return command("compile --emit source -o " + folder + file + arch).out;
  };
  CHECK(has(planned(" --arch sm_90a"), "linear for sm_90a, planned for h200"));
  CHECK(has(planned(" --arch h100"), "planned for h100"));
  CHECK(has(planned(""), "planned for h200"));
  CHECK(command("explain --arch sm_90" + file).out == command("explain" + file).out);
}

TEST_CASE("each target of a list is one compile, and an empty name is refused") {
  Command command;
  const std::string file = " " + chain("linear");
  const std::string use = "compile --emit source -o " + command.path("out") + file + " --arch ";
  const CommandResult once = command(use + "sm_80,sm_90a,sm_80 --arch sm_90a");
  CHECK(once.exit_code == 0);
  for (const char* arch : {"linear for sm_80", "linear for sm_90a"}) {
    INFO(arch);
    REQUIRE(has(once.out, arch));
    CHECK(once.out.find(arch) == once.out.rfind(arch));
  }
  for (const char* list : {"sm_80,,sm_90a", "sm_80,", ",sm_80"}) {
    INFO(list);
    expect_error(command(use + list), 2,
                 {fmt::format("--arch '{}' has an empty name", list), "[invalid_argument]"});
  }
  expect_error(command("cache verify --recompile" + file + " --arch sm_80,"), 2,
               {"--arch 'sm_80,' has an empty name"});
}

TEST_CASE("errors about a chain name its file, also without a place in it") {
  Command command;
  std::ofstream(command.path("wide.chain"))
      << "chain wide(input x: f32[1000000, 8], weight w: f32[1000000, 8, 8], input e: i32[1000000])"
         " {\n  y = contract \"mk,emk->me\"(x, w)\n  return y: f32\n}\n";
  std::ofstream(command.path("two.chain"))
      << "chain two[M in 1..4, N in 1..8](input x: f32[M]) {\n  return x: f32\n}\n";
  std::ofstream(command.path("next.chain"))
      << "chain two[M in 1..4][N in 1..8](input x: f32[M]) {\n  return x: f32\n}\n";
  for (const char* name : {"wide.chain", "two.chain", "next.chain"}) {
    INFO(name);
    for (const char* use : {"explain ", "check --device ref "}) {
      expect_error(command(use + command.path(name)), 2, {command.path(name) + ":"});
    }
  }
  expect_error(command("explain " + command.path("two.chain")), 2, {"a chain has one symbol"});
  expect_error(command("explain " + command.path("next.chain")), 2, {"a chain has one symbol"});
  const std::string unsupported = command.path("spread.chain");
  std::ofstream(unsupported) << "chain spread(input x: f32[2, 3, 4, 5, 6, 7],"
                                " weight w: f32[4, 9, 6, 8, 2, 3]) {\n"
                                "  y = contract \"abcdef,cgehab->dfgh\"(x, w)\n"
                                "  return y: f32\n}\n";
  expect_error(command("explain " + unsupported + " --target a100"), 2,
               {unsupported + ":2:3: error: "});
}

TEST_CASE("a byte order mark before a chain is skipped, and no column counts it") {
  Command command;
  const std::string path = command.path("bom.chain");
  std::ofstream(path) << "\xef\xbb\xbf" << file_text(kChains + "linear.chain");
  CHECK(command("explain " + path).exit_code == 0);
  std::ofstream(path) << "\xef\xbb\xbf"
                      << "chian x";
  expect_error(command("explain " + path), 2, {"bom.chain:1:1: error: ", "\n  chian x\n  ^"});
}

TEST_CASE("sources are those of the plan that is asked for") {
  Command command;
  std::ofstream(command.path("row.chain"))
      << "chain row[M in 1..8](input x: bf16[M, 4096], weight w: bf16[2048, 4096]) {\n"
         "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16\n}\n";
  const auto sources = [&](const char* option) {
    const std::string folder = command.path(std::string("row") + option);
    const CommandResult made =
        command(fmt::format("compile --emit source --arch sm_90a {} -o {} {}",
                            command.path("row.chain"), folder, option));
    CHECK(made.exit_code == 0);
    std::set<std::string> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder))
      files.insert(file.path().filename());
    return files;
  };
  CHECK(sources("") != sources("--batch-invariant"));
}
