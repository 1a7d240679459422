// SPDX-License-Identifier: Apache-2.0
#include "ir/text/lexer.h"

#include "ir/names.h"
#include "ir/types.h"

namespace catenary {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // editors write it before UTF-8

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {
    if (text.starts_with(kByteOrderMark)) position_ = line_start_ = kByteOrderMark.size();
  }

  Tokens run() {
    while (!done_) next();
    return std::move(tokens_);
  }

 private:
  char at(size_t offset) const { return offset < text_.size() ? text_[offset] : '\0'; }

  Location place(size_t offset) const {
    return {line_, static_cast<int>(offset - line_start_) + 1};
  }

  void push(TokenKind kind, size_t begin, size_t end) {
    tokens_.list.push_back({kind, text_.substr(begin, end - begin), place(begin)});
    position_ = end;
  }

  void bad(size_t offset, ErrorCode code, std::string message) {
    tokens_.list.push_back({TokenKind::kBad, {}, place(offset)});
    tokens_.bad_code = code;
    tokens_.bad_message = std::move(message);
    done_ = true;
  }

  void skip_blanks() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '\n') {
        ++line_;
        line_start_ = ++position_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++position_;
      } else if (c == '#' || (c == '/' && at(position_ + 1) == '/')) {
        position_ = std::min(text_.find('\n', position_), text_.size());
      } else {
        return;
      }
    }
  }

  void next() {
    skip_blanks();
    if (position_ == text_.size()) {
      push(TokenKind::kEnd, position_, position_);
      done_ = true;
      return;
    }
    const char c = text_[position_];
    const bool dot = c == '.';
    if (dot && at(position_ + 1) == '.')
      return push(TokenKind::kPunctuation, position_, position_ + 2);
    if (is_letter(c) || c == '_') return name();
    if (is_digit(c) || dot || c == '-') return number();
    if (c == '"') return string();
    if (std::string_view("()[]{},:=@").find(c) != std::string_view::npos) {
      return push(TokenKind::kPunctuation, position_, position_ + 1);
    }
    bad(position_, ErrorCode::kParse,
        fmt::format("{} is not part of the text form: {}", quoted({&c, 1}), instead_of(c)));
  }

  // What to do about a character that begins no token.
  static std::string instead_of(char c) {
    const char* op = c == '+' ? "add" : c == '*' ? "mul" : c == '/' ? "div" : nullptr;
    return op != nullptr ? fmt::format("write {}(a, b)", op) : "remove it";
  }

  void name() {
    size_t end = position_;
    while (is_name_byte(at(end))) ++end;
    if (end - position_ > kMaxNameBytes) {
      return bad(position_, ErrorCode::kResourceLimit,
                 fmt::format("name {} has {} bytes: shorten it to at most {}",
                             quoted(text_.substr(position_, end - position_)), end - position_,
                             kMaxNameBytes));
    }
    push(TokenKind::kName, position_, end);
  }

  size_t skip_digits(size_t offset) const {
    while (is_digit(at(offset))) ++offset;
    return offset;
  }

  void number() {
    const size_t whole = position_ + (text_[position_] == '-' ? 1 : 0);
    size_t end = skip_digits(whole);
    size_t digits = end - whole;
    if (at(end) == '.' && at(end + 1) != '.') {  // two dots are a range: "0..64"
      const size_t fraction = end + 1;
      end = skip_digits(fraction);
      digits += end - fraction;
    }
    if (digits == 0) {
      return bad(position_, ErrorCode::kParse,
                 fmt::format("{} is not a number: write a finite number in digits, such as -1.5",
                             quoted(text_.substr(position_, 1))));
    }
    if (at(end) == 'e' || at(end) == 'E') {
      const size_t exponent = end + (at(end + 1) == '+' || at(end + 1) == '-' ? 2 : 1);
      if (is_digit(at(exponent))) end = skip_digits(exponent);
    }
    if (is_name_byte(at(end))) {
      while (is_name_byte(at(end))) ++end;
      return bad(
          position_, ErrorCode::kParse,
          fmt::format("{} is neither a number nor a name: a name begins with a letter or '_'",
                      quoted(text_.substr(position_, end - position_))));
    }
    push(TokenKind::kNumber, position_, end);
  }

  void string() {
    const size_t begin = position_ + 1;
    const size_t end = text_.find_first_of("\"\n", begin);
    if (end == std::string_view::npos || text_[end] != '"') {
      return bad(position_, ErrorCode::kParse,
                 "the string that begins here has no end: close it with '\"' on the same line");
    }
    tokens_.list.push_back(
        {TokenKind::kString, text_.substr(begin, end - begin), place(position_)});
    position_ = end + 1;
  }

  std::string_view text_;
  size_t position_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  bool done_ = false;
  Tokens tokens_;
};

}  // namespace

Tokens lex(std::string_view text) { return Lexer(text).run(); }

}  // namespace catenary
