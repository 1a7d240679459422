// SPDX-License-Identifier: Apache-2.0
// Completions of the command for shells, generated from its commands and options.
#pragma once

#include <string>

#include "tools/command_tree.h"

namespace catenary::tools {

// A script that is sourced, or put where the shell looks for completions.
std::string bash_completion(const CommandFacts& root);
std::string zsh_completion(const CommandFacts& root);
std::string fish_completion(const CommandFacts& root);

}  // namespace catenary::tools
