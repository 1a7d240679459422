// SPDX-License-Identifier: Apache-2.0
// The text form (.chain). parse(print(c)) == c for every chain whose names are identifiers.
#pragma once

#include <string>
#include <string_view>

#include "ir/chain.h"

namespace catenary {

// Text of at most kMaxTextBytes -> Chain. Errors are kParse (or kResourceLimit) with line and
// column, both 1-based; columns count bytes.
Expected<Chain> parse(std::string_view text);

// Canonical text: one value per line, no nested expressions, no comments.
std::string print(const Chain& chain);

// "file:3:14: error: ..." followed by the line and a caret. Without a position: the message.
std::string render_error(const ErrorReport& report, std::string_view file, std::string_view text);

}  // namespace catenary
