// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/contraction_axes.h"

#include <algorithm>

#include "compiler/fusion/anchors.h"
#include "compiler/fusion/row_reductions.h"

namespace catenary {
namespace {

// Room for M, N and a split-K beside the batch.
constexpr int kMaxBatch = kMaxDims - 3;

class AxesBuilder {
 public:
  AxesBuilder(const GroupContext& context, bool swapped, bool transposed) : context_(context) {
    axes_.swapped = swapped;
    axes_.transposed = transposed;
    add_segments();
  }

  Expected<ContractionAxes> build() {
    add_label_axes();
    order_axes();
    if (Error error = check_axes(context_, axes_.space, /*terms=*/false)) return error;
    for (const ContractionSegment& segment : axes_.segments)
      if (Error error = check_axes(context_, segment.terms, /*terms=*/false)) return error;
    if (Error error = pick_matrix_axes()) return error;
    if (Error error = check_summed_rows()) return error;
    axes_.prefers_swap =
        store_step(axes_.m) == 1 && store_step(axes_.n) != 1 && axes_.n.extent.size > 1;
    axes_.blocks = columns_before_blocks();
    return std::move(axes_);
  }

 private:
  int matrices() const { return axes_.matrices(); }
  bool is_dual() const { return context_.group.accumulators.size() == 2; }
  int store_column() const { return matrices() + first_store(context_.tensors.program); }
  i64 store_step(const Axis& axis) const {
    return axis.stride.empty() ? 0 : axis.stride[store_column()];
  }
  // The program's tensors are before the column of blocks.
  int columns_before_blocks() const {
    return matrices() + static_cast<int>(context_.tensors.program.tensors.size());
  }
  int columns() const { return columns_before_blocks() + (context_.group.row_reductions ? 1 : 0); }

  const Value& value(const ContractionSegment& segment) const {
    return context_.chain.value(segment.anchor);
  }
  const Contraction& contraction(const ContractionSegment& segment) const {
    return *context_.chain.info(segment.anchor).contraction;
  }
  const Value& anchor() const { return value(axes_.segments[0]); }
  const Contraction& contraction() const { return contraction(axes_.segments[0]); }

  void add_segments() {
    const auto& anchors = context_.group.anchors;
    const int rank = context_.chain.info(anchors[0].value).type.rank();
    for (size_t i = 0; i < anchors.size(); ++i) {
      ContractionSegment segment;
      segment.anchor = anchors[i].value;
      segment.swapped =
          axes_.swapped != (i > 0 && is_mirrored(contraction(), contraction(segment), rank));
      if (is_dual() && i == 1) {
        add_b(axes_.segments[0], static_cast<int>(2 * i) + (segment.swapped ? 0 : 1));
        continue;
      }
      segment.a = matrices();
      add_operand(segment, static_cast<int>(2 * i) + (segment.swapped ? 1 : 0));
      add_b(segment, static_cast<int>(2 * i) + (segment.swapped ? 0 : 1));
      axes_.segments.push_back(std::move(segment));
    }
  }

  void add_b(ContractionSegment& segment, int matrix) {
    segment.b.push_back(matrices());
    add_operand(segment, matrix);
  }

  // An operand with its scales and zeros; `matrix` is its number in GroupTensors::matrices.
  void add_operand(ContractionSegment& segment, int matrix) {
    axes_.places.push_back(context_.tensors.matrices[matrix]);
    axes_.matrix_of.push_back(matrix);
    const auto& dequant = context_.tensors.dequants[matrix];
    if (!dequant) return;
    for (int place : {dequant->scale, dequant->zero}) {
      if (place < 0) continue;
      segment.numbers.push_back(matrices());
      axes_.places.push_back(place);
      axes_.matrix_of.push_back(matrix);
    }
  }

