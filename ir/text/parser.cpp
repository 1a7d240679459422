// SPDX-License-Identifier: Apache-2.0
// parse(): tokens -> Chain. Resolves names to ids and names nested expressions; verify() decides
// whether the chain is valid.
#include "ir/text/parser.h"

#include <fmt/ranges.h>

#include <charconv>

#include "ir/default_numerics.h"

namespace catenary {
namespace {

std::string describe(const Token& token) {
  if (token.kind == TokenKind::kEnd) return "the end of the text";
  if (token.kind == TokenKind::kString) return fmt::format("the string {}", quoted(token.text));
  return quoted(token.text);
}

}  // namespace

bool Parser::accept(std::string_view punctuation) {
  if (!peek().is(punctuation)) return false;
  next();
  return true;
}

bool Parser::accept_name(std::string_view name) {
  if (!peek().is_name(name)) return false;
  next();
  return true;
}

Error Parser::expected(std::string_view what) const {
  const Token& token = peek();
  if (token.kind == TokenKind::kBad) {
    return make_error_text(tokens_.bad_code, tokens_.bad_message, token.at);
  }
  return make_error_at(token.at, ErrorCode::kParse, "expected {}, found {}", what, describe(token));
}

Error Parser::expect(std::string_view punctuation, std::string_view where) {
  if (accept(punctuation)) return Error::success();
  return expected(fmt::format("'{}' {}", punctuation, where));
}

Expected<Token> Parser::name(std::string_view what) {
  if (peek().kind != TokenKind::kName) return expected(what);
  return next();
}

Expected<i64> Parser::integer(std::string_view what) {
  const Token& token = peek();
  if (token.kind != TokenKind::kNumber ||
      token.text.find_first_of(".eE") != std::string_view::npos) {
    return expected(fmt::format("{} (a whole number)", what));
  }
  i64 result = 0;
  const auto [end, code] =
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), result);
  if (code != std::errc()) {
    return make_error_at(token.at, ErrorCode::kResourceLimit,
                         "{} {} does not fit in 64 bits: write a smaller number", what,
                         quoted(token.text));
  }
  next();
  return result;
}

Expected<double> Parser::number(std::string_view what) {
  const Token& token = peek();
  if (token.kind != TokenKind::kNumber) return expected(fmt::format("{} (a finite number)", what));
  double result = 0;
  const auto [end, code] =
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), result);
  if (code != std::errc()) {
    return make_error_at(token.at, ErrorCode::kParse,
                         "{} {} is outside the range of float64: write a finite number", what,
                         quoted(token.text));
  }
  next();
  return result;
}

Expected<char> Parser::label(std::string_view what) {
  const Token& token = peek();
  if (token.kind != TokenKind::kName || token.text.size() != 1) {
    return expected(fmt::format("{} (a label of one letter)", what));
  }
  return next().text[0];
}

Expected<Chain> Parser::run() {
  if (!accept_name("chain")) return expected("'chain'");
  auto chain_name = name("the chain's name");
  if (!chain_name) return chain_name.takeError();
  chain_.name = std::string(chain_name->text);
  if (peek().is("[")) {
    if (Error e = symbol()) return e;
    if (peek().is("[")) return expected("'(' (a chain has one symbol)");
  }
  if (Error e = words()) return e;
  if (Error e = parameters()) return e;
  if (Error e = body()) return e;
  if (peek().kind != TokenKind::kEnd) return expected("nothing after the chain's '}'");
  return std::move(chain_);
}

// The words after the name and the symbol, in any order, each at most once.
Error Parser::words() {
  while (peek().kind == TokenKind::kName) {
    const Token at = next();
    Expected<const ChainWord*> word = find_word(at.text);
    if (!word) {
      return make_error_at(at.at, ErrorCode::kParse, "{}", take_report(word.takeError()).message);
    }
    bool& given = chain_.words.*(*word)->member;
    if (given) {
      return make_error_at(at.at, ErrorCode::kParse, "word {} is given twice: keep one",
                           quoted(at.text));
    }
    given = true;
  }
  return Error::success();
}

