// SPDX-License-Identifier: Apache-2.0
// The text form: parse, print and their round trip; the errors of malformed text.
#include "ir/text/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "ir/verify/verify.h"

using namespace catenary;

namespace {

ErrorReport parse_report(std::string_view text) {
  auto chain = parse(text);
  if (chain) return {};
  return take_report(chain.takeError());
}

Chain parse_ok(std::string_view text) {
  auto chain = parse(text);
  if (!chain) {
    const ErrorReport report = take_report(chain.takeError());
    FAIL(render_error(report, "text", text));
  }
  return std::move(*chain);
}

// Parsing the printed text gives the same chain, and printing it the same text.
void check_round_trip(const Chain& chain) {
  const std::string text = print(chain);
  CAPTURE(text);
  const Chain again = parse_ok(text);
  CHECK(again == chain);
  CHECK(print(again) == text);
}

constexpr std::string_view kWhole = R"(# leading comment
chain whole_1[M in 0..64](input x: bf16[M, 768], weight wg: bf16[3072, 768], // another comment
    weight bg: bf16[3072] align 2, weight s: f32[M], scalar alpha: f32, input ends: i32[4],
    weight we: bf16[4, 3072, 768] strides[2359296, 768, 1] align 4096, input z: f32) {
  g = contract "mk,nk->mn"(x, wg)
  u = contract "mk,nk->mn" f32 (x, wg)   # the rest of the line
  y = contract "mk,enk->mn"(x, we) ragged m by ends over e
  h = mul(gelu_tanh(add(g, bg)), u)
  c = clamp(h, lo = -7, hi = 7)
  p = add(c, 1.5e-3)
  r = mul(p @ "mn", s @ "m")
  b = cast(scale(r, alpha), bf16)
  k = constant(-0)
  q = sum "mn->n"(sub(b, mul(z, k)))
  v = mul(b @ "mn", q @ "en") ragged m by ends over e
  d = sum "mn->en"(v) ragged m by ends over e
  return b: bf16 strides[4096, 1], q: f32 align 4, y: f16 strides[3072, 1] align 64
}
)";

// Every form of syntax. The chains need not be valid.
constexpr std::string_view kPieces[] = {
    "chain c() {}",
    "chain c(input x: f32) { return x: f32 }",
    "chain c(input x: f32[1,2,3,4,5,6,7,8,9]) { y = neg(x) return y: f32 }",
    "chain c(input x: f32[0] strides[0]) { y = neg(x) return y: f32 strides[-1] align 0 }",
    "chain c[M in -1..-2](input x: f32[M, M, 3]) { y = neg(x) return y: f32 }",
    "chain c(weight w: f16[9223372036854775807]) { y = cast(w, f32) return y: f32 }",
    "chain c(input x: f32) { y = add(1, add(.5, x)) return y: f32, y: f32, y: bf16 }",
    "chain c(input x: f32) { y = leaky_relu(x, slope = 1e-40) return y: f32 }",
    "chain c(input x: f32[2,2]) { y = add(x @ \"mn\", x @ \"nm\") return y: f32 }",
    "chain c(input x: f32[2,2]) { y = sum \"mn->\"(x) return y: f32 }",
    "chain c(input x: f32[2]) { y = sum \"\"(x) z = contract \"what?\"(x, y) return z: f32 }",
    "chain c(input x: i32[2]) { y = contract \"k,k->\"(x, x) ragged k by x over e return y: f32 }",
    "chain c(input x: f32) { y = relu(contract \"m,m->\" f32 (x, exp(x)) ragged m by x over e) }",
    // No word is reserved.
    "chain chain[in in 1..2](input input: f32[in], weight weight: f32, scalar scalar: f32) {"
    " ragged = contract \"k,k->\"(input, weight) return = add(ragged, scalar)"
    " strides = relu(return) f32 = neg(strides) sum = sum \"m->\"(f32) align = add(sum, f32)"
    " cast = cast(align, bf16) return return: f32, align: f32, cast: bf16 }",
    "chain c(input x:f32){y=relu(x)return y:f32}",
    "\r\n\tchain\r\nc(input x: f32)\r\n{ y = relu(x)\r\n return y: f32 }\r\n// end",
};

}  // namespace

