// SPDX-License-Identifier: Apache-2.0
// The default target of a command.
#pragma once

#include <string>

#include "compiler/target.h"

namespace catenary::tools {

// The target with name or architecture `text`; empty: the first GPU of this machine, else
// default_target().
Expected<Target> choose_target(const std::string& text);

}  // namespace catenary::tools
