// SPDX-License-Identifier: Apache-2.0
// The parser of the text form. Private to parser.cpp (tokens, parameters and types) and
// parse_values.cpp (statements, calls, outputs).
#pragma once

#include "ir/names.h"
#include "ir/text/lexer.h"
#include "ir/text/text.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace catenary {

inline llvm::StringRef as_ref(std::string_view text) { return {text.data(), text.size()}; }

// Recursive descent, one function per rule of the grammar in ir/README.md.
class Parser {
 public:
  explicit Parser(Tokens tokens) : tokens_(std::move(tokens)) {
    for (const Token& token : tokens_.list) {
      if (token.kind == TokenKind::kName) taken_.insert(as_ref(token.text));
    }
  }

  Expected<Chain> run();

 private:
  // Tokens. The list ends with kEnd or kBad, and next() does not go past it.
  const Token& peek(size_t ahead = 0) const {
    return tokens_.list[std::min(position_ + ahead, tokens_.list.size() - 1)];
  }
  const Token& next() { return tokens_.list[std::min(position_++, tokens_.list.size() - 1)]; }
  bool accept(std::string_view punctuation);
  bool accept_name(std::string_view name);
  Error expected(std::string_view what) const;
  Error expect(std::string_view punctuation, std::string_view where);
  Expected<Token> name(std::string_view what);
  Expected<i64> integer(std::string_view what);
  Expected<double> number(std::string_view what);
  Expected<char> label(std::string_view what);

  // Types.
  Error words();
  Error symbol();
  Error parameters();
  Error parameter();
  Expected<DType> dtype();
  Error shape(TensorType& type);
  Error layout(llvm::SmallVectorImpl<i64>& strides, i64& align);

  // Values.
  Error body();
  Error statement();
  Error outputs();
  bool begins_call() const;
  Expected<Op> operation();
  Expected<Value> call(int depth);
  Error call_head(Value& value);
  Error arguments(Value& value, int depth);
  Error attribute(Value& value, llvm::SmallVectorImpl<std::string_view>& seen);
  Error ragged(Value& value);
  Error block(Value& value);
  Expected<Use> operand(int depth);
  Expected<ValueId> reference();
  Error define(const Token& name, Value value);
  ValueId append_unnamed(Value value);

  Tokens tokens_;
  size_t position_ = 0;
  Chain chain_;
  llvm::StringMap<ValueId> ids_;
  llvm::StringSet<> taken_;  // every name in the text: a generated one differs from later ones too
};

}  // namespace catenary