TEST_CASE("words of a chain come in any order, once each") {
  const std::string rest = "(input x: f32[4]) { return x: f32 }";
  for (const char* words : {"batch_invariant algebraic_norms rounded_weights",
                            "rounded_weights algebraic_norms batch_invariant"}) {
    const Chain chain = parse_ok(fmt::format("chain a[M in 0..4] {}{}", words, rest));
    CHECK(chain.words.batch_invariant);
    CHECK(chain.words.algebraic_norms);
    CHECK(chain.words.rounded_weights);
    check_round_trip(chain);
    CHECK(print(chain).find(
              "chain a[M in 0..4] batch_invariant algebraic_norms rounded_weights (") == 0);
  }
  const Chain rounded = parse_ok("chain a rounded_weights" + rest);
  CHECK(rounded.words.rounded_weights);
  CHECK_FALSE(rounded.words.algebraic_norms);
  check_round_trip(rounded);
  const Chain one = parse_ok("chain a algebraic_norms" + rest);
  CHECK(one.words.algebraic_norms);
  CHECK_FALSE(one.words.batch_invariant);
  check_round_trip(one);
  const Chain named = parse_ok("chain algebraic_norms" + rest);
  CHECK(named.name == "algebraic_norms");
  CHECK_FALSE(named.words.algebraic_norms);
  const ErrorReport twice = parse_report("chain a algebraic_norms algebraic_norms" + rest);
  CHECK(twice.code == ErrorCode::kParse);
  CHECK(twice.message == "word 'algebraic_norms' is given twice: keep one");
  CHECK(twice.at.column == 25);
  CHECK(parse_report("chain a batch_invarient" + rest).message ==
        "unknown word 'batch_invarient' after the name of the chain (did you mean "
        "'batch_invariant'?): use batch_invariant, algebraic_norms, rounded_weights, or none");
}

TEST_CASE("batch_invariant follows the symbol, and is no reserved word") {
  for (const char* head : {"chain a[M in 0..4] batch_invariant", "chain a batch_invariant"}) {
    CAPTURE(head);
    const Chain chain = parse_ok(fmt::format("{}(input x: f32[4]) {{ return x: f32 }}", head));
    CHECK(chain.words.batch_invariant);
    check_round_trip(chain);
  }
  const Chain named = parse_ok("chain batch_invariant(input x: f32[4]) { return x: f32 }");
  CHECK(named.name == "batch_invariant");
  CHECK_FALSE(named.words.batch_invariant);
  check_round_trip(named);
  CHECK(parse_report("chain a batch_invariant batch_invariant(input x: f32[4]) { return x: f32 }")
            .code == ErrorCode::kParse);
  const std::string fast =
      "chain a(input x: e4m3[4, 8], weight w: e4m3[8, 8]) {\n"
      "  y = contract \"mk,nk->mn\" fast_accum (x, w)\n  return y: e5m2\n}\n";
  const Chain fp8 = parse_ok(fast);
  CHECK(fp8.values[2].fast_accum);
  CHECK(fp8.values[0].type.dtype == DType::kE4M3);
  CHECK(fp8.outputs[0].dtype == DType::kE5M2);
  CHECK(parse_ok(print(fp8)) == fp8);
  CHECK(print(fp8).find("\"mk,nk->mn\" fast_accum (x, w)") != std::string::npos);
  CHECK(
      parse_report("chain a batch_invariant[M in 0..4](input x: f32[4]) { return x: f32 }").code ==
      ErrorCode::kParse);
}

