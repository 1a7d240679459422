// SPDX-License-Identifier: Apache-2.0
// What verify() rejects: one case per rule, with its code and the value that the message names.
// Ragged labels: verify_ragged_error_test.cpp.
#include <doctest/doctest.h>

#include <limits>

#include "tests/support/rejected_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

TensorType tensor(std::initializer_list<i64> sizes, DType dtype = DType::kF32) {
  TensorType type;
  type.dtype = dtype;
  for (i64 size : sizes) type.shape.push_back({size, false});
  return type;
}

// x: f32[4, 4]; y = neg(x); return y. Names are assigned as std::string: for a literal
// g++ 12 at -O3 gives a false -Wrestrict warning.
Chain small_chain() {
  Chain chain;
  chain.name = std::string("c");
  const ValueId x = chain.parameter(Role::kInput, "x", tensor({4, 4}));
  chain.returns(chain.elementwise(Op::kNeg, {{x, ""}}, {}, "y"), DType::kF32);
  return chain;
}

const Case kTypes[] = {
    {"input x: f32[4, -1]", "y = neg(x) return y: f32", "dimension 1 of parameter 'x' has size -1"},
    {"input x: f32[1099511627777]", "y = neg(x) return y: f32",
     "dimension 0 of parameter 'x' has size 1099511627777: make it at most 2^40", kLimit},
    {"input x: f32[1048576, 33554432]", "y = neg(x) return y: f32",
     "parameter 'x' has more than 2^46 bytes", kLimit},
    {"input x: bf16[1099511627776, 1099511627776, 0]", "y = neg(x) return y: f32",
     "parameter 'x' has more than 2^46 bytes", kLimit},
    {"input x: f32[1,1,1,1,1,1,1,1,1]", "y = neg(x) return y: f32",
     "parameter 'x' has 9 dimensions", kLimit},
    {"input x: f32[4, 4] strides[4]", "y = neg(x) return y: f32",
     "parameter 'x' has 1 stride and 2 dimensions"},
    {"input x: f32[4, 4] strides[-4, 1]", "y = neg(x) return y: f32",
     "dimension 0 of parameter 'x' has stride -4"},
    {"input x: f32[4, 4] strides[9223372036854775807, 1]", "y = neg(x) return y: f32",
     "parameter 'x' spans more than 2^46 bytes with stride 9223372036854775807", kLimit},
    {"input x: f32[1, 4] strides[9223372036854775807, 1]", "y = neg(x) return y: f32",
     "dimension 0 of parameter 'x' has stride 9223372036854775807: make it at most 17592186044416",
     kLimit},
    {"input x: f32[4, 1, 4] strides[4, 17592186044417, 1]", "y = neg(x) return y: f32",
     "dimension 1 of parameter 'x' has stride 17592186044417", kLimit},
    {"input x: bf16[0, 4] strides[35184372088833, 1]", "y = neg(x) return y: f32",
     "dimension 0 of parameter 'x' has stride 35184372088833", kLimit},
    {"input x: f32[1, 4]", "y = neg(x) return y: f32 strides[9223372036854775807, 1]",
     "dimension 0 of output 'y' has stride 9223372036854775807", kLimit},
    {"input x: f32[4] align 2", "y = neg(x) return y: f32", "parameter 'x' has align 2"},
    {"input x: bf16[4] align 8192", "y = neg(x) return y: f32", "parameter 'x' has align 8192"},
    {"input x: bf16[4] align 24", "y = neg(x) return y: f32", "parameter 'x' has align 24"},
    {"input x: bf16[4] align -16", "y = neg(x) return y: f32", "parameter 'x' has align -16"},
    {"input x: f32[4], scalar s: f32[1]", "y = mul(x, s) return y: f32",
     "scalar 's' has type f32[1]"},
    {"input x: f32[4], scalar s: bf16", "y = mul(x, s) return y: f32", "scalar 's' has type bf16"},
};