  void set_strides(Axis& axis, const ContractionSegment& segment,
                   const ContractionLabel& label) const {
    axis.stride.resize(matrices(), 0);
    const auto set = [&](int column) {
      const int dim = ContractionAxes::dim_of(segment, label, column);
      if (dim >= 0) axis.stride[column] = location(column).strides[dim];
    };
    set(segment.a);
    for (int column : segment.b) set(column);
    for (int column : segment.numbers) {
      const int dim = ContractionAxes::dim_of(segment, label, column);
      if (dim >= 0) axis.stride[column] = numbers_step(column, dim, label.size);
    }
  }

  // The step of numbers of blocks along a dimension of the matrix, in parts of an element, as many
  // as a block has rows: blocks of rows, and matrices of one block of rows each, then merge as rows
  // do. None along the columns.
  i64 numbers_step(int column, int dim, const Dim& size) const {
    const auto& strides = location(column).strides;
    const int rank = static_cast<int>(strides.size());
    if (dim == rank - 1) return 0;
    const i64 rows = axes_.rows_of_block(context_, column);
    if (dim < rank - 2) return strides[dim] * rows;
    const bool one_block = rows > 1 && !size.symbolic && size.size <= rows;
    return strides[one_block && dim > 0 ? dim - 1 : dim];
  }

  const MemoryLocation& location(int column) const {
    return context_.tensors.locations[axes_.places[column]];
  }

  // The label of a segment at a dimension of the result.
  const ContractionLabel& label_at(const ContractionSegment& segment, int result) const {
    const Contraction& c = contraction(segment);
    for (const auto* labels : {&c.batch, &c.m, &c.n}) {
      for (const ContractionLabel& label : *labels) {
        if (label.result == result) return label;
      }
    }
    return c.k.front();  // not reached: a result's dimension is of one of these classes
  }

  // An axis of the result, which all segments have.
  void add_axis(AxisKind kind, const ContractionLabel& label) {
    Axis axis;
    axis.kind = kind;
    axis.extent = extent_of(label.size);
    set_strides(axis, axes_.segments[0], label);
    for (const ContractionSegment& segment : llvm::drop_begin(axes_.segments))
      set_strides(axis, segment, label_at(segment, label.result));
    axes_.space.axes.push_back(std::move(axis));
    result_dim_.push_back(label.result);
  }

  void add_terms(ContractionSegment& segment, char apart) const {
    for (const auto& label : contraction(segment).k) {
      Axis axis;
      axis.kind = label.label == apart ? AxisKind::kFree : AxisKind::kTerm;
      axis.extent = extent_of(label.size);
      set_strides(axis, segment, label);
      axis.stride.resize(columns(), 0);
      segment.terms.axes.push_back(std::move(axis));
    }
  }

  void add_label_axes() {
    const Contraction& c = contraction();
    const auto& ragged = anchor().ragged;
    const char apart = ragged ? ragged->label : 0;
    if (ragged)
      axes_.ragged_rows = llvm::any_of(c.m, [&](const auto& l) { return l.label == apart; });
    if (ragged && !axes_.ragged_rows) add_axis(AxisKind::kGroup, *c.ragged_group);
    for (const auto& label : c.batch) add_axis(AxisKind::kBatch, label);
    // A ragged label is never merged with its neighbours: the ends count its elements only.
    for (const auto& label : axes_.swapped ? c.n : c.m) {
      add_axis(axes_.ragged_rows && label.label != apart ? AxisKind::kBatch : AxisKind::kM, label);
    }
    for (const auto& label : axes_.swapped ? c.m : c.n) add_axis(AxisKind::kN, label);
    add_tensors(axes_.space, context_.tensors.program, result_dim_);
    if (context_.group.row_reductions) add_blocks();
    for (ContractionSegment& segment : axes_.segments)
      add_terms(segment, axes_.ragged_rows ? 0 : apart);
  }

