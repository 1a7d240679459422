// SPDX-License-Identifier: Apache-2.0
// Identifiers, quoting of user text in messages, and the nearest known name of a misspelt one.
// Shared by the text form and the verifier.
#pragma once

#include <string>
#include <string_view>

#include "llvm/ADT/ArrayRef.h"

namespace catenary {

// [A-Za-z_][A-Za-z0-9_]*, of any length. Names reach generated source, hence ASCII only.
bool is_identifier(std::string_view text);

inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_name_byte(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// `text` with every byte outside printable ASCII as \xNN.
std::string escaped(std::string_view text);

// escaped(text) in single quotes, truncated to 64 bytes: safe in any message.
std::string quoted(std::string_view text);

// The candidate with the least edit distance, if it is near: at most a third of the letters differ,
// or a single one, or two neighbours are swapped. Else the only one that begins with `text`, or "".
std::string_view nearest_name(std::string_view text, llvm::ArrayRef<std::string_view> candidates);

// " (did you mean 'relu'?)" for the nearest name, or "".
std::string suggestion(std::string_view text, llvm::ArrayRef<std::string_view> candidates);

}  // namespace catenary
