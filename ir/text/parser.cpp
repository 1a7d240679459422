// SPDX-License-Identifier: Apache-2.0
// parse(): tokens -> Chain by recursive descent, one function per rule of the grammar in
// ir/README.md. Resolves names to ids and names nested expressions; verify() decides whether the
// chain is valid.
#include <charconv>

#include "ir/default_numerics.h"
#include "ir/names.h"
#include "ir/text/lexer.h"
#include "ir/text/text.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace catenary {
namespace {

llvm::StringRef ref(std::string_view text) { return {text.data(), text.size()}; }

std::string describe(const Token& token) {
  if (token.kind == TokenKind::kEnd) return "the end of the text";
  if (token.kind == TokenKind::kString) return fmt::format("the string {}", quoted(token.text));
  return quoted(token.text);
}

class Parser {
 public:
  explicit Parser(Tokens tokens) : tokens_(std::move(tokens)) {
    for (const Token& token : tokens_.list) {
      if (token.kind == TokenKind::kName) taken_.insert(ref(token.text));
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
  chain_.batch_invariant = accept_name("batch_invariant");
  if (Error e = parameters()) return e;
  if (Error e = body()) return e;
  if (peek().kind != TokenKind::kEnd) return expected("nothing after the chain's '}'");
  return std::move(chain_);
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
  if (Error e = layout(value.type.strides, value.type.align)) return e;
  return define(*parameter_name, std::move(value));
}

Expected<DType> Parser::dtype() {
  auto token = name("a dtype such as bf16");
  if (!token) return token.takeError();
  const std::optional<DType> found = find_dtype(token->text);
  if (found) return *found;
  return make_error_at(token->at, ErrorCode::kParse,
                       "unknown dtype {}: use bf16, f16, f32 or (for ragged ends) i32",
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

Error Parser::body() {
  if (Error e = expect("{", "before the chain's body")) return e;
  // The next token tells a keyword from a name, so that any identifier may name a value.
  while (peek().kind == TokenKind::kName && peek(1).is("=")) {
    if (Error e = statement()) return e;
  }
  if (accept_name("return")) {
    if (Error e = outputs()) return e;
    return expect("}", "or ',' after what the chain returns");
  }
  return expect("}", "'return' or a statement such as 'y = relu(x)'");
}

Error Parser::statement() {
  const Token value_name = next();
  next();
  if (!begins_call()) {
    return expected(fmt::format("an operation for {}, such as relu(x) or constant(1.5)",
                                quoted(value_name.text)));
  }
  auto value = call(1);
  if (!value) return value.takeError();
  return define(value_name, std::move(*value));
}

Error Parser::outputs() {
  do {
    Output output;
    output.at = peek().at;
    auto id = reference();
    if (!id) return id.takeError();
    output.value = *id;
    if (Error e = expect(":", "and a dtype after the returned value")) return e;
    auto element = dtype();
    if (!element) return element.takeError();
    output.dtype = *element;
    if (Error e = layout(output.strides, output.align)) return e;
    if (accept_name("inplace")) {
      if (Error e = reference().moveInto(output.in_place)) return e;
    }
    chain_.outputs.push_back(std::move(output));
  } while (accept(","));
  return Error::success();
}

bool Parser::begins_call() const {
  if (peek().kind != TokenKind::kName) return false;
  const Token& after = peek(1);
  return after.is("(") || after.kind == TokenKind::kString || after.kind == TokenKind::kBad;
}

Expected<Op> Parser::operation() {
  auto token = name("an operation");
  if (!token) return token.takeError();
  const std::optional<Op> op = find_op(token->text);
  if (op && *op != Op::kParameter) return *op;
  return make_error_at(token->at, ErrorCode::kParse, "unknown operation {}{}", quoted(token->text),
                       op_choices(token->text, /*elementwise=*/false));
}

Expected<Value> Parser::call(int depth) {
  Value value;
  value.at = peek().at;
  if (depth > kMaxNesting) {
    return make_error_at(
        value.at, ErrorCode::kResourceLimit,
        "expressions are nested more than {} deep: name the inner ones in separate "
        "statements",
        kMaxNesting);
  }
  auto op = operation();
  if (!op) return op.takeError();
  value.op = *op;
  if (Error e = call_head(value)) return e;
  if (Error e = arguments(value, depth)) return e;
  // "ragged = ..." is the next statement.
  if (peek().is_name("ragged") && !peek(1).is("=")) {
    if (Error e = ragged(value)) return e;
  }
  return value;
}

Error Parser::call_head(Value& value) {
  const std::string_view op = op_info(value.op).text;
  if (value.op == Op::kContract || is_reduction(value.op)) {
    if (peek().kind != TokenKind::kString) {
      return expected(fmt::format("an equation after '{}', such as \"{}\"", op,
                                  value.op == Op::kContract ? "mk,nk->mn" : "mn->n"));
    }
    value.equation = std::string(next().text);
  }
  if (value.op == Op::kContract && accept_name("f32")) value.true_f32 = true;
  return expect("(", fmt::format("before the operands of '{}'", op));
}

Error Parser::arguments(Value& value, int depth) {
  const std::string close = fmt::format("to close '{}'", op_info(value.op).text);
  if (value.op == Op::kConstant) {
    auto constant = number("a constant");
    if (!constant) return constant.takeError();
    value.attributes[0] = *constant;
    return expect(")", close);
  }
  llvm::SmallVector<std::string_view, 2> seen;
  do {
    if (peek().kind == TokenKind::kName && peek(1).is("=")) {
      if (Error e = attribute(value, seen)) return e;
      continue;
    }
    if (value.op == Op::kCast && value.operands.size() == 1) {
      auto element = dtype();
      if (!element) return element.takeError();
      value.type.dtype = *element;
      return expect(")", close);
    }
    auto use = operand(depth);
    if (!use) return use.takeError();
    value.operands.push_back(std::move(*use));
  } while (accept(","));
  if (value.op == Op::kCast) return expected("',' and the dtype to cast to");
  for (std::string_view needed : op_info(value.op).attributes) {
    if (!needed.empty() && !llvm::is_contained(seen, needed)) {
      return expected(fmt::format("attribute '{} = ...' of '{}'", needed, op_info(value.op).text));
    }
  }
  return expect(")", close);
}

Error Parser::attribute(Value& value, llvm::SmallVectorImpl<std::string_view>& seen) {
  const Token attribute_name = next();
  const OpInfo& info = op_info(value.op);
  next();
  const auto* found =
      std::find(info.attributes.begin(), info.attributes.end(), attribute_name.text);
  if (found == info.attributes.end()) {
    return make_error_at(
        attribute_name.at, ErrorCode::kParse, "'{}' has no attribute {}{}: remove it", info.text,
        quoted(attribute_name.text), suggestion(attribute_name.text, info.attributes));
  }
  if (llvm::is_contained(seen, attribute_name.text)) {
    return make_error_at(attribute_name.at, ErrorCode::kParse,
                         "attribute {} of '{}' is given twice: keep one",
                         quoted(attribute_name.text), info.text);
  }
  seen.push_back(attribute_name.text);
  auto given = number(fmt::format("attribute {} of '{}'", quoted(attribute_name.text), info.text));
  if (!given) return given.takeError();
  value.attributes[found - info.attributes.begin()] = *given;
  return Error::success();
}

Error Parser::ragged(Value& value) {
  if (value.op != Op::kContract) return expected("'ragged' only after a contract");
  next();
  RaggedLabel result;
  auto partitioned = label("the ragged label");
  if (!partitioned) return partitioned.takeError();
  result.label = *partitioned;
  if (!accept_name("by")) return expected("'by' and the i32 tensor of ends");
  auto ends = reference();
  if (!ends) return ends.takeError();
  result.ends = *ends;
  if (!accept_name("over")) return expected("'over' and the group's label");
  auto group = label("the group");
  if (!group) return group.takeError();
  result.group = *group;
  value.ragged = result;
  return Error::success();
}

Expected<Use> Parser::operand(int depth) {
  Use use;
  if (peek().kind == TokenKind::kNumber) {
    Value constant;
    constant.op = Op::kConstant;
    constant.at = peek().at;
    auto literal = number("a constant");
    if (!literal) return literal.takeError();
    constant.attributes[0] = *literal;
    use.value = append_unnamed(std::move(constant));
  } else if (begins_call()) {
    auto inner = call(depth + 1);
    if (!inner) return inner.takeError();
    use.value = append_unnamed(std::move(*inner));
  } else {
    auto id = reference();
    if (!id) return id.takeError();
    use.value = *id;
  }
  if (accept("@")) {
    if (peek().kind != TokenKind::kString) return expected("labels after '@', such as \"m\"");
    use.labels = std::string(next().text);
  }
  return use;
}

Expected<ValueId> Parser::reference() {
  auto token = name("a value's name");
  if (!token) return token.takeError();
  const auto found = ids_.find(ref(token->text));
  if (found != ids_.end()) return found->second;
  std::vector<std::string_view> known;
  for (const Value& value : chain_.values) known.push_back(value.name);
  return make_error_at(token->at, ErrorCode::kParse, "unknown value {}{}: define it before its use",
                       quoted(token->text), suggestion(token->text, known));
}

Error Parser::define(const Token& name, Value value) {
  value.name = std::string(name.text);
  value.at = name.at;
  const auto [found, fresh] =
      ids_.try_emplace(ref(name.text), static_cast<ValueId>(chain_.values.size()));
  if (!fresh) {
    const Location& first = chain_.values[found->second].at;
    return make_error_at(name.at, ErrorCode::kParse,
                         "name {} is taken at line {}, column {}: choose another",
                         quoted(name.text), first.line, first.column);
  }
  chain_.append(std::move(value));
  return Error::success();
}

ValueId Parser::append_unnamed(Value value) {
  value.name = fmt::format("t{}", chain_.values.size());
  while (!taken_.insert(value.name).second) value.name += '_';
  return chain_.append(std::move(value));
}

}  // namespace

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
