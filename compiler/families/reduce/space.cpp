// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/reduce/space.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

// The term axis along which what the terms read and store is adjacent, or -1.
int adjacent_terms(const GroupProgram& terms, const ReduceSpace& reduce) {
  for (int a = 0; a < reduce.term_rank; ++a) {
    const Axis& axis = reduce.space.axes[a];
    bool adjacent = false, apart = axis.extent.size == 0;
    for (size_t i = 0; i < terms.tensors.size(); ++i) {
      const i64 step = axis.stride[reduce.prologue + static_cast<int>(i)];
      adjacent |= step == 1;
      apart |= step != 0 && step != 1;
    }
    if (adjacent && !apart) return a;
  }
  return -1;
}

// Moves a term axis after the free ones where what the terms read and store is adjacent along it: a
// vector of terms is then one access, and a vector of results would be as many as it has elements.
// Sums of rows (column_sums.h) are single numbers.
void put_terms_last(const GroupContext& context, ReduceSpace& reduce) {
  auto& axes = reduce.space.axes;
  const GroupProgram& terms = context.tensors.prologue;
  if (context.group.adds_column_sums || axes.size() == kMaxDims) return;
  // Which axes merge, and so the width of a vector, may depend on the number of rows.
  if (context.options.batch_invariant) return;
  for (const TensorUse& tensor : terms.tensors) {
    // The vectors of a row do not begin at multiples of a period.
    if (tensor.rows || tensor.period != 0) return;
  }
  const int along = adjacent_terms(terms, reduce);
  if (along < 0) return;
  std::rotate(axes.begin() + along, axes.begin() + along + 1, axes.end());
  --reduce.term_rank;
  reduce.along_terms = true;
}

}  // namespace

ReduceSpace make_reduce_space(const GroupContext& context) {
  ReduceSpace result;
  const ValueId sum = context.group.anchors[0].value;
  const ValueInfo& info = context.chain.info(sum);
  const ValueId operand = context.chain.value(sum).operands[0].value;
  const auto& shape = context.chain.info(operand).type.shape;
  llvm::SmallVector<int, 8> operand_dim, result_dim;
  const auto add = [&](int d, AxisKind kind, int in_result) {
    result.space.axes.push_back({kind, extent_of(shape[d]), {}});
    operand_dim.push_back(d);
    result_dim.push_back(in_result);
  };
  const auto& grouped = info.grouped_terms;
  if (grouped) add(grouped->dim, AxisKind::kApart, -1);
  for (int d : info.summed) {
    if (!grouped || d != grouped->dim) add(d, AxisKind::kTerm, -1);
  }
  if (grouped) {
    result.space.axes.push_back({AxisKind::kApart, extent_of(info.type.shape[grouped->group]), {}});
    operand_dim.push_back(-1);
    result_dim.push_back(grouped->group);
  }
  for (int r = 0; r < info.type.rank(); ++r) {
    if (!grouped || r != grouped->group) add(info.operand_dims[0][r], AxisKind::kFree, r);
  }
  result.prologue = add_tensors(result.space, context.tensors.prologue, operand_dim);
  result.program = add_tensors(result.space, context.tensors.program, result_dim);
  if (!context.tensors.prologue.tensors.empty()) {
    sort_axes(result.space, AxisKind::kTerm, result.prologue);
  }
  sort_axes(result.space, AxisKind::kFree, result.program + first_store(context.tensors.program));
  merge_axes(result.space);
  for (const Axis& axis : result.space.axes) result.term_rank += axis.kind == AxisKind::kTerm;
  if (!grouped) {
    put_terms_last(context, result);
    return result;
  }
  ++result.term_rank;
  // A vector of results is of one group.
  if (result.space.axes.back().kind == AxisKind::kApart) {
    const size_t tensors = result.space.axes.back().stride.size();
    result.space.axes.push_back({AxisKind::kFree, Extent(1), {}});
    result.space.axes.back().stride.assign(tensors, 0);
  }
  return result;
}

}  // namespace catenary
