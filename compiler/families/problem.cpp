// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/problem.h"

#include <algorithm>

#include "compiler/families/contraction_axes.h"
#include "compiler/fusion/row_reductions.h"

namespace catenary {
namespace {

class ProblemBuilder {
 public:
  ProblemBuilder(const GroupContext& context, const ContractionAxes& axes)
      : context_(context), axes_(axes) {}

  Expected<ContractionProblem> build() {
    ContractionProblem& p = problem_;
    p.swapped = axes_.swapped;
    p.transposed = axes_.transposed;
    p.program = bind_program(context_, context_.tensors.program, epilogue_space(), 0);
    p.vec = std::max(vector_width(p.program, 8), 4);
    p.slots = bind_slots(context_.tensors);
    p.scalars = context_.tensors.scalars;
    p.row_squares = context_.group.row_squares >= 0;
    p.reduced_columns = reduced_columns(context_.group);
    p.reduction_passes = RowNumbers(p.program).passes();
    p.gain = gain_operand(context_);
    if (Error error = fill_extents()) return error;
    p.formed = formed_programs(context_, p.space);
    p.formed_value = p.formed ? context_.group.row_data : -1;
    fill_operands();
    p.size = problem_sizes(context_, p);
    return std::move(p);
  }

 private:
  const Value& anchor() const { return context_.chain.value(axes_.segments[0].anchor); }
  const Contraction& contraction(const ContractionSegment& segment) const {
    return *context_.chain.info(segment.anchor).contraction;
  }
  const MemoryLocation& location(int column) const {
    return context_.tensors.locations[axes_.places[column]];
  }

  MatrixOperand matrix(const ContractionSegment& segment, int column) const {
    const MemoryLocation& memory = location(column);
    const bool is_a = column == segment.a;
    const Axis& row = is_a ? axes_.m : axes_.n;
    const i64 bytes = dtype_bytes(memory.dtype);
    MatrixOperand operand;
    operand.slot = axes_.places[column];
    // An axis of one step has no stride to respect.
    const auto step = [&](const Axis& axis) {
      return axis.extent == Extent(1) ? 0 : axis.stride[column];
    };
    operand.stride_row = step(row);
    operand.stride_k = step(segment.k);
    operand.stride_outer = step(segment.outer);
    const int count = static_cast<int>(axes_.space.axes.size());
    llvm::SmallVector<i64, 8> steps = {operand.stride_outer * bytes};
    for (int b = 0; b < count; ++b) {
      operand.stride_batch.at[kMaxDims - count + b] = axes_.space.axes[b].stride[column];
      steps.push_back(axes_.space.axes[b].stride[column] * bytes);
    }
    if (axes_.ragged_rows && !is_a) {
      const int group = contraction(segment).ragged_group->right;
      operand.stride_group = memory.strides[group];
      steps.push_back(operand.stride_group * bytes);
    }
    operand.k_major = operand.stride_k == 1 || operand.stride_row != 1;
    const i64 contiguous = operand.k_major ? operand.stride_k : operand.stride_row;
    const Extent& along = operand.k_major ? segment.k.extent : row.extent;
    steps.push_back((operand.k_major ? operand.stride_row : operand.stride_k) * bytes);
    // A tile of ragged rows (or terms) may start anywhere along the ragged dimension.
    const bool starts_anywhere =
        anchor().ragged && (axes_.ragged_rows ? is_a && !operand.k_major : operand.k_major);
    if (starts_anywhere) steps.push_back(bytes);
    // Elements that are not adjacent (a broadcast has stride 0) are copied one by one.
    const bool side_by_side = contiguous == 1 || along == Extent(1);
    operand.copy_bytes = static_cast<i32>(
        side_by_side ? std::max(access_bytes(memory.binding.align, steps), bytes) : bytes);
    return operand;
  }

  Expected<MathMode> math() const { return product_math(anchor(), multiplied_dtype(context_)); }