  // A column of a tensor that has the elements of a block side by side, and blocks after each
  // other: axes that it keeps apart do not merge.
  void add_blocks() {
    const FusionGroup& group = context_.group;
    llvm::SmallVector<i64, 8> steps(group.shape.size(), 0);
    i64 step = 1;
    for (int d : llvm::reverse(group.row_reductions->summed)) {
      steps[d] = step;
      step *= group.shape[d].size;
    }
    for (int d : llvm::reverse(kept_dims(group))) {
      steps[d] = step;
      step *= group.shape[d].size;
    }
    for (size_t a = 0; a < axes_.space.axes.size(); ++a)
      axes_.space.axes[a].stride.push_back(steps[result_dim_[a]]);
  }

  void order_axes() {
    // Batch axes first, whatever class their labels had.
    std::stable_sort(axes_.space.axes.begin(), axes_.space.axes.end(),
                     [](const Axis& a, const Axis& b) {
                       const auto rank = [](AxisKind kind) {
                         return kind == AxisKind::kGroup ? 0 : kind == AxisKind::kBatch ? 1 : 2;
                       };
                       return rank(a.kind) < rank(b.kind);
                     });
    for (AxisKind kind : {AxisKind::kBatch, AxisKind::kM, AxisKind::kN}) {
      sort_axes(axes_.space, kind, store_column());
    }
    merge_axes(axes_.space);
    for (ContractionSegment& segment : axes_.segments) {
      sort_axes(segment.terms, AxisKind::kTerm, segment.a);
      merge_axes(segment.terms);
    }
  }

  Axis unit_axis() const {
    Axis axis;
    axis.stride.assign(columns(), 0);
    return axis;
  }

  // Removes the axis of `kind` that a tile should span from the space; the others stay.
  template <class Better>
  Axis take(Space& space, AxisKind kind, Better better) const {
    Axis* best = nullptr;
    for (Axis& axis : space.axes) {
      if (axis.kind == kind && (best == nullptr || better(axis, *best))) best = &axis;
    }
    if (best == nullptr) return unit_axis();
    Axis taken = *best;
    space.axes.erase(best);
    return taken;
  }

  // A symbolic axis is larger than all others.
  static bool is_larger(const Axis& a, const Axis& b) {
    return (a.extent.scale != 0) > (b.extent.scale != 0) ||
           ((a.extent.scale != 0) == (b.extent.scale != 0) && a.extent.size > b.extent.size);
  }

  // The outer loop's count is a constant of the kernel, so a symbolic label is the inner one.
  Error pick_terms(ContractionSegment& segment) const {
    const auto contiguous_k = [&](const Axis& a, const Axis& b) {
      const auto rank = [&](const Axis& x) {
        return 3 * (x.extent.scale != 0) + (x.stride[segment.a] == 1) +
               (x.stride[segment.b[0]] == 1);
      };
      return rank(a) != rank(b) ? rank(a) > rank(b) : is_larger(a, b);
    };
    const bool ragged_terms = anchor().ragged && !axes_.ragged_rows;
    segment.k = take(segment.terms, ragged_terms ? AxisKind::kFree : AxisKind::kTerm, contiguous_k);
    segment.outer = take(segment.terms, AxisKind::kTerm, is_larger);
    if (segment.terms.axes.empty() && segment.outer.extent.scale == 0) return Error::success();
    return make_error_at(
        value(segment).at, ErrorCode::kUnsupported,
        "'{}' = contract \"{}\": the summed labels need more than two loops, or two "
        "of symbolic size, the limit of every family: order their strides so that "
        "they merge",
        value(segment).name, value(segment).equation);
  }

  // Whether a tile spans axis `a`, along which the results are contiguous, rather than `b`. Not
  // where it would be mostly empty: each element of `b` would have a tile of its own (RESULTS
  // model-24).
  bool spans_contiguous(const Axis& a, const Axis& b) const {
    constexpr i64 kFewColumns = 24, kTimes = 4;
    if (context_.group.row_reductions || sums_rows() || a.extent.scale != 0) return true;
    return a.extent.size >= kFewColumns ||
           (b.extent.scale == 0 && b.extent.size < kTimes * a.extent.size);
  }

