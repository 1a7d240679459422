// SPDX-License-Identifier: Apache-2.0
// The parts of verify(), one per kind of rule. Private to verify*.cpp. Each takes the chain and the
// facts about the previous values, and returns the facts about one more value, or the error.
#pragma once

#include "ir/verify/verify.h"

namespace catenary {

// The chain with the facts about its first info.size() values. Symbolic dimensions have their
// largest size; operand ids of the value at hand are in [0, info.size()).
struct VerifyContext {
  const Chain& chain;
  std::vector<ValueInfo> info;

  const std::string& name(ValueId id) const { return chain.values[id].name; }
  bool is_parameter(ValueId id) const { return chain.values[id].op == Op::kParameter; }
};

// "768", or the symbol's name.
std::string size_text(const Chain& chain, const Dim& dim);

// Rank, sizes, elements and bytes of the shape; `who` is the subject of the message, such as
// "parameter 'x'".
Error check_shape(const Chain& chain, const TensorType& type, std::string_view who, Location at);

// Count and sign of the strides, bytes that they span, and align. Empty strides become contiguous,
// which a symbolic dimension inside a size other than 1 forbids.
Error check_layout(const Chain& chain, TensorType& type, std::string_view who, Location at);

// The packed layout fits the type; a layout of 4-bit elements begins every row with a byte.
Error check_packed(const TensorType& type, std::string_view who, Location at);
Error check_nibbles(const TensorType& type, std::string_view who, Location at);

// No two elements of the laid-out type share an address.
Error check_no_overlap(const TensorType& type, std::string_view who, Location at);

Expected<ValueInfo> check_parameter(const VerifyContext& context, const Value& value);
Expected<ValueInfo> check_contract(const VerifyContext& context, const Value& value);
Expected<ValueInfo> check_reduction(const VerifyContext& context, const Value& value);
Expected<ValueInfo> check_dequant(const VerifyContext& context, const Value& value);

// Does a cast take the value of `dequant`, which is checked? That of integers.
bool has_rounded_form(const Chain& chain, const Value& dequant);

// Rules of a value other than a contraction that uses `dequant`, which is checked.
Error check_dequant_user(const Chain& chain, const Value& value, const Value& dequant);

// Every elementwise op, and cast.
Expected<ValueInfo> check_elementwise(const VerifyContext& context, const Value& value);

// A value of `shape`, contiguous: f32, but for a cast its own dtype.
Expected<ValueInfo> computed_info(const VerifyContext& context, const Value& value,
                                  llvm::ArrayRef<Dim> shape, std::string labels);

// Labels of one tensor: letters, none twice, one per dimension. `where` is such as
// "equation \"mk,nk->mn\"".
Error check_labels(const VerifyContext& context, const Value& value, ValueId tensor,
                   std::string_view labels, std::string_view where);

// The ends of the value's ragged label: a parameter i32[groups], static and contiguous.
Error check_ends(const VerifyContext& context, const Value& value);

// labels.find as int; -1 if there is none.
inline int label_index(std::string_view labels, char label) {
  const size_t found = labels.find(label);
  return found == std::string_view::npos ? -1 : static_cast<int>(found);
}

}  // namespace catenary
