// SPDX-License-Identifier: Apache-2.0
// The targets that a command names, and its default target.
#pragma once

#include <string>
#include <vector>

#include "compiler/target.h"

namespace catenary::tools {

// The target with name or architecture `text`; empty: the first GPU of this machine, else
// default_target().
Expected<Target> choose_target(const std::string& text);

// The names in the values of --arch, which separate them by commas; each once.
// kInvalidArgument: one is empty.
Expected<std::vector<std::string>> target_names(llvm::ArrayRef<std::string> values);

}  // namespace catenary::tools