  bool sums_rows() const {
    return llvm::any_of(context_.tensors.program.tensors,
                        [](const auto& tensor) { return tensor.row_stride != 0; });
  }

  Error pick_matrix_axes() {
    const auto contiguous_or_larger = [&](const Axis& a, const Axis& b) {
      const bool a_contiguous = store_step(a) == 1;
      const bool b_contiguous = store_step(b) == 1;
      if (a_contiguous == b_contiguous) return is_larger(a, b);
      return a_contiguous ? spans_contiguous(a, b) : !spans_contiguous(b, a);
    };
    // The axis along which a tile stores vectors.
    (axes_.transposed ? axes_.m : axes_.n) =
        take(axes_.space, axes_.transposed ? AxisKind::kM : AxisKind::kN, contiguous_or_larger);
    (axes_.transposed ? axes_.n : axes_.m) =
        take(axes_.space, axes_.transposed ? AxisKind::kN : AxisKind::kM, is_larger);
    for (ContractionSegment& segment : axes_.segments) {
      if (Error error = pick_terms(segment)) return error;
    }
    if (axes_.space.axes.size() > kMaxBatch) {
      return make_error_at(
          anchor().at, ErrorCode::kUnsupported,
          "'{}' = contract \"{}\" needs {} batch loops, above the limit of {}: order "
          "the strides so that labels merge",
          anchor().name, anchor().equation, axes_.space.axes.size(), kMaxBatch);
    }
    return Error::success();
  }

  // Sums of rows are over M: all of it, and no more.
  Error check_summed_rows() const {
    const auto& tensors = context_.tensors.program.tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].row_stride == 0) continue;
      const size_t column = matrices() + i;  // of the space, that of tensor i
      if (axes_.m.extent == tensors[i].summed_rows &&
          axes_.m.stride[column] == tensors[i].row_stride && axes_.n.stride[column] == 1) {
        continue;
      }
      return make_error_at(
          anchor().at, ErrorCode::kUnsupported,
          "'{}' does not sum the rows of '{}', which a tile holds: sum a contiguous "
          "value over all of its outer dimensions",
          context_.tensors.locations[tensors[i].location].binding.name, anchor().name);
    }
    return Error::success();
  }

  const GroupContext& context_;
  ContractionAxes axes_;
  llvm::SmallVector<int, 8> result_dim_;
};

}  // namespace

i64 ContractionAxes::rows_of_block(const GroupContext& context, int column) const {
  return context.tensors.dequants[matrix_of[column]]->block.rows;
}

Expected<ContractionAxes> make_contraction_axes(const GroupContext& context, bool swapped,
                                                bool transposed) {
  return AxesBuilder(context, swapped, transposed).build();
}

Error check_row_reductions(const GroupContext& context, const ContractionAxes& axes) {
  if (!context.group.row_reductions) return Error::success();
  const i64 columns = reduced_columns(context.group);
  const auto apart = [&](const Axis& axis) {
    return axis.extent == Extent(1) || axis.stride[axes.blocks] % columns == 0;
  };
  if (axes.n.stride[axes.blocks] == 1 && axes.n.extent.scale == 0 &&
      axes.n.extent.size % columns == 0 && apart(axes.m) && llvm::all_of(axes.space.axes, apart)) {
    return Error::success();
  }
  return make_error_at(
      context.chain.value(context.group.row_reductions->values[0]).at, ErrorCode::kUnsupported,
      "'{}' reduces columns of '{}' that are not neighbours in a tile's rows: store "
      "the result with them innermost",
      context.chain.value(context.group.row_reductions->values[0]).name,
      context.chain.value(axes.segments[0].anchor).name);
}

}  // namespace catenary