const Case kSymbols[] = {
    {"input x: f32[3, M]", "y = neg(x) return y: f32",
     "default strides of parameter 'x' would depend on M, its dimension 1"},
    {"input x: f32[1, 2, M]", "y = neg(x) return y: f32",
     "default strides of parameter 'x' would depend on M, its dimension 2"},
    {"input x: f32[1, M, M]", "y = neg(x) return y: f32",
     "default strides of parameter 'x' would depend on M, its dimension 2"},
    {"input x: f32[0, M]", "y = neg(x) return y: f32",
     "default strides of parameter 'x' would depend on M, its dimension 1"},
    {"input x: f32[M, M]", "y = neg(x) return y: f32",
     "default strides of parameter 'x' would depend on M, its dimension 1"},
    {"input x: f32[3, M] strides[64, 1]", "y = neg(x) return y: f32",
     "default strides of output 'y' would depend on M, its dimension 1"},
    {"input x: f32[3]", "y = neg(x) return y: f32", "symbol 'M' is not a dimension"},
    {"input x: f32[M], input z: f32[64]", "y = add(x, z) return y: f32",
     "dimension 0 of 'y' has size M in 'x' and 64 in 'z'"},
    {"input x: f32[M, 4], input z: f32[64, 4]", "y = contract \"mk,mk->mk\"(x, z) return y: f32",
     "label 'm' of 'y' has size M in 'x' and 64 in 'z'"},
    {"input M: f32[M]", "y = neg(M) return y: f32", "name 'M' is taken"},
    {"input x: bf16[8, 4], input w: bf16[64, 8, 4], input e: i32[M]",
     "y = contract \"mk,enk->mn\"(x, w) ragged m by e over e return y: f32", "ends 'e' of 'y'"},
};