TEST_CASE("the chain has the contents of the text") {
  const Chain chain = parse_ok(kWhole);
  CHECK(chain.name == "whole_1");
  REQUIRE(chain.symbol);
  CHECK(*chain.symbol == Symbol{"M", 0, 64});
  const auto find = [&](std::string_view name) -> const Value& {
    for (const Value& value : chain.values) {
      if (value.name == name) return value;
    }
    FAIL("no value " << name);
    return chain.values[0];
  };
  CHECK(find("x").type.shape[0] == Dim{64, true});
  CHECK(find("x").type.shape[1] == Dim{768, false});
  CHECK(find("wg").role == Role::kWeight);
  CHECK(find("alpha").role == Role::kScalar);
  CHECK(find("bg").type.align == 2);
  CHECK(find("bg").type.strides.empty());
  CHECK(find("we").type.strides == llvm::SmallVector<i64, 4>{2359296, 768, 1});
  CHECK(find("z").type.rank() == 0);
  CHECK(find("g").equation == "mk,nk->mn");
  CHECK_FALSE(find("g").true_f32);
  CHECK(find("u").true_f32);
  REQUIRE(find("y").ragged);
  CHECK(find("y").ragged->label == 'm');
  CHECK(find("y").ragged->group == 'e');
  CHECK(chain.values[find("y").ragged->ends].name == "ends");
  CHECK(find("c").attributes[0] == -7);
  CHECK(find("c").attributes[1] == 7);
  CHECK(find("r").operands[1].labels == "m");
  CHECK(find("b").type.dtype == DType::kBF16);
  CHECK(std::signbit(find("k").attributes[0]));
  // Inner expressions and literals are values before their user.
  const Value& literal = chain.values[find("p").operands[1].value];
  CHECK(literal.op == Op::kConstant);
  CHECK(literal.attributes[0] == 1.5e-3);
  CHECK(chain.values[find("h").operands[0].value].op == Op::kGeluTanh);
  REQUIRE(chain.outputs.size() == 3);
  CHECK(chain.outputs[0].strides == llvm::SmallVector<i64, 4>{4096, 1});
  CHECK(chain.outputs[2].dtype == DType::kF16);
  CHECK(chain.outputs[2].align == 64);
  CHECK(find("g").at.line == 5);
  CHECK(find("g").at.column == 3);
}

TEST_CASE("round trip of hand-written text") {
  check_round_trip(parse_ok(kWhole));
  for (std::string_view text : kPieces) check_round_trip(parse_ok(text));
}

TEST_CASE("the examples parse, verify and round-trip") {
  for (std::string name :
       {"small_batch", "pseudo_linear", "geglu_mlp", "grouped_linear", "moe_linear"}) {
    CAPTURE(name);
    std::ifstream file(std::string(CATENARY_SOURCE_DIR "/examples/") + name + ".chain");
    std::stringstream text;
    text << file.rdbuf();
    const Chain chain = parse_ok(text.str());
    CHECK(chain.name == name);
    check_round_trip(chain);
    auto verified = verify(chain);
    if (!verified) FAIL(render_error(take_report(verified.takeError()), name, text.str()));
    CHECK(verified->chain() == chain);
  }
}

TEST_CASE("the example of the grammar parses and verifies") {
  std::ifstream file(CATENARY_SOURCE_DIR "/ir/README.md");
  std::stringstream all;
  all << file.rdbuf();
  const std::string readme = all.str();
  const size_t begin = readme.find("```\n") + 4;
  const std::string text = readme.substr(begin, readme.find("```", begin) - begin);
  const Chain chain = parse_ok(text);
  check_round_trip(chain);
  auto verified = verify(chain);
  if (!verified) FAIL(render_error(take_report(verified.takeError()), "README.md", text));
  CHECK(verified->chain().name == "example");
}

