// SPDX-License-Identifier: Apache-2.0
// catenary(1), made from the commands and their help.
#pragma once

#include <string>

#include "tools/command_tree.h"

namespace catenary::tools {

// In the man macros of groff (groff_man(7)).
std::string man_page(const CommandFacts& root);

}  // namespace catenary::tools