  Error fill_extents() {
    ContractionProblem& p = problem_;
    Expected<MathMode> found = math();
    if (!found) return found.takeError();
    p.space.math = *found;
    p.space.batch_rank = static_cast<i32>(axes_.space.axes.size());
    p.space.batch = space_extents(axes_.space);
    p.space.m = axes_.m.extent;
    p.space.n = axes_.n.extent;
    p.space.k = axes_.segments[0].k.extent;
    p.space.k_outer = axes_.segments[0].outer.extent.size;
    if (!anchor().ragged) return Error::success();
    p.ragged.kind = axes_.ragged_rows ? Ragged::kMGrouped : Ragged::kKGrouped;
    const ValueId ends = anchor().ragged->ends;
    p.ragged.num_groups = context_.chain.info(ends).type.shape[0].size;
    const SlotBinding wanted = parameter_location(context_.chain, ends).binding;
    const auto slot = llvm::find_if(p.slots, [&](const SlotBinding& s) {
      return s.kind == wanted.kind && s.index == wanted.index;
    });
    p.ragged.group_ends_slot = static_cast<i32>(slot - p.slots.begin());
    return Error::success();
  }

  ContractionOperand operand(const ContractionSegment& segment, int column) const {
    const MemoryLocation& memory = location(column);
    ContractionOperand operand{matrix(segment, column), memory.dtype, memory.weight,
                               traffic_at(memory, context_.symbol_hi), std::nullopt};
    const auto& dequant = context_.tensors.dequants[axes_.matrix_of[column]];
    if (dequant) add_dequant(segment, column, *dequant, operand);
    return operand;
  }

  void add_dequant(const ContractionSegment& segment, int column, const DequantTensors& tensors,
                   ContractionOperand& operand) const {
    const bool rows_by_k = has_rows_by_k(segment, column, operand.memory);
    const Axis& row = ContractionAxes::is_of_a(segment, column) ? axes_.m : axes_.n;
    const auto numbers = [&](int numbers_column) {
      const MemoryLocation& memory = location(numbers_column);
      operand.bytes += traffic_at(memory, context_.symbol_hi);
      operand.weight = operand.weight && memory.weight;
      BlockOperand block{axes_.places[numbers_column], memory.dtype, memory.strides.end()[-2],
                         memory.strides.end()[-1]};
      if (rows_by_k && !(row.extent == Extent(1))) block.stride_row = row.stride[numbers_column];
      const int count = static_cast<int>(axes_.space.axes.size());
      for (int b = 0; b < count; ++b) {
        block.stride_batch.at[kMaxDims - count + b] = axes_.space.axes[b].stride[numbers_column] /
                                                      axes_.rows_of_block(context_, numbers_column);
      }
      if (axes_.ragged_rows && !ContractionAxes::is_of_a(segment, column))
        block.stride_group = memory.strides[contraction(segment).ragged_group->right];
      return block;
    };
    DequantisedOperand dequant;
    dequant.block = tensors.block;
    dequant.packed = location(column).packed;
    // add_operand() has placed them after q.
    dequant.scale = numbers(column + 1);
    if (tensors.zero >= 0) dequant.zero = numbers(column + 2);
    dequant.rows_by_k = rows_by_k;
    operand.dequant = dequant;
  }

  // Is the row axis that of an outer dimension, because the rows of each matrix are one?
  bool has_outer_rows(const ContractionSegment& segment, int column) const {
    const int rows_dim = static_cast<int>(location(column).strides.size()) - 2;
    const Axis& row = ContractionAxes::is_of_a(segment, column) ? axes_.m : axes_.n;
    const Contraction& c = contraction(segment);
    for (const auto* labels : {&c.m, &c.n, &c.batch}) {
      for (const ContractionLabel& label : *labels) {
        if (ContractionAxes::dim_of(segment, label, column) == rows_dim)
          return label.size == Dim{1, false} && !(row.extent == Extent(1));
      }
    }
    return false;
  }

