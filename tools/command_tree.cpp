// SPDX-License-Identifier: Apache-2.0
#include "tools/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "compiler/target.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::tools {
namespace {

std::vector<std::string> target_words() {
  std::vector<std::string> words;
  for (const Target& target : all_targets()) {
    for (const std::string& word : {target.name, target.arch}) {
      if (!llvm::is_contained(words, word)) words.push_back(word);
    }
  }
  return words;
}

// The values that CLI::IsMember allows: its description is "{cuda,sim,ref}".
std::vector<std::string> member_words(llvm::StringRef type) {
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  if (close == llvm::StringRef::npos) return {};
  llvm::SmallVector<llvm::StringRef, 8> parts;
  type.slice(open + 1, close).split(parts, ',');
  std::vector<std::string> words;
  for (llvm::StringRef part : parts) words.push_back(part.str());
  return words;
}

void set_value(const CLI::Option& option, OptionFacts& facts) {
  if (option.get_items_expected_max() == 0) return;  // a flag
  // "TEXT:{cuda,sim,ref}": the type and the description of each check.
  const std::string type = option.get_type_name();
  facts.value = type.substr(0, type.find(':'));
  facts.words = facts.value == kTarget ? target_words() : member_words(type);
  facts.kind = !facts.words.empty()                              ? ValueKind::kWord
               : facts.value == kChainFile                       ? ValueKind::kChain
               : facts.value == kFile || facts.value == kBinding ? ValueKind::kFile
               : facts.value == kFolder                          ? ValueKind::kFolder
                                                                 : ValueKind::kAny;
  facts.repeats = option.get_items_expected_max() > 1;
  // target_names() takes apart the values of an option with several targets.
  facts.list = option.get_delimiter() != '\0' || (facts.value == kTarget && facts.repeats);
}

OptionFacts option_facts(const CLI::Option& option) {
  OptionFacts facts;
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  facts.description = option.get_description();
  facts.required = option.get_required();
  set_value(option, facts);
  if (facts.names.empty()) facts.names.push_back(option.get_name());
  return facts;
}

CommandFacts command_facts(const CLI::App& app, const std::string& path) {
  CommandFacts facts;
  facts.name = app.get_name();
  facts.path = path;
  facts.description = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    auto& list = option->nonpositional() ? facts.options : facts.arguments;
    list.push_back(option_facts(*option));
  }
  for (const CLI::App* child : app.get_subcommands({})) {
    if (child->get_group().empty()) continue;
    facts.commands.push_back(command_facts(*child, path + " " + child->get_name()));
  }
  return facts;
}

}  // namespace

CommandFacts command_tree(const CLI::App& app) {
  CommandFacts root = command_facts(app, app.get_name());
  // `help` takes the name of any command.
  const auto help = llvm::find_if(root.commands, [](const auto& c) { return c.name == "help"; });
  if (help == root.commands.end() || help->arguments.empty()) return root;
  OptionFacts& word = help->arguments.front();
  word.kind = ValueKind::kWord;
  for (const CommandFacts& command : root.commands) word.words.push_back(command.name);
  return root;
}

}  // namespace catenary::tools
