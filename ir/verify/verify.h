// SPDX-License-Identifier: Apache-2.0
// Chain -> VerifiedChain. The only maker of VerifiedChain: later stages rely on the facts that this
// header lists and do not check them again.
#pragma once

#include "ir/chain.h"

namespace catenary {

// A contraction's labels by class. Order within a class is the order in the result (batch, M, N)
// or in the left operand (K). Dimension numbers index the shapes of operands and result; -1 if a
// tensor lacks the label.
struct ContractionLabel {
  char label = 0;
  Dim size;
  int left = -1;
  int right = -1;
  int result = -1;
};

struct Contraction {
  llvm::SmallVector<ContractionLabel, 2> batch;  // left, right and result
  llvm::SmallVector<ContractionLabel, 2> m;      // left and result
  llvm::SmallVector<ContractionLabel, 2> n;      // right and result
  llvm::SmallVector<ContractionLabel, 2> k;      // left and right
  // M-grouped: `group` is only in the right operand; K-grouped: only in the result. In no class.
  std::optional<ContractionLabel> ragged_group;
};

// A dimension whose indices are divided into groups: the rows of an M-grouped contraction, of
// elementwise values of them, and of elementwise values with a ragged label of their own. An
// elementwise operand may hold the label of the group (`b @ "en"`): an element in a row of group g
// reads index g there. In a row of no group such an operand is 0.
struct GroupedRows {
  int dim = -1;  // of this value
  char group = 0;
  ValueId ends = -1;
  bool operator==(const GroupedRows&) const = default;
};

// The terms of a sum by group: dimension `dim` of the operand is divided by `ends`, and dimension
// `group` of this value is the group.
struct GroupedTerms {
  int dim = -1;
  int group = -1;
  ValueId ends = -1;
};

// What verify() has derived about one value.
struct ValueInfo {
  TensorType type;  // shape always; strides always (contiguous for values that are not parameters)
  std::string labels;  // one letter per dimension, or empty
  // Elementwise and cast: per operand, the operand's dimension for each dimension of this value, or
  // -1 where it is broadcast. Reduction: the map from this value's dimensions to the operand's; -1:
  // the group of a sum by group.
  llvm::SmallVector<llvm::SmallVector<int, 4>, 2> operand_dims;
  std::optional<GroupedRows> rows;
  // Elementwise: per operand, its dimension that takes the group of this value's row, or -1.
  llvm::SmallVector<int, 2> operand_group;
  std::optional<Contraction> contraction;  // kContract
  llvm::SmallVector<int, 4> summed;        // reduction: the operand's dimensions that are reduced
  std::optional<GroupedTerms> grouped_terms;  // a sum by group
};

// Invariants of every VerifiedChain:
//  - names are unique identifiers; operands come before their uses; every output names a value;
//  - every type has strides; sizes are in [0, kMaxDimSize], bytes fit kMaxTensorBytes;
//  - output tensors do not overlap themselves; one that is in place of an input has its dtype,
//  shape
//    and layout, and no other output is in place of that input;
//  - elementwise and cast values have dtype f32 except casts, which have their own; a contraction's
//    value is f32 and both its operands have one float dtype, or one is a dequant
//    (f32) and the other bf16 or f16;
//  - a symbolic dimension is never inside a contiguous stride (outside it are sizes of 1, or
//  strides are given).
class VerifiedChain {
 public:
  const Chain& chain() const { return chain_; }
  const Value& value(ValueId id) const { return chain_.values[id]; }
  const ValueInfo& info(ValueId id) const { return info_[id]; }
  int num_values() const { return static_cast<int>(info_.size()); }

  // The type of output `i` in memory: the value's shape, the output's dtype and strides; in place
  // of an input, its type.
  const TensorType& output_type(int i) const { return outputs_[i]; }

  // Parameter value ids in order (scalars included).
  llvm::ArrayRef<ValueId> parameters() const { return parameters_; }

 private:
  friend Expected<VerifiedChain> verify(Chain chain);
  VerifiedChain() = default;
  Chain chain_;
  std::vector<ValueInfo> info_;
  std::vector<TensorType> outputs_;
  llvm::SmallVector<ValueId, 8> parameters_;
};

// The dimension that the ragged label of value `id`, which has one, divides into groups.
Dim ragged_dim(const VerifiedChain& chain, ValueId id);

// For a builder that checks every call. The rules of the newest value, of the newest output or of
// the symbol, as verify() has them: limits, names, types. `info`: the facts about the values that
// were checked before; the values since are added. A value may come before a parameter here, which
// verify() allows only in the other order.
Error check_last_value(const Chain& chain, std::vector<ValueInfo>& info);
Error check_last_output(const Chain& chain, std::vector<ValueInfo>& info);
Error check_symbol(const Chain& chain);
Error check_chain_name(const Chain& chain);

// Checks every rule of the IR; the error names the value, the rule and the fix (kInvalidChain,
// kResourceLimit), with the value's position if the chain is from text.
Expected<VerifiedChain> verify(Chain chain);

// The name of each output: that of its value. Where a value is returned again: y, y.1, y.2.
std::vector<std::string> output_names(const VerifiedChain& chain);

}  // namespace catenary
