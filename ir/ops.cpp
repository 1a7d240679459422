// SPDX-License-Identifier: Apache-2.0
#include "ir/ops.h"

#include <fmt/ranges.h>

#include "ir/names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace catenary {
namespace {

#define ATTRS(...) \
  { __VA_ARGS__ }
constexpr OpInfo kOps[] = {
#define CATENARY_OP(id, text, kind, arity, attrs, exact, error) \
  {#text, OpKind::kind, arity, attrs, exact, error},
#include "ir/ops.def"
#undef CATENARY_OP
};
#undef ATTRS

constexpr Op kAll[] = {
#define CATENARY_OP(id, text, kind, arity, attrs, exact, error) Op::id,
#include "ir/ops.def"
#undef CATENARY_OP
};

// What other libraries call an operation.
constexpr std::pair<std::string_view, Op> kSynonyms[] = {
    {"swish", Op::kSilu},       {"matmul", Op::kContract},    {"mm", Op::kContract},
    {"bmm", Op::kContract},     {"gemm", Op::kContract},      {"dot", Op::kContract},
    {"linear", Op::kContract},  {"einsum", Op::kContract},    {"reduce_sum", Op::kSum},
    {"amax", Op::kReduceMax},   {"subtract", Op::kSub},       {"multiply", Op::kMul},
    {"divide", Op::kDiv},       {"maximum", Op::kMax},        {"minimum", Op::kMin},
    {"negative", Op::kNeg},     {"clip", Op::kClamp},         {"reciprocal", Op::kRecip},
    {"power", Op::kPow},        {"absolute", Op::kAbs},       {"where", Op::kSelect},
    {"logistic", Op::kSigmoid}, {"dequantize", Op::kDequant}, {"less", Op::kLt},
    {"greater", Op::kGt},       {"equal", Op::kEq},           {"not_equal", Op::kNe},
    {"less_equal", Op::kLe},    {"greater_equal", Op::kGe}};

// The spelling of the operation that other libraries call `text`; "": there is none.
std::string_view known_elsewhere(std::string_view text) {
  for (const auto& [name, op] : kSynonyms) {
    if (name == text) return op_info(op).text;
  }
  return {};
}

}  // namespace

const OpInfo& op_info(Op op) { return kOps[static_cast<size_t>(op)]; }

std::optional<Op> find_op(std::string_view text) {
  for (Op op : kAll) {
    if (op_info(op).text == text) return op;
  }
  return std::nullopt;
}

llvm::ArrayRef<Op> all_ops() { return kAll; }

std::string op_choices(std::string_view text, bool elementwise) {
  llvm::SmallVector<std::string_view, 32> known;
  for (Op op : kAll) {
    if (op != Op::kParameter && (!elementwise || is_elementwise(op))) {
      known.push_back(op_info(op).text);
    }
  }
  const std::string_view meant = known_elsewhere(text);
  return fmt::format("{}: use one of {}",
                     llvm::is_contained(known, meant)
                         ? fmt::format(" (did you mean {}?)", quoted(meant))
                         : suggestion(text, known),
                     fmt::join(known, ", "));
}

}  // namespace catenary