const Case kContractions[] = {
    {"input x: f32[4, 4]", "y = contract \"mknk\"(x, x) return y: f32",
     "equation 'mknk' of 'y' has no '->'"},
    {"input x: f32[4, 4]", "y = contract \"mk->m\"(x, x) return y: f32",
     "equation 'mk->m' of 'y' has 1 operand and needs 2"},
    {"input x: f32[4, 4]", "y = contract \"mk,nk,k->mn\"(x, x) return y: f32",
     "of 'y' has 3 operands and needs 2"},
    {"input x: f32[4, 4]", "y = contract \"mk, nk->mn\"(x, x) return y: f32",
     "equation 'mk, nk->mn' of 'y' has a label that is not a letter"},
    {"input x: f32[4, 4]", "y = contract \"mk,nk->m1\"(x, x) return y: f32",
     "'y' has a label that is not a letter"},
    {"input x: f32[4, 4]", "y = contract \"mk,nk->mnm\"(x, x) return y: f32",
     "of 'y' repeats label 'm' in the result"},
    {"input x: f32[4], input z: f32", "y = contract \"k,->k\"(x, z) return y: f32",
     "equation 'k,->k' of 'y' has an operand without labels"},
    {"input x: f32[4, 4]", "y = contract \"mm,nm->n\"(x, x) return y: f32",
     "equation \"mm,nm->n\" of 'y' repeats label 'm' for 'x'"},
    {"input x: f32[4, 4]", "y = contract \"mk,nk->m\"(x, x) return y: f32",
     "label 'n' of 'y' appears once"},
    {"input x: f32[4, 4]", "y = contract \"mk,nk->mno\"(x, x) return y: f32",
     "label 'o' in the result of 'y' is in neither operand"},
    {"input x: f32[4, 4]", "y = contract \"mk,enk->mn\"(x, x) return y: f32",
     "of 'y' has 3 labels for 'x': it has 2 dimensions"},
    {"input x: f32[4, 768], input w: f32[8, 512]", "y = contract \"mk,nk->mn\"(x, w) return y: f32",
     "label 'k' of 'y' has size 768 in 'x' and 512 in 'w'"},
    {"input x: f16[4, 4], input w: bf16[4, 4]", "y = contract \"mk,nk->mn\"(x, w) return y: f32",
     "'x' is f16 and 'w' is bf16: cast both to f32 first"},
    {"input x: bf16[4, 4], input w: e4m3[4, 4]", "y = contract \"mk,nk->mn\"(x, w) return y: f32",
     "cast 'w' to bf16 first"},
    {"input x: e5m2[4, 4], input w: f16[4, 4]", "y = contract \"mk,nk->mn\"(x, w) return y: f32",
     "cast 'x' to f16 first"},
    {"input x: f32[4, 4], input w: bf16[4, 4]", "y = contract \"mk,nk->mn\"(x, w) return y: f32",
     "cast 'w' to f32 first"},
    {"input x: e4m3[4, 4], input w: e5m2[4, 4]", "y = contract \"mk,nk->mn\"(x, w) return y: f32",
     "cast both to bf16 first"},
    {"input x: bf16[4, 4], input w: e4m3[4, 4]",
     "h = relu(x) y = contract \"mk,nk->mn\"(h, w) return y: f32", "cast both to bf16 first"},
    {"input x: bf16[4, 4], input w: bf16[4, 4]",
     "h = relu(x) y = contract \"mk,nk->mn\"(h, w) return y: f32", "cast 'h' to bf16 first"},
    {"input x: bf16[4, 4], input w: bf16[4, 4]",
     "h = relu(x) y = contract \"mk,nk->mn\"(w, h) return y: f32", "cast 'h' to bf16 first"},
    {"input x: bf16[4, 4]", "y = contract \"mk,nk->mn\" f32 (x, x) return y: f32",
     "'y' asks for f32 products but its operands are bf16"},
    {"input x: bf16[4, 4]", "y = contract \"mk,nk->mn\" fast_accum (x, x) return y: f32",
     "'y' asks for fast accumulation but its operands are bf16"},
    {"input x: e4m3[4, 4], input w: e5m2[4, 4]", "y = contract \"mk,nk->mn\"(x, w) return y: f32",
     "'x' is e4m3 and 'w' is e5m2"},
    {"input x: f32[4, 4]", "y = contract \"mk,nk->mn\"(x @ \"mk\", x) return y: f32",
     "operand 'x' of 'y' has labels"},
    {"input x: f32[1,1,1,1,1], input w: f32[1,1,1,1,1]",
     "y = contract \"abcde,ABCDe->abcdABCD\"(x, w) z = contract \"abcdefgh,ABCDE->abcdefghABCDE\""
     "(y, w) return z: f32",
     "value 'z' has 13 dimensions", kLimit},
    {"input x: f32[4194304, 1], input w: f32[8388608, 1]",
     "y = contract \"mk,nk->mn\"(x, w) return y: f32", "value 'y' has more than 2^46 bytes",
     kLimit},
    {"input x: f32[4, 4]", "y = sum \"mn\"(x) return y: f32", "equation 'mn' of 'y' has no '->'"},
    {"input x: f32[4, 4]", "y = sum \"mn,n->m\"(x) return y: f32",
     "of 'y' has 2 operands and needs 1"},
    {"input x: f32[4, 4]", "y = sum \"mn->mk\"(x) return y: f32",
     "label 'k' in the result of 'y' is not in the operand"},
    {"input x: f32[4, 4]", "y = sum \"mn->nm\"(x) return y: f32", "of 'y' reduces nothing"},
    {"input x: f32[4, 4]", "y = reduce_max \"mn->nm\"(x) return y: f32", "of 'y' reduces nothing"},
    {"input x: f32[4, 4]", "y = reduce_max \"mn->k\"(x) return y: f32", "label 'k' in the result"},
    {"input x: f32[4, 4]", "y = sum \"m->\"(x) return y: f32", "of 'y' has 1 label for 'x'"},
    {"input x: f32[4, 4]", "y = sum \"mm->m\"(x) return y: f32",
     "of 'y' repeats label 'm' for 'x'"},
};