Error Parser::symbol() {
  next();
  auto symbol_name = name("the name of the symbolic size");
  if (!symbol_name) return symbol_name.takeError();
  if (!accept_name("in")) return expected("'in' and a range such as 1..64");
  auto lo = integer("the lower bound of the symbolic size");
  if (!lo) return lo.takeError();
  if (Error e = expect("..", "between the bounds of the symbolic size")) return e;
  auto hi = integer("the upper bound of the symbolic size");
  if (!hi) return hi.takeError();
  chain_.symbol = Symbol{std::string(symbol_name->text), *lo, *hi};
  return expect("]", "after the range (a chain has one symbol: write other sizes as numbers)");
}

Error Parser::parameters() {
  if (Error e = expect("(", "before the chain's parameters")) return e;
  if (accept(")")) return Error::success();
  do {
    if (Error e = parameter()) return e;
  } while (accept(","));
  return expect(")", "or ',' after a parameter");
}

Error Parser::parameter() {
  Value value;
  if (accept_name("weight")) {
    value.role = Role::kWeight;
  } else if (accept_name("scalar")) {
    value.role = Role::kScalar;
  } else if (!accept_name("input")) {
    return expected("'input', 'weight' or 'scalar' before a parameter's name");
  }
  auto parameter_name = name("the parameter's name");
  if (!parameter_name) return parameter_name.takeError();
  if (Error e = expect(":", "and a type after the parameter's name")) return e;
  auto element = dtype();
  if (!element) return element.takeError();
  value.type.dtype = *element;
  if (Error e = shape(value.type)) return e;
  if (accept_name("packed")) value.type.packed = true;
  if (Error e = layout(value.type.strides, value.type.align)) return e;
  return define(*parameter_name, std::move(value));
}

Expected<DType> Parser::dtype() {
  auto token = name("a dtype such as bf16");
  if (!token) return token.takeError();
  const std::optional<DType> found = find_dtype(token->text);
  if (found) return *found;
  return make_error_at(
      token->at, ErrorCode::kParse,
      "unknown dtype {}: use bf16, f16, f32, e4m3, e5m2, for ragged ends i32, or for "
      "quantised weights i8, i4 or u4",
      quoted(token->text));
}

Error Parser::shape(TensorType& type) {
  if (!accept("[")) return Error::success();
  do {
    const Token& token = peek();
    if (token.kind != TokenKind::kName) {
      auto size = integer("a dimension's size");
      if (!size) return size.takeError();
      type.shape.push_back({*size, false});
    } else if (chain_.symbol && token.text == chain_.symbol->name) {
      next();
      type.shape.push_back({chain_.symbol->hi, true});
    } else {
      return make_error_at(token.at, ErrorCode::kParse,
                           "unknown size {}: write a number, or declare the chain's one symbolic "
                           "size as in 'chain c[M in 1..64](...)'",
                           quoted(token.text));
    }
  } while (accept(","));
  return expect("]", "or ',' after a dimension's size");
}

Error Parser::layout(llvm::SmallVectorImpl<i64>& strides, i64& align) {
  if (accept_name("strides")) {
    if (Error e = expect("[", "before the strides")) return e;
    do {
      auto stride = integer("a stride");
      if (!stride) return stride.takeError();
      strides.push_back(*stride);
    } while (accept(","));
    if (Error e = expect("]", "or ',' after a stride")) return e;
  }
  if (accept_name("align")) {
    auto bytes = integer("an alignment in bytes");
    if (!bytes) return bytes.takeError();
    align = *bytes;
  }
  return Error::success();
}

Expected<Chain> parse(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return make_error(ErrorCode::kResourceLimit,
                      "the text has {} bytes: a chain has at most {}, so split it", text.size(),
                      kMaxTextBytes);
  }
  const DefaultNumerics numerics;
  return Parser(lex(text)).run();
}

}  // namespace catenary
