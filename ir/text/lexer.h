// SPDX-License-Identifier: Apache-2.0
// Text -> tokens of the text form, each with its position. Never fails: text that is no token ends
// the list as one kBad token, so that the parser reports the first error in the text. Keywords and
// grammar are the parser's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"

namespace catenary {

enum class TokenKind : u8 { kName, kNumber, kString, kPunctuation, kEnd, kBad };

// `text` points into the lexed text: the spelling, for a string without its quotes.
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  Location at;

  bool is(std::string_view punctuation) const {
    return kind == TokenKind::kPunctuation && text == punctuation;
  }
  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

struct Tokens {
  std::vector<Token> list;                 // ends with one kEnd or one kBad
  ErrorCode bad_code = ErrorCode::kParse;  // of the kBad token
  std::string bad_message;
};

Tokens lex(std::string_view text);

}  // namespace catenary
