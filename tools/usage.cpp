// SPDX-License-Identifier: Apache-2.0
#include "tools/usage.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "ir/names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::tools {
namespace {

// The subcommand that the words led to, and how it is called: "catenary cache prune".
struct Used {
  const CLI::App* command;
  std::string name;
};

Used used_command(const CLI::App& app) {
  Used used{&app, app.get_name()};
  while (!used.command->get_subcommands().empty()) {
    used.command = used.command->get_subcommands().front();
    used.name += " " + used.command->get_name();
  }
  return used;
}

std::vector<std::string_view> subcommand_names(const CLI::App& app) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());  // not a hidden one
  }
  return names;
}

// " (did you mean '--json'?)" for an option, or "". Dashes are no letters of a name.
std::string option_suggestion(const CLI::App& command, llvm::StringRef option) {
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options()) {
    names.insert(names.end(), known->get_lnames().begin(), known->get_lnames().end());
  }
  const llvm::StringRef word = option.ltrim('-');
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view name = nearest_name({word.data(), word.size()}, candidates);
  return name.empty() ? "" : fmt::format(" (did you mean '--{}'?)", name);
}

// One sentence about a word that no option and no subcommand takes; empty: it is not known which.
std::string unknown_word(const Used& used, const std::string& word) {
  const std::string option = word.substr(0, word.find('='));
  if (word.size() > 1 && word[0] == '-') {
    return fmt::format("{} is not an option of `{}`{}", catenary::quoted(option), used.name,
                       option_suggestion(*used.command, option));
  }
  const std::vector<std::string_view> names = subcommand_names(*used.command);
  if (!names.empty()) {
    return fmt::format("{} is not a subcommand of `{}`{}: use one of {}", catenary::quoted(word),
                       used.name, suggestion(word, names), fmt::join(names, ", "));
  }
  return fmt::format("{} is one argument more than `{}` takes", catenary::quoted(word), used.name);
}

// The words that `command` could not use, in order.
std::vector<std::string> unused_words(const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  llvm::erase_value(words, "--");
  return words;
}

}  // namespace

void add_help(CLI::App& app) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* help = app.add_subcommand("help", "Print the help of the command or of a subcommand");
  help->add_option("subcommand", *words, "As in `catenary help cache prune`");
  help->callback([&app, words] {
    const CLI::App* command = &app;
    std::string name = app.get_name();
    for (const std::string& word : *words) {
      const auto known = command->get_subcommands({});
      const auto found = llvm::find_if(
          known, [&](const CLI::App* candidate) { return candidate->get_name() == word; });
      if (found == known.end()) throw CLI::ValidationError(unknown_word({command, name}, word));
      command = *found;
      name += " " + word;
    }
    // App::help() of a parent would print that of this subcommand.
    throw CLI::CallForHelp(
        app.get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal),
        CLI::ExitCodes::Success);
  });
  app.add_subcommand("version", "Print the version")->callback([] {
    throw CLI::CallForVersion("catenary " CATENARY_VERSION, CLI::ExitCodes::Success);
  });
}

void refuse_empty_values(CLI::App& app) {
  const CLI::Validator not_empty(
      [](std::string& value) {
        return value.empty() ? "'' is empty: give a value, or leave the option out" : std::string();
      },
      "");
  for (CLI::Option* option : app.get_options()) {
    if (option->nonpositional() && option->get_items_expected_max() > 0) option->check(not_empty);
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

std::string information(const CLI::App& app, const CLI::ParseError& request) {
  // The text of a `help` subcommand; CLI11 gives a --help no text of its own.
  const std::string text = request.what();
  if (request.get_name() == "CallForHelp" && text.find('\n') != std::string::npos) return text;
  std::ostringstream out;
  app.exit(request, out, out);
  return out.str();
}

Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const Used used = used_command(app);
  const std::vector<std::string> words = unused_words(*used.command);
  const std::string problem = words.empty() ? error.what() : unknown_word(used, words.front());
  return make_error(ErrorCode::kInvalidArgument, "{}; see `{} --help`", escaped(problem),
                    used.name);
}

}  // namespace catenary::tools
