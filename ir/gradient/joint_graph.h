// SPDX-License-Identifier: Apache-2.0
// The values of a chain and the gradient values that reverse mode adds, as one list in which
// operands come before their uses. Private to gradient*.cpp.
//
// A gradient is placed in a frame, the dimensions of the forward value that it belongs to. It may
// lack dimensions of its frame: it does not depend on those. So a sum's gradient needs no broadcast
// tensor, and a size of 1 that a later sum removes needs no reshape.
#pragma once

#include <map>

#include "ir/verify/verify.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary::gradient {

// In place of a dimension of the frame: the group of the frame's row.
inline constexpr int kByGroup = -1;

// A value in a frame: dims[d] is the frame's dimension that the value's dimension d is, or
// kByGroup. A gradient has the frame's size in each, a forward operand may have size 1 in place of
// it. A value by group is 0 in a row of no group.
struct Placed {
  ValueId id = -1;
  llvm::SmallVector<int, 4> dims;
  std::optional<GroupedRows> rows = std::nullopt;  // of the frame, where a dimension is kByGroup

  // The frame's dimension in which the value is given by group; -1: it is not.
  int row_dim() const { return rows ? rows->dim : -1; }
  // Does it depend on dimension `d` of the frame?
  bool varies_along(int d) const { return llvm::is_contained(dims, d) || d == row_dim(); }
};

// What is known of a value without verify().
struct JointNode {
  Value value;  // operands and ends are numbers of the graph
  llvm::SmallVector<Dim, 4> shape;
  DType dtype = DType::kF32;
};

class JointGraph {
 public:
  // Values 0 to num_forward() - 1 are those of the chain.
  explicit JointGraph(const VerifiedChain& forward);

  const VerifiedChain& forward() const { return forward_; }
  ValueId num_forward() const { return forward_.num_values(); }
  ValueId size() const { return static_cast<ValueId>(nodes_.size()); }
  const JointNode& node(ValueId id) const { return nodes_[id]; }
  bool is_forward(ValueId id) const { return id < num_forward(); }
  bool is_parameter(ValueId id) const { return nodes_[id].value.op == Op::kParameter; }

  // Every value that `id` reads, the ends of ragged groups last.
  llvm::SmallVector<ValueId, 4> operands(ValueId id) const;

  // The gradient of output `i`: a parameter in the output's dtype and layout, in the frame of its
  // value.
  Placed output_gradient(int i);

  // Forward value `id` in its own frame.
  Placed forward_value(ValueId id) const;

  // Operand `i` of the elementwise value `frame`, in the frame of that value.
  Placed forward_operand(ValueId frame, size_t i) const;

  Placed constant(double number);
  Placed elementwise(ValueId frame, Op op, llvm::ArrayRef<Placed> operands,
                     llvm::ArrayRef<double> attributes = {});

  // `x` itself if it has this dtype.
  Placed cast(const Placed& x, DType dtype);

  // `x` summed over all its dimensions but `kept`, in the order of `kept`. A kept dimension that
  // `x` lacks is not in the result.
  Placed sum(ValueId frame, const Placed& x, llvm::ArrayRef<int> kept);

  // `x`, which has the row dimension of `rows`, summed per group of its rows. `kept` has kByGroup
  // for the group; other dimensions as in sum().
  Placed sum_by_group(ValueId frame, const Placed& x, const GroupedRows& rows,
                      llvm::ArrayRef<int> kept);

  // One letter per dimension of the two operands and of the result.
  ValueId contract(const std::string& left_labels, ValueId left, const std::string& right_labels,
                   ValueId right, const std::string& labels, const Value& like);

  // `x` with every dimension of its frame, in order.
  Placed expanded(ValueId frame, const Placed& x);

  // Does `x` lack a dimension of its frame that is not of size 1?
  bool is_broadcast(ValueId frame, const Placed& x) const;

  // The letter of a frame's dimension.
  char letter(ValueId frame, int dim) const;

  // The ragged label of the frame's rows.
  RaggedLabel ragged_label(ValueId frame, const GroupedRows& rows) const;

  // The name that the value has in a chain if no other has it; the first proposal wins.
  void suggest_name(ValueId id, const std::string& name);

 private:
  ValueId append(Value value, llvm::ArrayRef<Dim> shape, DType dtype);
  Placed reduce(ValueId frame, const Placed& x, llvm::ArrayRef<int> kept,
                const std::optional<RaggedLabel>& ragged);

  const VerifiedChain& forward_;
  std::vector<JointNode> nodes_;
  std::map<std::string, ValueId> known_;  // by everything that its result depends on
};

inline constexpr Dim kUnit{1, false};

// Ops that a backward chain repeats only if it is told to. A maximum is not one of them: it is
// computed again from the very elements that the backward compares with it.
inline bool is_anchor(Op op) { return op == Op::kContract || op == Op::kSum; }

}  // namespace catenary::gradient
