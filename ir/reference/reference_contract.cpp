// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/reference_contract.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/parallel.h"
#include "ir/reference/reference_accumulate.h"
#include "ir/reference/reference_interval.h"
#include "ir/reference/reference_program.h"

namespace catenary {
namespace {

using Axes = llvm::SmallVector<ContractionAxis, 2>;

constexpr i64 kTile = 128;  // rows and columns of the result per work item
constexpr i64 kSlab = 512;  // terms packed at a time; a multiple of kWholeTerms

struct Offsets {
  i64 left = 0;
  i64 right = 0;
  i64 result = 0;
};

// The offsets of position `index` of a class of labels, the last label varying fastest.
Offsets locate(const Axes& axes, i64 index) {
  Offsets at;
  for (size_t i = axes.size(); i-- > 0;) {
    const i64 position = index % axes[i].size;
    index /= axes[i].size;
    at.left += position * axes[i].left;
    at.right += position * axes[i].right;
    at.result += position * axes[i].result;
  }
  return at;
}

i64 count(const Axes& axes) {
  i64 product = 1;
  for (const ContractionAxis& axis : axes) product *= axis.size;
  return product;
}

ContractionAxis make_axis(const ContractionLabel& label, i64 size, const TensorType& left,
                          const TensorType& right, const TensorType& result) {
  ContractionAxis axis;
  axis.label = label.label;
  axis.size = size;
  if (label.left >= 0) axis.left = left.strides[label.left];
  if (label.right >= 0) axis.right = right.strides[label.right];
  if (label.result >= 0) axis.result = result.strides[label.result];
  axis.result_dim = label.result;
  return axis;
}

// Largest magnitude in a row or column, infinite if an element is not an exact integer.
void note_magnitude(double& largest, const Interval& x) {
  const bool integer = x.error == 0 && x.value == std::nearbyint(x.value);
  largest =
      std::max(largest, integer ? std::fabs(x.value) : std::numeric_limits<double>::infinity());
}

// The packed part of one operand: `lines` rows or columns by up to kSlab terms.
class Packed {
 public:
  // Rows are contiguous, terms innermost. Columns are in panels of kLanes columns, columns
  // innermost; unused columns of a panel are zero.
  Packed(int side, const ContractionOperand& operand, bool tf32, i64 lines, i64 terms)
      : side_(side),
        operand_(operand),
        tf32_(tf32),
        lines_(lines),
        has_errors_(operand.data == nullptr || tf32),  // the rounding of a tie to tf32 has an error
        largest(lines, 0.0),
        value_(padded(lines) * std::min(terms, kSlab), 0.0),
        error_(has_errors_ ? value_.size() : 0, 0.0) {}

  bool has_errors() const { return has_errors_; }

  void fill(llvm::ArrayRef<i64> line_offset, llvm::ArrayRef<i64> term_offset) {
    terms_ = static_cast<i64>(term_offset.size());
    for (i64 line = 0; line < lines_; ++line) {
      for (i64 k = 0; k < terms_; ++k) {
        Interval x = operand_.at(line_offset[line] + term_offset[k]);
        if (tf32_) x = tf32_interval(x);
        note_magnitude(largest[line], x);
        const i64 at =
            side_ == 0 ? line * terms_ + k : (line / kLanes * terms_ + k) * kLanes + line % kLanes;
        value_[at] = x.value;
        if (has_errors_) error_[at] = x.error;
      }
    }
  }

  const double* value(i64 line) const { return value_.data() + line * terms_; }
  const double* error(i64 line) const {
    return has_errors_ ? error_.data() + line * terms_ : nullptr;
  }

 private:
  static i64 padded(i64 lines) { return ceil_div(lines, kLanes) * kLanes; }

  int side_;
  const ContractionOperand& operand_;
  bool tf32_;
  i64 lines_;
  bool has_errors_;
  i64 terms_ = 0;

 public:
  std::vector<double> largest;  // per line, over all slabs