TEST_CASE("every operation round-trips and verifies") {
  for (Op op : all_ops()) {
    CAPTURE(op_info(op).text);
    Chain chain;
    chain.name = "each";
    TensorType matrix;
    matrix.shape = {{4, false}, {4, false}};
    const ValueId a = chain.parameter(Role::kInput, "a", matrix);
    const ValueId b = chain.parameter(Role::kScalar, "b", {});
    TensorType integers = matrix;
    integers.dtype = DType::kI4;
    integers.packed = true;
    const bool dequant = op == Op::kDequant;
    const ValueId q = dequant ? chain.parameter(Role::kWeight, "q", integers) : -1;
    ValueId last = -1;
    switch (op) {
      case Op::kDequant:
        last = chain.dequant({q, a}, {1, 1});
        last = chain.contract("mk,nk->mn", chain.cast(a, DType::kBF16), last);
        break;
      case Op::kParameter:
        last = chain.cast(a, DType::kF16);
        break;
      case Op::kConstant:
        last = chain.elementwise(Op::kAdd, {{a, ""}, {chain.constant(3), ""}});
        break;
      case Op::kContract:
        last = chain.contract("mk,nk->mn", a, a);
        break;
      case Op::kSum:
      case Op::kReduceMax:
        last = chain.reduce(op, "mn->m", a);
        break;
      case Op::kCast:
        last = chain.cast(a, DType::kBF16);
        break;
      default:
        llvm::SmallVector<Use, 3> uses(op_info(op).arity, Use{b, ""});
        uses[0] = {a, uses.size() == 1 ? "" : "mn"};
        last = chain.elementwise(op, uses, {2, 3});
        if (op_info(op).attributes[0].empty()) chain.values[last].attributes[0] = 0;
        if (op_info(op).attributes[1].empty()) chain.values[last].attributes[1] = 0;
    }
    last = chain.elementwise(Op::kMul, {{last, ""}, {b, ""}});
    chain.returns(last, DType::kF32);
    check_round_trip(chain);
    auto verified = verify(chain);
    if (!verified) FAIL(take_report(verified.takeError()).message);
  }
}

TEST_CASE("doubles round-trip bit for bit") {
  for (double number : {0.0, -0.0, 0.1, 1.0 / 3, 1e22, 1e-3, -123456789.125, 5e-324, 2.5e-310,
                        std::numeric_limits<double>::max(), 1.0, 9007199254740993.0}) {
    Chain chain;
    chain.name = "c";
    chain.constant(number, "k");
    const Chain again = parse_ok(print(chain));
    const double back = again.values[0].attributes[0];
    CHECK(std::memcmp(&back, &number, sizeof number) == 0);
  }
}

TEST_CASE("outputs in place round-trip and keep the input's layout") {
  const Chain chain = parse_ok(
      "chain c(input inplace: bf16[4, 8] strides[16, 1] align 4) {\n"
      "  y = relu(inplace)\n  return y: bf16 inplace inplace, y: f32 align 8\n}");
  REQUIRE(chain.outputs.size() == 2);
  CHECK(chain.outputs[0].in_place == 0);
  CHECK(chain.outputs[1].in_place == -1);
  CHECK(print(chain).find("return y: bf16 inplace inplace, y: f32 align 8") != std::string::npos);
  check_round_trip(chain);
  const VerifiedChain verified = llvm::cantFail(verify(chain));
  CHECK(verified.output_type(0) == verified.info(0).type);
  auto unknown = parse("chain c(input x: f32) { y = relu(x) return y: f32 inplace z }");
  REQUIRE(!unknown);
  CHECK(take_report(unknown.takeError()).message.find("unknown value 'z'") != std::string::npos);
}

TEST_CASE("generated names differ from every name of the text") {
  const Chain chain = parse_ok(
      "chain c(input t1: f32) { a = relu(neg(t1)) t3 = relu(neg(a)) t5 = relu(t3) t5_ = neg(7) }");
  std::vector<std::string> names;
  for (const Value& value : chain.values) names.push_back(value.name);
  CHECK(names == std::vector<std::string>{"t1", "t1_", "a", "t3_", "t3", "t5", "t6", "t5_"});
  check_round_trip(chain);
}