  // K is the last dimension and the row (M or N) the one before; all other labels step over whole
  // matrices. Blocks of several rows are of one matrix.
  bool has_rows_by_k(const ContractionSegment& segment, int column, const MatrixOperand& q) const {
    const auto& strides = location(column).strides;
    const int rank = static_cast<int>(strides.size());
    const auto& terms = contraction(segment).k;
    const i64 matrix = rank > 2 ? strides[rank - 3] : 0;
    const auto is_whole = [&](i64 step) { return step == 0 || (matrix > 0 && step % matrix == 0); };
    const i64 block_rows = axes_.rows_of_block(context_, column);
    return terms.size() == 1 && ContractionAxes::dim_of(segment, terms[0], column) == rank - 1 &&
           (block_rows == 1 || !has_outer_rows(segment, column)) &&
           ((column == segment.a ? axes_.m : axes_.n).extent == Extent(1) ||
            q.stride_row == strides[rank - 2]) &&
           llvm::all_of(q.stride_batch.at, is_whole) && is_whole(q.stride_group);
  }

  void fill_operands() {
    ContractionProblem& p = problem_;
    for (const ContractionSegment& segment : axes_.segments) {
      ContractionProduct product;
      product.a = static_cast<int>(p.a.size());
      product.k = segment.k.extent;
      product.k_outer = segment.outer.extent.size;
      p.a.push_back(operand(segment, segment.a));
      for (size_t i = 0; i < segment.b.size(); ++i) {
        product.b = static_cast<int>(p.b.size());
        product.accumulator = static_cast<int>(i);
        p.b.push_back(operand(segment, segment.b[i]));
        p.products.push_back(product);
      }
    }
    p.accumulator_n.assign(context_.group.accumulators.size(), axes_.n.extent);
    for (size_t i = 0; i < p.program.size(); ++i) {
      const ProgramLine& line = p.program[i];
      if (line.kind == ProgramLine::Kind::kStore) {
        p.outputs.push_back({static_cast<int>(i), line.operand});
      }
    }
  }

  // Batch axes, M, N with the program's columns only.
  Space epilogue_space() const {
    Space space;
    for (const Axis& axis : axes_.space.axes) space.axes.push_back(axis);
    space.axes.push_back(axes_.m);
    space.axes.push_back(axes_.n);
    for (Axis& axis : space.axes)
      axis.stride.erase(axis.stride.begin(), axis.stride.begin() + axes_.matrices());
    return space;
  }

  const GroupContext& context_;
  const ContractionAxes& axes_;
  ContractionProblem problem_;
};

}  // namespace

Expected<ContractionProblem> make_contraction_problem(const GroupContext& context) {
  if (Error error = check_group_operands(context, context.tensors.program)) return error;
  Expected<Orientation> orientation = find_orientation(context);
  if (!orientation) return orientation.takeError();
  auto axes = make_contraction_axes(context, orientation->swapped, /*transposed=*/false);
  if (axes && !orientation->fixed && axes->prefers_swap)
    axes = make_contraction_axes(context, /*swapped=*/true, /*transposed=*/false);
  if (!axes) return axes.takeError();
  if (Error error = check_row_reductions(context, *axes)) return error;
  return ProblemBuilder(context, *axes).build();
}

std::optional<ContractionProblem> make_transposed_problem(const GroupContext& context,
                                                          const ContractionProblem& problem) {
  // No error: `problem` is the context's.
  const bool fixed = llvm::cantFail(find_orientation(context)).fixed;
  if (fixed || problem.num_column_sums() > 0 || problem.reduced_columns > 1) return std::nullopt;
  auto axes = make_contraction_axes(context, !problem.swapped, /*transposed=*/true);
  if (!axes) {
    llvm::consumeError(axes.takeError());
    return std::nullopt;
  }
  auto found = ProblemBuilder(context, *axes).build();
  if (!found) {
    llvm::consumeError(found.takeError());
    return std::nullopt;
  }
  const ContractionSpace &of_d = problem.space, &space = found->space;
  const bool same_batch = space.batch_rank == of_d.batch_rank && space.batch == of_d.batch;
  if (!same_batch || !(space.m == of_d.n) || !(space.n == of_d.m)) return std::nullopt;
  return std::move(*found);
}

}  // namespace catenary
