// SPDX-License-Identifier: Apache-2.0
// Which GPU a command plans for or runs on, when the user does not say.
#pragma once

#include <string>

#include "compiler/target.h"

namespace catenary::tools {

// `text` as a target's name or arch; empty: the first device of this machine, else h200.
Expected<Target> choose_target(const std::string& text);

}  // namespace catenary::tools