TEST_CASE("a text that is truncated anywhere gives a typed error with a position") {
  int parsed = 0;
  for (size_t length = 0; length <= kWhole.size(); ++length) {
    const std::string cut(kWhole.substr(0, length));
    auto chain = parse(cut);
    if (chain) {
      ++parsed;
      continue;
    }
    const ErrorReport report = take_report(chain.takeError());
    CAPTURE(cut);
    CHECK(report.code == ErrorCode::kParse);
    CHECK(report.at.line >= 1);
    CHECK(report.at.column >= 1);
    CHECK(render_error(report, "f", cut).find(report.message) != std::string::npos);
  }
  CHECK(parsed == 2);  // with and without the last line end
}

TEST_CASE("a text with any one byte replaced parses or gives a typed error") {
  for (size_t i = 0; i < kWhole.size(); ++i) {
    for (char byte : {'\0', '\n', '"', '(', '}', '.', '9', '=', '\xff'}) {
      std::string text(kWhole);
      text[i] = byte;
      auto chain = parse(text);
      if (chain) {
        (void)print(*chain);
        auto verified = verify(std::move(*chain));
        if (!verified) CHECK(take_report(verified.takeError()).code != ErrorCode::kInternal);
        continue;
      }
      const ErrorReport report = take_report(chain.takeError());
      CHECK((report.code == ErrorCode::kParse || report.code == ErrorCode::kResourceLimit));
      CHECK(report.at.line >= 1);
    }
  }
}