const Case kElementwise[] = {
    {"input x: f32[4, 8], input b: f32[4]", "y = add(x, b) return y: f32",
     "dimension 1 of 'y' has size 8 in 'x' and 4 in 'b': make them equal, or align them as in x @ "
     "\"mn\" and b @ \"m\""},
    {"input x: f32[4, 8], input b: f32[4]", "y = add(x @ \"ak\", b) return y: f32",
     "dimension 1 of 'y' has size 8 in 'x' and 4 in 'b': make them equal, or align it as in b @ "
     "\"a\""},
    {"input x: f32[4, 8], input b: f32[4]", "y = add(x, b @ \"m\") return y: f32",
     "label 'm' of 'b' is not among the labels \"\" of 'y'"},
    {"input x: f32[4, 8], input b: f32[4]", "y = add(x @ \"mn\", b @ \"k\") return y: f32",
     "label 'k' of 'b' is not among the labels \"mn\" of 'y'"},
    {"input x: f32[4, 8], input b: f32[4]", "y = add(x @ \"mn\", b @ \"n\") return y: f32",
     "dimension 1 of 'y' has size 8 in 'x' and 4 in 'b'"},
    {"input x: f32[4, 8], input b: f32[4]", "y = add(b @ \"k\", x @ \"mnk\") return y: f32",
     "'@ \"mnk\"' of 'y' has 3 labels for 'x': it has 2 dimensions"},
    {"input x: f32[4, 4]", "y = neg(x @ \"mm\") return y: f32", "of 'y' repeats label 'm' for 'x'"},
    {"input x: f32[4, 4]", "y = neg(x @ \"m,\") return y: f32",
     "of 'y' has a label that is not a letter for 'x'"},
    {"input x: f32[4], scalar s: f32", "y = mul(x, s @ \"m\") return y: f32",
     "of 'y' has 1 label for 's'"},
    {"input x: f32[4], input z: f32[4]", "y = scale(x, z) return y: f32",
     "scale 'y' has factor 'z' with 1 dimensions"},
    {"input x: f32[4]", "y = neg(x, x) return y: f32", "'y' has 2 operands: 'neg' takes 1"},
    {"input x: f32[4]", "y = mul(x) return y: f32", "'y' has 1 operand: 'mul' takes 2"},
    {"input x: f32[4, 4]", "y = contract \"mk,nk->mn\"(x) return y: f32", "'y' has 1 operand"},
    {"input x: f32[4]", "y = clamp(x, lo = 2, hi = 1) return y: f32",
     "clamp 'y' has lo 2 above hi 1"},
    {"input x: f32[4]", "y = pow(x, exponent = 2.5) return y: f32",
     "pow 'y' has exponent 2.5: give a whole number from -64 to 64"},
    {"input x: f32[4]", "y = pow(x, exponent = 65) return y: f32", "pow 'y' has exponent 65"},
    {"input x: f32[4]", "y = select(x, x) return y: f32", "'y' has 2 operands: 'select' takes 3"},
    {"input x: f32[4]", "y = leaky_relu(x, slope = 1e39) return y: f32",
     "attribute 'slope' of 'y' is 1e+39"},
    {"input x: f32[4]", "k = constant(-1e39) y = mul(x, k) return y: f32",
     "attribute 'value' of 'k' is -1e+39"},
    {"input x: f32[4]", "y = cast(x, i32) return y: f32", "cast 'y' is to i32"},
    {"input x: f32[8388608, 1], input z: f32[1, 8388608]", "y = add(x, z) return y: f32",
     "value 'y' has more than 2^46 bytes", kLimit},
};

