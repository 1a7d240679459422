// SPDX-License-Identifier: Apache-2.0
// The commands, options and arguments of a CLI11 application as plain facts, for what is generated
// from them: completions and the man page.
#pragma once

#include <string>
#include <vector>

#include "shared/int.h"

namespace CLI {
class App;
}

namespace catenary::tools {

// What a shell offers as a value. An option says it by its type name: kChainFile, kFile, kFolder,
// kTarget, kBinding.
enum class ValueKind : u8 { kNone, kAny, kWord, kChain, kFile, kFolder };

inline constexpr const char* kChainFile = "CHAIN";
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kFolder = "FOLDER";
inline constexpr const char* kTarget = "TARGET";          // a name or an arch of targets.def
inline constexpr const char* kBinding = "NAME=FILE.npy";  // completed after its =

struct OptionFacts {
  std::vector<std::string> names;  // "--json", "-q"; of an argument: "file"
  std::string description;
  std::string value;  // "TARGET"; empty: a flag
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> words;  // of kWord
  bool list = false;               // values separated by commas
  bool repeats = false;            // may be given several times
  bool required = false;
};

struct CommandFacts {
  std::string name;  // "prune"
  std::string path;  // "catenary cache prune"
  std::string description;
  std::vector<OptionFacts> options;
  std::vector<OptionFacts> arguments;
  std::vector<CommandFacts> commands;
};

// Hidden commands and options are left out.
CommandFacts command_tree(const CLI::App& app);

// Calls `visit` for the command and all below it, parents first.
template <typename Visit>
void for_each_command(const CommandFacts& command, const Visit& visit) {
  visit(command);
  for (const CommandFacts& child : command.commands) for_each_command(child, visit);
}

}  // namespace catenary::tools