namespace {

struct BadText {
  const char* text;
  int line;
  int column;
  const char* says;
  ErrorCode code = ErrorCode::kParse;
};

const BadText kBadTexts[] = {
    {"", 1, 1, "expected 'chain', found the end of the text"},
    {"chain 7()", 1, 7, "expected the chain's name, found '7'"},
    {"chain 7x()", 1, 7, "'7x' is neither a number nor a name"},
    {"chain c[M = 1]()", 1, 11, "expected 'in'"},
    {"chain c[M in 1 64]()", 1, 16, "expected '..'"},
    {"chain c[M in 1.5..2]()", 1, 14, "lower bound of the symbolic size (a whole number)"},
    {"chain c[M in 0..64](input x: bf16[N])", 1, 35, "unknown size 'N'"},
    {"chain c(x: f32)", 1, 9, "expected 'input', 'weight' or 'scalar'"},
    {"chain c(input x: fp16)", 1, 18, "unknown dtype 'fp16'"},
    {"chain c(input x: f32[])", 1, 22, "expected a dimension's size"},
    {"chain c(input x: f32[3.5])", 1, 22, "(a whole number), found '3.5'"},
    {"chain c(input x: f32[9223372036854775808])", 1, 22, "'9223372036854775808' does not fit",
     ErrorCode::kResourceLimit},
    {"chain c(input x: f32 align)", 1, 27, "expected an alignment in bytes"},
    {"chain c(input x: f32 strides[1 2])", 1, 32, "expected ']' or ','"},
    {"chain c(input x: f32,\n  weight x: f32)", 2, 10, "name 'x' is taken at line 1, column 15"},
    {"chain c() { } x", 1, 15, "nothing after the chain's '}', found 'x'"},
    {"chain c(input x: f32) { y = x }", 1, 29, "expected an operation for 'y'"},
    {"chain c(input x: f32) { y = 1.5 }", 1, 29, "constant(1.5)"},
    {"chain c(input x: f32) { y = gelu_tahn(x) }", 1, 29, "did you mean 'gelu_tanh'?"},
    {"chain c(input x: f32) { y = parameter(x) }", 1, 29, "unknown operation 'parameter'"},
    {"chain c(input alpha: f32) { y = neg(alhpa) }", 1, 37,
     "unknown value 'alhpa' (did you mean 'alpha'?)"},
    {"chain c(input x: f32) { y = neg(z) z = neg(x) }", 1, 33, "define it before"},
    {"chain c(input x: f32) { y = relu() }", 1, 34, "expected a value's name, found ')'"},
    {"chain c(input x: f32) { y = neg(x }", 1, 35, "expected ')' to close 'neg', found '}'"},
    {"chain c(input x: f32) { y = clamp(x, lo = 1) }", 1, 44, "attribute 'hi = ...' of 'clamp'"},
    {"chain c(input x: f32) { y = clamp(x, 0, 1) }", 1, 42,
     "attribute 'lo = ...' of 'clamp', whose numbers are named as in clamp(x, lo = 0, hi = 1), "
     "found ')'"},
    {"chain c(input x: f32) { y = pow(x) }", 1, 34, "attribute 'exponent = ...' of 'pow'"},
    {"chain c(input x: f32) { y = clamp(x, low = 1) }", 1, 38, "no attribute 'low'"},
    {"chain c(input x: f32) { y = clamp(x, lo = 1, lo = 2) }", 1, 46, "'lo' of 'clamp' is given"},
    {"chain c(input x: f32) { y = clamp(x, lo = inf, hi = 2) }", 1, 43, "a finite number"},
    {"chain c(input x: f32) { y = clamp(x, lo = -inf, hi = 2) }", 1, 43, "write a finite number"},
    {"chain c() { y = constant(nan) }", 1, 26,
     "expected a constant (a finite number), found 'nan'"},
    {"chain c() { y = constant(1e999) }", 1, 26, "'1e999' is outside the range"},
    {"chain c(input x: f32) { y = cast(x, bf17) }", 1, 37, "unknown dtype 'bf17'"},
    {"chain c(input x: f32) { y = cast(x) }", 1, 35, "the dtype to cast to"},
    {"chain c(input x: f32) { y = swish(x) }", 1, 29, "'swish' (did you mean 'silu'?): use one of"},
    {"chain c(input x: f32) { y = matmul(x, x) }", 1, 29, "(did you mean 'contract'?)"},
    {"chain c(input x: f32) { y = sum(x) }", 1, 32,
     "expected an equation in quotes after 'sum', such as \"mn->n\", found '('"},
    {"chain c(input x: f32) { y = sum mk->m (x) }", 1, 33, "an equation in quotes after 'sum'"},
    {"chain c(input x: f32) { y = relu(reduce_max mk->m (x)) }", 1, 45,
     "an equation in quotes after 'reduce_max'"},
    {"chain c(input x: f32) { y = contract mk,nk->mn (x, x) }", 1, 38,
     "expected an equation in quotes after 'contract', such as \"mk,nk->mn\", found 'mk'"},
    {"chain c(input x: f32) { y = add \"m\"(x, x) }", 1, 33,
     "'add' has no equation: name the dimensions of each operand after it, as in mul(x @ "},
    {"chain c(input x: f32) { y = max \"mn->m\"(x) }", 1, 33, "write reduce_max \"mn->m\"(x)"},
    {"chain c(input x: f32) { y = clamp(x, min = 3) }", 1, 38,
     "'clamp' has no attribute 'min': write clamp(x, lo = 0, hi = 1)"},
    {"chain c(input x: f32) { return neg(x): f32 }", 1, 32,
     "expected the name of a value after 'return'"},
    {"chain c(input x: f32) { y = contract \"k,k->\" bf16 (x, x) }", 1, 46, "expected '('"},
    {"chain c(input x: f32) { y = contract \"k,k->(x, x)\n }", 1, 38, "has no end"},
    {"chain c(input x: f32) { y = constant(1) ragged m by x over e }", 1, 41,
     "'ragged' only after a contraction, a sum or an elementwise operation"},
    {"chain c(input x: f32) { y = reduce_max \"m->\"(x) ragged m by x over e }", 1, 49,
     "only after a contraction, a sum or an elementwise operation"},
    {"chain c(input x: f32) { y = contract \"k,k->\"(x, x) ragged mm by x over e }", 1, 59,
     "a label of one letter"},
    {"chain c(input x: f32) { y = neg(x @ m) }", 1, 37, "expected labels after '@'"},
    {"chain c(input x: f32) { y = neg(x) return y }", 1, 45, "expected ':' and a dtype"},
    {"chain c(input x: f32) { y = neg(x) return y: f32 z = neg(x) }", 1, 50, "expected '}' or ','"},
    {"chain c(input \xc3\xa9t\xc3\xa9: f32)", 1, 15, "'\\xc3' is not part of the text form"},
    {"chain c(input x: f32) { \x01 }", 1, 25, "'\\x01' is not part"},
    {"chain c(input x: f32; input y: f32)", 1, 21, "';' is not part"},
    {"chain c(input x: f32) { y = neg(x) + x }", 1, 36,
     "'+' is not part of the text form: write add("},
    {"chain c(input x: f32) { y = neg(x) * x }", 1, 36,
     "'*' is not part of the text form: write mul("},
    {"chain c(input x: f32) { y = neg(x) / x }", 1, 36,
     "'/' is not part of the text form: write div("},
};

}  // namespace