const Case kOutputs[] = {
    {"input x: f32[4]", "y = neg(x)", "chain 'c' returns nothing"},
    {"input x: f32[4]", "return x: f32", "output 'x' is not a computed value: return a cast"},
    {"input x: f32[4], scalar s: f32", "y = scale(x, s) return y: f32, s: f32",
     "output 's' is not a computed value"},
    {"", "k = constant(1) return k: f32", "output 'k' is not a computed value"},
    {"input x: f32[4]", "y = neg(x) return y: i32", "output 'y' has dtype i32"},
    {"input x: f32[4]", "y = neg(x) return y: f32 strides[1, 1]",
     "output 'y' has 2 strides and 1 dimension"},
    {"input x: f32[4]", "y = neg(x) return y: f32 strides[-1]",
     "dimension 0 of output 'y' has stride -1"},
    {"input x: f32[4]", "y = neg(x) return y: f32 align 2", "output 'y' has align 2"},
    {"input x: f32[4]", "y = neg(x) return y: f32 strides[0]",
     "output 'y' overlaps itself: the stride of dimension 0 is 0 and must be at least 1"},
    {"input x: f32[4, 8]", "y = neg(x) return y: f32 strides[7, 1]",
     "output 'y' overlaps itself: the stride of dimension 0 is 7 and must be at least 8"},
    {"input x: f32[4, 8, 2]", "y = neg(x) return y: f32 strides[2, 7, 1]",
     "output 'y' overlaps itself: the stride of dimension 1 is 7 and must be at least 8"},
    {"input x: f32[4]", "y = neg(x) return y: f32 strides[9223372036854775807]",
     "output 'y' spans more than 2^46 bytes", kLimit},
    {"input x: f32[4], input z: f32[4]", "y = neg(x) return y: f32",
     "parameter 'z' is not used: remove it"},
    {"input x: f32[4]", "y = neg(x) a = exp(x) b = relu(a) return y: f32",
     "value 'b' reaches no output: return it or remove it"},
};

}  // namespace

TEST_CASE("types") {
  for (const Case& bad : kTypes) check_case(bad, "");
}

TEST_CASE("symbolic dimensions") {
  for (const Case& bad : kSymbols) check_case(bad, "[M in 0..64]");
  const Case used = {"input x: f32[M]", "y = neg(x) return y: f32", "symbol 'M' has the range"};
  for (std::string_view range : {"[M in -1..4]", "[M in 5..4]", "[M in 0..2147483649]"}) {
    check_case(used, range);
  }
}

TEST_CASE("contractions and sums") {
  for (const Case& bad : kContractions) check_case(bad, "");
}

const Case kInPlace[] = {
    {"input x: f32[4, 8], weight w: f32[4, 8]", "y = add(x, w) return y: f32 inplace w",
     "output 'y' is in place of 'w', a weight: only an input is overwritten"},
    {"input x: f32[4, 8], scalar s: f32", "y = scale(x, s) return y: f32 inplace s",
     "in place of 's', a scalar"},
    {"input x: f32[4, 8]", "t = relu(x) y = neg(t) return y: f32 inplace t",
     "in place of 't', a computed value"},
    {"input x: f32[4, 8]", "y = neg(x) return y: bf16 inplace x",
     "output 'y' is bf16[4, 8] but in place of 'x', which is f32[4, 8]: dtype and shape must be "
     "equal"},
    {"input x: f32[8]", "y = add(x, constant(1)) z = sum \"n->\"(y) return z: f32 inplace x",
     "output 'z' is f32 but in place of 'x', which is f32[8]"},
    {"input x: f32[4, 8]", "y = neg(x) return y: f32 strides[16, 1] inplace x",
     "output 'y' has strides of its own but is in place of 'x': leave them out"},
    {"input x: f32[4, 8]", "y = neg(x) return y: f32 align 4 inplace x",
     "output 'y' has an align of its own"},
    {"input x: f32[4, 8]", "y = neg(x) z = relu(x) return y: f32 inplace x, z: f32 inplace x",
     "outputs 'y' and 'z' are both in place of 'x'"},
    {"input x: f32[4, 8] strides[0, 1]", "y = neg(x) return y: f32 inplace x",
     "output 'y' overlaps itself"},
};

