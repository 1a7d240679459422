// SPDX-License-Identifier: Apache-2.0
#include "ir/ops.h"

#include <fmt/ranges.h>

#include "ir/names.h"
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
  return fmt::format("{}: use one of {}", suggestion(text, known), fmt::join(known, ", "));
}

}  // namespace catenary
