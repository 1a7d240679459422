// SPDX-License-Identifier: Apache-2.0
// What the command says about its own use: help, version, and one sentence per misuse.
#pragma once

#include <string>

#include "ir/error.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace catenary::tools {

// Adds the subcommands `help` and `version`.
void add_help(CLI::App& app);

// Makes an empty value of any option an error of usage: it comes from an unset variable of a script
// more often than it is meant, and the default would be used in its place. Call it after all
// subcommands are added.
void refuse_empty_values(CLI::App& app);

// The text that `--help`, `--version` and the like print.
std::string information(const CLI::App& app, const CLI::ParseError& request);

// kInvalidArgument: the first unknown option, subcommand or argument with the nearest known one,
// else the words of `error`; and the `--help` of the subcommand that was used.
Error usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace catenary::tools