TEST_CASE("outputs in place of an input") {
  for (const Case& bad : kInPlace) check_case(bad, "");
  Chain chain = small_chain();
  chain.outputs[0].in_place = 9;
  check_rejected(chain, kInvalid, "in place of value number 9, which the chain does not have");
  chain.outputs[0].in_place = 0;
  const VerifiedChain verified = llvm::cantFail(verify(chain));
  CHECK(verified.output_type(0) == verified.info(0).type);
}

TEST_CASE("elementwise values") {
  for (const Case& bad : kElementwise) check_case(bad, "");
  // No dimension of x has b's size: no labels would align them.
  const ErrorReport report = verify_report(llvm::cantFail(
      parse("chain c(input x: f32[4, 8], input b: f32[5]) { y = add(x, b) return y: f32 }")));
  CHECK(report.message == "dimension 1 of 'y' has size 8 in 'x' and 5 in 'b': make them equal");
}

TEST_CASE("the usual decimals of the largest f32 are finite") {
  llvm::cantFail(verify(llvm::cantFail(
      parse("chain c(input x: f32[4]) {\n"
            "  y = clamp(x, lo = -3.4028235e38, hi = 3.4028235e38)\n  return y: f32 }"))));
}

TEST_CASE("outputs and unused values") {
  for (const Case& bad : kOutputs) check_case(bad, "");
}

TEST_CASE("the error has the value's position") {
  auto chain = parse(
      "chain c(input x: f32[4, 8], input b: f32[4]) {\n  a = neg(x)\n  y = add(a, b)"
      "\n  return y: f32 }");
  REQUIRE(bool(chain));
  const ErrorReport report = verify_report(std::move(*chain));
  CHECK(report.at.line == 3);
  CHECK(report.at.column == 3);
}

TEST_CASE("names") {
  for (std::string name : {"", "7", "a b", "x\"y", "\xc3\xa9", "a\n", "int main(){}"}) {
    CAPTURE(name);
    Chain chain = small_chain();
    chain.values[1].name = name;
    check_rejected(chain, kInvalid, "is not an identifier");
    chain = small_chain();
    chain.name = name;
    check_rejected(chain, kInvalid, "chain name");
    chain = small_chain();
    chain.symbol = Symbol{name, 0, 1};
    check_rejected(chain, kInvalid, "symbol name");
  }
  Chain chain = small_chain();
  chain.values[1].name = std::string("a\tb");
  check_rejected(chain, kInvalid, "'a\\x09b'");
  chain = small_chain();
  chain.values[1].name = std::string(kMaxNameBytes, 'y');
  CHECK(verify_report(chain).code == ErrorCode::kOk);
  chain.values[1].name += "y";
  check_rejected(chain, kLimit, "has 129 bytes");
  chain = small_chain();
  chain.values[1].name = std::string("x");
  check_rejected(chain, kInvalid, "name 'x' is taken");
}

TEST_CASE("operands that are unknown or not defined yet") {
  for (ValueId id : {-1, 2, 1 << 30}) {
    Chain chain = small_chain();
    chain.values[1].operands[0].value = id;
    check_rejected(chain, kInvalid, fmt::format("'y' uses value number {}", id));
  }
  Chain chain = small_chain();
  chain.values[1].operands[0].value = 1;
  check_rejected(chain, kInvalid, "'y' uses 'y', which is not defined before it");
  chain = small_chain();
  chain.values[0].op = Op::kConstant;
  chain.values[0].operands = {{1, ""}};
  check_rejected(chain, kInvalid, "'x' has 1 operand: 'constant' takes 0");
  for (ValueId id : {-1, 2}) {
    chain = small_chain();
    chain.outputs[0].value = id;
    check_rejected(chain, kInvalid, fmt::format("output 0 is value number {}", id));
    chain = small_chain();
    chain.values[1] = Value();
    chain.values[1].name = std::string("y");
    chain.values[1].op = Op::kContract;
    chain.values[1].equation = std::string("mk,nk->mn");
    chain.values[1].operands = {{0, ""}, {0, ""}};
    chain.values[1].ragged = RaggedLabel{'m', 'e', id};
    check_rejected(chain, kInvalid, fmt::format("'y' uses value number {}", id));
  }
}

