// SPDX-License-Identifier: Apache-2.0
// Completions and the man page are made from the commands: bash's are run; those of other shells
// are checked by the shell where it is installed, and hold every option of every subcommand.
#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;

namespace {

// Runs a script; the words of its output are sorted.
std::set<std::string> words_of(const std::string& program, const TempDir& folder,
                               const std::string& arguments) {
  const CommandResult result = run_command(program, folder, arguments);
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  std::istringstream stream(result.out);
  std::set<std::string> words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

// What bash offers at the end of a line: the words are separated by blanks, as readline would
// separate them.
class Bash {
 public:
  Bash() {
    Command command;
    std::ofstream(folder_ / "completion") << command("completion bash").out;
    std::ofstream(folder_ / "layer.chain") << "";
    std::ofstream(folder_ / "notes.txt") << "";
    std::filesystem::create_directory(folder_ / "kernels");
  }

  std::set<std::string> operator()(const std::string& line) {
    std::ofstream(folder_ / "try.sh") << fmt::format(
        "cd '{}'; source ./completion\nCOMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        "_catenary\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        folder_.path(), line);
    return words_of("/bin/bash", folder_, folder_ / "try.sh");
  }

 private:
  TempDir folder_;
};

using Words = std::set<std::string>;

bool installed(const char* program) {
  return std::system(fmt::format("command -v {} > /dev/null", program).c_str()) == 0;
}

// The words of a help text that start like an option, and the subcommands.
struct Help {
  std::set<std::string> options;
  std::vector<std::string> commands;
};

Help help_of(Command& command, const std::string& path) {
  const CommandResult result = command("help " + path);
  REQUIRE(result.exit_code == 0);
  Help help;
  std::istringstream lines(result.out);
  bool commands = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] != ' ') commands = line == "Subcommands:";
    if (line.size() < 3 || line.substr(0, 2) != "  " || line[2] == ' ') continue;
    const std::string first = line.substr(2, line.find(' ', 2) - 2);
    if (commands) help.commands.push_back(first);
    if (first[0] != '-') continue;
    std::istringstream names(first);
    for (std::string name; std::getline(names, name, ',');) help.options.insert(name);
  }
  return help;
}

// Calls `visit(path, help)` for every command: "", "check", "cache prune".
template <typename Visit>
void for_each_command(Command& command, const std::string& path, const Visit& visit) {
  const Help help = help_of(command, path);
  visit(path, help);
  for (const std::string& child : help.commands) {
    for_each_command(command, path.empty() ? child : path + " " + child, visit);
  }
}

}  // namespace

TEST_CASE("bash completes subcommands, options, values and files") {
  Bash bash;
  CHECK(bash("catenary ch") == Words{"check"});
  CHECK(bash("catenary cache ''").count("prune") == 1);
  CHECK(bash("catenary cache pr") == Words{"prune"});
  CHECK(bash("catenary check --sch") == Words{"--schedules"});
  CHECK(bash("catenary cache prune --max") == Words{"--max-size"});
  CHECK(bash("catenary check layer.chain --device ''") == Words{"cuda", "ref", "sim"});
  CHECK(bash("catenary check --device = s") == Words{"sim"});
  CHECK(bash("catenary check --device =") == Words{"cuda", "ref", "sim"});
  CHECK(bash("catenary explain --target h2") == Words{"h200"});
  CHECK(bash("catenary explain --arch sm_90") == Words{"sm_90a"});
  CHECK(bash("catenary compile --arch sm_80,sm_90") == Words{"sm_80,sm_90a"});
  CHECK(bash("catenary compile --emit source,c") == Words{"source,cubin"});
  CHECK(bash("catenary check ''") == Words{"kernels", "layer.chain"});
  CHECK(bash("catenary compile -o ''") == Words{"kernels"});
  CHECK(bash("catenary run --input x = no") == Words{"notes.txt"});
  CHECK(bash("catenary tune --output no") == Words{"notes.txt"});
  CHECK(bash("catenary completion f") == Words{"fish"});
  CHECK(bash("catenary help ca") == Words{"cache"});
  CHECK(bash("catenary check --seed ''").empty());
  CHECK(bash("catenary --ver") == Words{"--version"});
}

TEST_CASE("every option of every subcommand is in all completions and in the man page") {
  Command command;
  Bash bash;
  const std::string zsh = command("completion zsh").out;
  const std::string fish = command("completion fish").out;
  const std::string man = command("man").out;
  int options = 0;
  for_each_command(command, "", [&](const std::string& path, const Help& help) {
    INFO("catenary ", path);
    const std::set<std::string> offered = bash(fmt::format("catenary {} -", path));
    const std::string full = path.empty() ? "catenary" : "catenary " + path;
    std::string function = "_" + full;
    std::replace(function.begin(), function.end(), ' ', '_');
    const size_t begin = zsh.find(function + "() {");
    REQUIRE(begin != std::string::npos);
    const std::string body = zsh.substr(begin, zsh.find("\n}\n", begin) - begin);
    for (const std::string& option : help.options) {
      INFO(option);
      ++options;
      CHECK(offered.count(option) == 1);
      CHECK((has(body, "'" + option) || has(body, "'*" + option)));
      const std::string name =
          option.substr(0, 2) == "--" ? " -l " + option.substr(2) : " -s " + option.substr(1);
      bool found = false;
      std::istringstream lines(fish);
      for (std::string line; std::getline(lines, line);) {
        found |= has(line, "'__catenary_at " + full + "'") && has(line + " ", name + " ");
      }
      CHECK(found);
      std::string escaped;
      for (const char c : option) escaped += c == '-' ? "\\-" : std::string(1, c);
      if (!path.empty()) CHECK(has(man, "\\fB" + escaped + "\\fR"));
    }
    CHECK(offered.size() == help.options.size());
  });
  CHECK(options > 60);
}

TEST_CASE("the shells and groff accept what is generated") {
  Command command;
  TempDir folder;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    std::ofstream(folder / shell) << command("completion " + shell).out;
    if (!installed(shell.c_str())) {
      MESSAGE("skipped: no " << shell);
      continue;
    }
    const std::string check =
        fmt::format("{} -n '{}' > '{}' 2>&1", shell, folder / shell, folder / "log");
    CHECK_MESSAGE(std::system(check.c_str()) == 0, file_text(folder / "log"));
  }
  std::ofstream(folder / "catenary.1") << command("man").out;
  if (!installed("groff")) {
    MESSAGE("skipped: no groff");
    return;
  }
  const std::string render = fmt::format("groff -man -Tutf8 -ww -rCHECKSTYLE=3 '{}' > '{}' 2> '{}'",
                                         folder / "catenary.1", folder / "text", folder / "log");
  CHECK(std::system(render.c_str()) == 0);
  CHECK(file_text(folder / "log") == "");
  CHECK(has(file_text(folder / "text"), "cache prune"));
}