 private:
  std::vector<double> value_;
  std::vector<double> error_;
};

}  // namespace

ContractionTask::ContractionTask(const VerifiedChain& chain, llvm::ArrayRef<TensorType> types,
                                 ValueId id, std::vector<i64> ends)
    : shape_(types[id].shape), rule_(sum_rule(chain, id)), ends_(std::move(ends)) {
  const Value& value = chain.value(id);
  const TensorType& left = types[value.operands[0].value];
  const TensorType& right = types[value.operands[1].value];
  const Contraction& classes = *chain.info(id).contraction;
  // One f32 operand of two is a dequantised weight, and two are dequantised fp8: not rounded.
  tf32_ = rule_ == SumRule::kTensor && left.dtype == DType::kF32 && right.dtype == DType::kF32;
  const auto add = [&](Axes& axes, llvm::ArrayRef<ContractionLabel> labels) {
    for (const ContractionLabel& label : labels) {
      const i64 size =
          label.left >= 0 ? left.shape[label.left].size : right.shape[label.right].size;
      axes.push_back(make_axis(label, size, left, right, types[id]));
    }
  };
  add(nest_.batch, classes.batch);
  add(nest_.m, classes.m);
  add(nest_.n, classes.n);
  add(nest_.k, classes.k);
  if (!value.ragged) return;
  ragged_label_ = value.ragged->label;
  group_ = make_axis(*classes.ragged_group, static_cast<i64>(ends_.size()), left, right, types[id]);
}

i64 ContractionTask::num_parts() const {
  return ragged_label_ ? static_cast<i64>(ends_.size()) : 1;
}

ContractionNest ContractionTask::part(i64 group) const {
  ContractionNest nest = nest_;
  if (!ragged_label_) return nest;
  const i64 start = group == 0 ? 0 : ends_[group - 1];
  for (Axes* axes : {&nest.m, &nest.k}) {
    for (ContractionAxis& axis : *axes) {
      if (axis.label != ragged_label_) continue;
      axis.size = ends_[group] - start;
      nest.left += start * axis.left;
      nest.right += start * axis.right;
      nest.result += start * axis.result;
    }
  }
  nest.right += group * group_.right;
  nest.result += group * group_.result;
  return nest;
}

std::optional<i64> ContractionTask::group_of(llvm::ArrayRef<i64> at) const {
  if (!ragged_label_) return 0;
  if (group_.result_dim >= 0) return at[group_.result_dim];
  for (const ContractionAxis& axis : nest_.m) {
    if (axis.label != ragged_label_) continue;
    const i64 group =
        std::upper_bound(ends_.begin(), ends_.end(), at[axis.result_dim]) - ends_.begin();
    if (group < num_parts()) return group;
  }
  return std::nullopt;
}

Interval ContractionTask::element(i64 index, OperandSource operand) const {
  llvm::SmallVector<i64, 4> at;
  unravel(index, shape_, at);
  const auto group = group_of(at);
  if (!group) return {};
  const ContractionNest nest = part(*group);
  i64 left = 0;
  i64 right = *group * group_.right;
  for (const Axes* axes : {&nest_.batch, &nest_.m, &nest_.n}) {
    for (const ContractionAxis& axis : *axes) {
      left += at[axis.result_dim] * axis.left;
      right += at[axis.result_dim] * axis.right;
    }
  }
  // K-grouped: the K range starts at the group's first position. M-grouped: the row coordinate
  // suffices.
  if (group_.result_dim >= 0) {
    left += nest.left;
    right += nest.right;
  }
  const i64 terms = count(nest.k);
  Accumulator sum(rule_);
  double largest[2] = {0, 0};
  for (i64 k = 0; k < terms; ++k) {
    const Offsets step = locate(nest.k, k);
    Interval x[2] = {operand(0, left + step.left), operand(1, right + step.right)};
    for (int side = 0; side < 2; ++side) {
      if (tf32_) x[side] = tf32_interval(x[side]);
      note_magnitude(largest[side], x[side]);
    }
    sum.add(x[0], x[1]);
  }
  return sum.result(is_exact_sum(rule_, terms, largest[0], largest[1]));
}

void ContractionTask::evaluate(const ContractionOperand& left, const ContractionOperand& right,
                               int threads, llvm::MutableArrayRef<Interval> result) const {
  std::fill(result.begin(), result.end(), Interval{});
  // first[p]: the first work item of part p.
  std::vector<i64> first(static_cast<size_t>(num_parts()) + 1, 0);
  for (i64 p = 0; p < num_parts(); ++p) {
    const ContractionNest nest = part(p);
    first[p + 1] = first[p] + count(nest.batch) * ceil_div(count(nest.m), kTile) *
                                  ceil_div(count(nest.n), kTile);
  }
  const ContractionOperand operands[2] = {left, right};
  parallel_for(first.back(), threads, [&](i64 work) {
    const i64 p = std::upper_bound(first.begin(), first.end(), work) - first.begin() - 1;
    const ContractionNest nest = part(p);
    const i64 columns = ceil_div(count(nest.n), kTile);
    const i64 rows = ceil_div(count(nest.m), kTile);
    const i64 index = work - first[p];
    tile(nest, index / columns / rows, index / columns % rows * kTile, index % columns * kTile,
         operands, result);
  });
}

void ContractionTask::tile(const ContractionNest& nest, i64 batch, i64 row, i64 column,
                           const ContractionOperand (&operands)[2],
                           llvm::MutableArrayRef<Interval> result) const {
  const i64 rows = std::min(kTile, count(nest.m) - row);
  const i64 columns = std::min(kTile, count(nest.n) - column);
  const i64 terms = count(nest.k);
  const Offsets base = locate(nest.batch, batch);
  llvm::SmallVector<i64, kTile> left_line, right_line, row_result, column_result;
  for (i64 r = 0; r < rows; ++r) {
    const Offsets at = locate(nest.m, row + r);
    left_line.push_back(nest.left + base.left + at.left);
    row_result.push_back(nest.result + base.result + at.result);
  }
  for (i64 c = 0; c < columns; ++c) {
    const Offsets at = locate(nest.n, column + c);
    right_line.push_back(nest.right + base.right + at.right);
    column_result.push_back(at.result);
  }

  Packed a(0, operands[0], tf32_, rows, terms);
  Packed b(1, operands[1], tf32_, columns, terms);
  const i64 panels = ceil_div(columns, kLanes);
  std::vector<LaneSums> sums(static_cast<size_t>(rows * panels));
  for (i64 k = 0; k < terms; k += kSlab) {
    std::vector<i64> left_term, right_term;
    for (i64 t = k; t < std::min(k + kSlab, terms); ++t) {
      const Offsets at = locate(nest.k, t);
      left_term.push_back(at.left);
      right_term.push_back(at.right);
    }
    a.fill(left_line, left_term);
    b.fill(right_line, right_term);
    for (i64 panel = 0; panel < panels; ++panel) {
      const PackedTerms right = {b.value(panel * kLanes), b.error(panel * kLanes)};
      for (i64 r = 0; r < rows; ++r) {
        accumulate(rule_, {a.value(r), a.error(r)}, right, static_cast<i64>(left_term.size()),
                   sums[panel * rows + r]);
      }
    }
  }

  for (i64 r = 0; r < rows; ++r) {
    for (i64 c = 0; c < columns; ++c) {
      const i64 at = row_result[r] + column_result[c];
      const auto interval =
          lane_result(rule_, sums[c / kLanes * rows + r], static_cast<int>(c % kLanes), terms,
                      is_exact_sum(rule_, terms, a.largest[r], b.largest[c]));
      result[at] =
          interval ? *interval
                   : element(at, [&](int side, i64 offset) { return operands[side].at(offset); });
    }
  }
}

}  // namespace catenary