TEST_CASE("chains that only code can build") {
  Chain chain = small_chain();
  chain.parameter(Role::kInput, "late", tensor({4}));
  check_rejected(chain, kInvalid, "parameter 'late' comes after operation 'y'");

  chain = small_chain();
  chain.values[0].type.shape[0].symbolic = true;
  check_rejected(chain, kInvalid, "dimension 0 of parameter 'x' is symbolic but the chain has no");
  chain = small_chain();
  chain.values[0].ragged = RaggedLabel{'m', 'e', 0};
  check_rejected(chain, kInvalid,
                 "'x' is a parameter with a ragged label: only contractions, sums");
  chain = small_chain();
  chain.values[1] = Value();
  chain.values[1].name = std::string("y");
  chain.values[1].op = Op::kReduceMax;
  chain.values[1].equation = std::string("mn->en");
  chain.values[1].operands = {{0, ""}};
  chain.values[1].ragged = RaggedLabel{'m', 'e', 0};
  check_rejected(chain, kInvalid, "'reduce_max' of 'y' is ragged: only a sum is by group");
  chain = small_chain();
  chain.values[1].op = static_cast<Op>(200);
  check_rejected(chain, kInvalid, "'y' has operation number 200");
  chain = small_chain();
  chain.values[0].type.dtype = static_cast<DType>(200);
  check_rejected(chain, kInvalid, "'x' has dtype number 200");
  chain = small_chain();
  chain.outputs[0].dtype = static_cast<DType>(200);
  check_rejected(chain, kInvalid, "output 'y' has dtype");
  for (double number :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    chain = small_chain();
    chain.values[1].op = Op::kClamp;
    chain.values[1].attributes[1] = number;
    check_rejected(chain, kInvalid, "attribute 'hi' of 'y' is ");
  }
}

TEST_CASE("ends must be a parameter in memory") {
  Chain chain = small_chain();
  const ValueId ends = 0;
  chain.values[0].type = tensor({3}, DType::kI32);
  chain.values[0].role = Role::kScalar;
  check_rejected(chain, kInvalid, "scalar 'x' has type i32[3]");
  chain = small_chain();
  chain.values[1].op = Op::kContract;
  chain.values[1].equation = std::string("mn,mk->enk");
  chain.values[1].operands = {{0, ""}, {0, ""}};
  chain.values[1].ragged = RaggedLabel{'m', '\n', ends};
  check_rejected(chain, kInvalid, "ends 'x' of 'y'");
}

TEST_CASE("counts") {
  Chain chain = small_chain();
  while (chain.values.size() < kMaxOps + 2) {
    chain.outputs[0].value =
        chain.elementwise(Op::kNeg, {{static_cast<ValueId>(chain.values.size()) - 1, ""}});
  }
  check_rejected(chain, kLimit, "chain 'c' has 257 operations");
  chain = small_chain();
  for (int i = 0; i < kMaxParameters; ++i) {
    chain.values.insert(chain.values.begin(), Value());
  }
  check_rejected(chain, kLimit, "chain 'c' has 129 parameters");
  chain = small_chain();
  for (int i = 0; i < 31; ++i) chain.returns(1, DType::kF32);
  CHECK(verify_report(chain).code == ErrorCode::kOk);
  chain.returns(1, DType::kF32);
  check_rejected(chain, kLimit, "chain 'c' has 33 outputs");
}
