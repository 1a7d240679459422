// SPDX-License-Identifier: Apache-2.0
// Statements, calls and outputs of the text form.
#include "ir/text/parser.h"

namespace catenary {
namespace {

// "clamp(x, lo = 0, hi = 1)".
std::string with_attributes(Op op) {
  std::string text = fmt::format("{}(x", op_info(op).text);
  int number = 0;
  for (const std::string_view name : op_info(op).attributes) {
    if (!name.empty()) text += fmt::format(", {} = {}", name, number++);
  }
  return text + ")";
}

bool takes_equation(Op op) { return op == Op::kContract || is_reduction(op); }

}  // namespace

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
    if (peek(1).is("(") || peek(1).kind == TokenKind::kString)
      return expected("the name of a value after 'return': give the result of an operation one");
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
  if (after.is("(") || after.kind == TokenKind::kString || after.kind == TokenKind::kBad)
    return true;
  // No name follows a value's name here: an equation lacks its quotes.
  const std::optional<Op> op = find_op(peek().text);
  return after.kind == TokenKind::kName && op && takes_equation(*op);
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
  if (value.op == Op::kDequant) {
    if (Error e = block(value)) return e;
  }
  return value;
}

Error Parser::call_head(Value& value) {
  const std::string_view op = op_info(value.op).text;
  if (takes_equation(value.op)) {
    if (peek().kind != TokenKind::kString) {
      return expected(fmt::format("an equation in quotes after '{}', such as \"{}\"", op,
                                  value.op == Op::kContract ? "mk,nk->mn" : "mn->n"));
    }
    value.equation = std::string(next().text);
  }
  if (value.op == Op::kContract && accept_name("f32")) value.true_f32 = true;
  if (value.op == Op::kContract && accept_name("fast_accum")) value.fast_accum = true;
  if (peek().kind == TokenKind::kString && !takes_equation(value.op)) {
    return make_error_at(
        peek().at, ErrorCode::kParse, "'{}' has no equation: {}", op,
        value.op == Op::kMax
            ? "write reduce_max \"mn->m\"(x) for the largest of each row"
            : "name the dimensions of each operand after it, as in mul(x @ \"mk\", s @ \"m\")");
  }
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
      return expected(fmt::format("attribute '{} = ...' of '{}', whose numbers are named as in {}",
                                  needed, op_info(value.op).text, with_attributes(value.op)));
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
    const bool has_some = !info.attributes[0].empty();
    return make_error_at(
        attribute_name.at, ErrorCode::kParse, "'{}' has no attribute {}{}: {}", info.text,
        quoted(attribute_name.text), suggestion(attribute_name.text, info.attributes),
        has_some ? fmt::format("write {}", with_attributes(value.op)) : "remove it");
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
  if (value.op == Op::kConstant || value.op == Op::kDequant || value.op == Op::kReduceMax)
    return expected("'ragged' only after a contraction, a sum or an elementwise operation");
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

Error Parser::block(Value& value) {
  if (!accept_name("block")) return expected("'block' and the elements that share a scale");
  if (Error e = expect("(", "before the rows of a block")) return e;
  if (Error e = integer("the rows of a block").moveInto(value.block.rows)) return e;
  if (Error e = expect(",", "between the rows and columns of a block")) return e;
  if (Error e = integer("the columns of a block").moveInto(value.block.columns)) return e;
  return expect(")", "after the columns of a block");
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
  const auto found = ids_.find(as_ref(token->text));
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
      ids_.try_emplace(as_ref(name.text), static_cast<ValueId>(chain_.values.size()));
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

}  // namespace catenary