TEST_CASE("each error names what was found, its position, and the fix") {
  for (const BadText& bad : kBadTexts) {
    CAPTURE(bad.text);
    const ErrorReport report = parse_report(bad.text);
    CAPTURE(report.message);
    CHECK(report.code == bad.code);
    CHECK(report.at.line == bad.line);
    CHECK(report.at.column == bad.column);
    CHECK(report.message.find(bad.says) != std::string::npos);
  }
}

TEST_CASE("limits of the text form") {
  const auto nested = [](int depth) {
    std::string text = "chain c(input x: f32) { y = ";
    for (int i = 0; i < depth; ++i) text += "neg(";
    text += "x" + std::string(depth, ')');
    return text + " return y: f32 }";
  };
  check_round_trip(parse_ok(nested(kMaxNesting)));
  ErrorReport report = parse_report(nested(kMaxNesting + 1));
  CHECK(report.code == ErrorCode::kResourceLimit);
  CHECK(report.message.find("nested more than 64 deep") != std::string::npos);
  CHECK(parse_report(nested(100000)).code == ErrorCode::kResourceLimit);

  parse_ok("chain c(input " + std::string(kMaxNameBytes, 'x') + ": f32) {}");
  report = parse_report("chain c(input " + std::string(kMaxNameBytes + 1, 'x') + ": f32) {}");
  CHECK(report.code == ErrorCode::kResourceLimit);
  CHECK(report.message.find("'xxxx") != std::string::npos);
  CHECK(report.message.find("at most 128") != std::string::npos);

  const std::string chain = "chain c() {}";
  parse_ok(chain + std::string(kMaxTextBytes - chain.size(), ' '));
  report = parse_report(chain + std::string(kMaxTextBytes - chain.size() + 1, ' '));
  CHECK(report.code == ErrorCode::kResourceLimit);
  CHECK(report.message.find("1048577 bytes") != std::string::npos);
}

TEST_CASE("a rendered error points at its position") {
  const std::string text = "chain c(input x: f32) {\n\ty = \x02relu(x)\n}";
  CHECK(render_error(parse_report(text), "a.chain", text) ==
        "a.chain:2:6: error: '\\x02' is not part of the text form: remove it\n"
        "   y = \\x02relu(x)\n"
        "       ^");
}

TEST_CASE("a rendered error shows a part of a long line, and needs neither position nor text") {
  const std::string text = std::string(100000, ' ') + "?" + std::string(100000, ' ');
  const std::string shown = render_error(parse_report(text), "f", text);
  CHECK(shown.size() < 500);
  const std::string last_two = shown.substr(shown.find('\n') + 1);
  CHECK(last_two.find('?') == last_two.substr(last_two.find('\n') + 1).find('^'));
  CHECK(render_error({ErrorCode::kInvalidChain, "no place", {}}, "f", "x") == "no place");
  CHECK(render_error({ErrorCode::kParse, "gone", {7, 9}}, "f", "x") ==
        "f:7:9: error: gone\n  \n  ^");
}
