// SPDX-License-Identifier: Apache-2.0
// The operations of the IR as an enum and a table, from ops.def.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "llvm/ADT/ArrayRef.h"
#include "shared/int.h"

namespace catenary {

enum class Op : u8 {
#define CATENARY_OP(id, text, kind, arity, attrs, exact, error) id,
#include "ir/ops.def"
#undef CATENARY_OP
};

enum class OpKind : u8 { kStructural, kElementwise, kReduction };

struct OpInfo {
  std::string_view text;
  OpKind kind;
  int arity;
  std::array<std::string_view, 2> attributes;  // unused ones are empty
  bool exact;
  int error;  // bound of the functor's relative error, units of 2^-24
};

// The row of `op` in ops.def.
const OpInfo& op_info(Op op);

// The op spelled `text`, or nothing.
std::optional<Op> find_op(std::string_view text);

// Every op of the table, in order.
llvm::ArrayRef<Op> all_ops();

// " (did you mean 'relu'?): use one of add, ..., relu": the end of the sentence about an op that is
// not known. `elementwise`: only ops of that kind; else every op that a call in chain text may
// name.
std::string op_choices(std::string_view text, bool elementwise);

inline bool is_elementwise(Op op) { return op_info(op).kind == OpKind::kElementwise; }
inline bool is_reduction(Op op) { return op_info(op).kind == OpKind::kReduction; }

}  // namespace catenary
