// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/problem.h"

#include "compiler/fusion/anchors.h"
#include "compiler/fusion/row_reductions.h"

#include <algorithm>

namespace catenary {
namespace {

// Room for M, N and a split-K beside the batch.
constexpr int kMaxBatch = kMaxDims - 3;

// A product of the kernel: an anchor, and its columns of the space.
struct Segment {
  ValueId anchor = 0;
  bool swapped = false;               // A is the right operand
  int a = 0;                          // column
  llvm::SmallVector<int, 2> b;        // columns; a dual GEMM has two
  llvm::SmallVector<int, 4> numbers;  // columns of scales and zeros
  Space terms;                        // the summed axes
  Axis k, outer;
};

class AxesBuilder {
 public:
  // `swapped`: A is the right operand of the first anchor; its free labels are M. `transposed`: M
  // is the axis along which outputs are contiguous, else N.
  AxesBuilder(const GroupContext& context, bool swapped, bool transposed = false)
      : context_(context), swapped_(swapped), transposed_(transposed) {
    add_segments();
  }

  Expected<ContractionProblem> build() {
    add_label_axes();
    order_axes();
    if (Error error = check_axes(context_, space_, /*terms=*/false)) return error;
    for (const Segment& segment : segments_)
      if (Error error = check_axes(context_, segment.terms, /*terms=*/false)) return error;
    if (Error error = pick_matrix_axes()) return error;
    if (Error error = check_summed_rows()) return error;
    ContractionProblem& p = problem_;
    p.swapped = swapped_;
    p.transposed = transposed_;
    p.program = bind_program(context_, context_.tensors.program, epilogue_space(), 0);
    p.vec = std::max(vector_width(p.program, 8), 4);
    p.slots = bind_slots(context_.tensors);
    p.scalars = context_.tensors.scalars;
    p.row_squares = context_.group.row_squares >= 0;
    p.reduced_columns = reduced_columns(context_.group);
    p.gain = gain_operand(context_);
    if (Error error = fill_extents()) return error;
    p.formed = formed_programs(context_, p.space);
    p.formed_value = p.formed ? context_.group.row_data : -1;
    fill_operands();
    p.size = problem_sizes(context_, p);
    return std::move(p);
  }

  // Are the blocks of row reductions neighbours along N, and N whole blocks?
  Error check_row_reductions() const {
    const i64 columns = reduced_columns(context_.group);
    if (!context_.group.row_reductions) return Error::success();
    const int column = columns_before_blocks();
    const auto apart = [&](const Axis& axis) {
      return axis.extent == Extent(1) || axis.stride[column] % columns == 0;
    };
    if (n_.stride[column] == 1 && n_.extent.scale == 0 && n_.extent.size % columns == 0 &&
        apart(m_) && llvm::all_of(space_.axes, apart)) {
      return Error::success();
    }
    return make_error(
        ErrorCode::kUnsupported,
        "'{}' reduces columns of '{}' that are not neighbours in a tile's rows: store "
        "the result with them innermost",
        value_name(context_.group.row_reductions->values[0]), anchor().name);
  }

  // Would the epilogue rather see the other orientation? Only D's contiguous dimension counts.
  bool prefers_swap() const {
    return store_step(m_) == 1 && store_step(n_) != 1 && n_.extent.size > 1;
  }

 private:
  // Columns of the space: A and B of each segment (A, B and B2 of a dual GEMM), each with its
  // scales and zeros, then the program's tensors.
  int matrices() const { return static_cast<int>(places_.size()); }
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
  std::string_view value_name(ValueId id) const { return context_.chain.value(id).name; }

  const Value& value(const Segment& segment) const { return context_.chain.value(segment.anchor); }
  const Contraction& contraction(const Segment& segment) const {
    return *context_.chain.info(segment.anchor).contraction;
  }
  const Value& anchor() const { return value(segments_[0]); }
  const Contraction& contraction() const { return contraction(segments_[0]); }

  void add_segments() {
    const auto& anchors = context_.group.anchors;
    const int rank = context_.chain.info(anchors[0].value).type.rank();
    for (size_t i = 0; i < anchors.size(); ++i) {
      Segment segment;
      segment.anchor = anchors[i].value;
      segment.swapped =
          swapped_ != (i > 0 && is_mirrored(contraction(), contraction(segment), rank));
      if (is_dual() && i == 1) {
        add_b(segments_[0], static_cast<int>(2 * i) + (segment.swapped ? 0 : 1));
        continue;
      }
      segment.a = matrices();
      add_operand(segment, static_cast<int>(2 * i) + (segment.swapped ? 1 : 0));
      add_b(segment, static_cast<int>(2 * i) + (segment.swapped ? 0 : 1));
      segments_.push_back(std::move(segment));
    }
  }

  void add_b(Segment& segment, int matrix) {
    segment.b.push_back(matrices());
    add_operand(segment, matrix);
  }

  // An operand with its scales and zeros; `matrix` is its number in GroupTensors::matrices.
  void add_operand(Segment& segment, int matrix) {
    places_.push_back(context_.tensors.matrices[matrix]);
    matrix_of_.push_back(matrix);
    const auto& dequant = context_.tensors.dequants[matrix];
    if (!dequant) return;
    for (int place : {dequant->scale, dequant->zero}) {
      if (place < 0) continue;
      segment.numbers.push_back(matrices());
      places_.push_back(place);
      matrix_of_.push_back(matrix);
    }
  }

  // Is the column, one of the segment's, that of A or of its scales?
  static bool is_of_a(const Segment& segment, int column) { return column < segment.b[0]; }

  // The dimension that a label has in the operand of a column, which is one of the segment's.
  static int dim_of(const Segment& segment, const ContractionLabel& label, int column) {
    return is_of_a(segment, column) != segment.swapped ? label.left : label.right;
  }

  void set_strides(Axis& axis, const Segment& segment, const ContractionLabel& label) const {
    axis.stride.resize(matrices(), 0);
    const auto set = [&](int column) {
      const int dim = dim_of(segment, label, column);
      if (dim >= 0) axis.stride[column] = location(column).strides[dim];
    };
    set(segment.a);
    for (int column : segment.b) set(column);
    for (int column : segment.numbers) {
      const int dim = dim_of(segment, label, column);
      if (dim >= 0) axis.stride[column] = numbers_step(column, dim, label.size);
    }
  }

  i64 rows_of_block(int column) const {
    return context_.tensors.dequants[matrix_of_[column]]->block.rows;
  }

  // The step of numbers of blocks along a dimension of the matrix, in parts of an element, as many
  // as a block has rows: blocks of rows, and matrices of one block of rows each, then merge as rows
  // do. None along the columns.
  i64 numbers_step(int column, int dim, const Dim& size) const {
    const auto& strides = location(column).strides;
    const int rank = static_cast<int>(strides.size());
    if (dim == rank - 1) return 0;
    const i64 rows = rows_of_block(column);
    if (dim < rank - 2) return strides[dim] * rows;
    const bool one_block = rows > 1 && !size.symbolic && size.size <= rows;
    return strides[one_block && dim > 0 ? dim - 1 : dim];
  }

  const MemoryLocation& location(int column) const {
    return context_.tensors.locations[places_[column]];
  }

  // The label of a segment at a dimension of the result.
  const ContractionLabel& label_at(const Segment& segment, int result) const {
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
    set_strides(axis, segments_[0], label);
    for (const Segment& segment : llvm::drop_begin(segments_))
      set_strides(axis, segment, label_at(segment, label.result));
    space_.axes.push_back(std::move(axis));
    result_dim_.push_back(label.result);
  }

  void add_terms(Segment& segment, char apart) const {
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
    if (ragged) ragged_rows_ = llvm::any_of(c.m, [&](const auto& l) { return l.label == apart; });
    if (ragged && !ragged_rows_) add_axis(AxisKind::kGroup, *c.ragged_group);
    for (const auto& label : c.batch) add_axis(AxisKind::kBatch, label);
    // A ragged label is never merged with its neighbours: the ends count its elements only.
    for (const auto& label : swapped_ ? c.n : c.m) {
      add_axis(ragged_rows_ && label.label != apart ? AxisKind::kBatch : AxisKind::kM, label);
    }
    for (const auto& label : swapped_ ? c.m : c.n) add_axis(AxisKind::kN, label);
    add_tensors(space_, context_.tensors.program, result_dim_);
    if (context_.group.row_reductions) add_blocks();
    for (Segment& segment : segments_) add_terms(segment, ragged_rows_ ? 0 : apart);
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
    for (size_t a = 0; a < space_.axes.size(); ++a)
      space_.axes[a].stride.push_back(steps[result_dim_[a]]);
  }

  void order_axes() {
    // Batch axes first, whatever class their labels had.
    std::stable_sort(space_.axes.begin(), space_.axes.end(), [](const Axis& a, const Axis& b) {
      const auto rank = [](AxisKind kind) {
        return kind == AxisKind::kGroup ? 0 : kind == AxisKind::kBatch ? 1 : 2;
      };
      return rank(a.kind) < rank(b.kind);
    });
    for (AxisKind kind : {AxisKind::kBatch, AxisKind::kM, AxisKind::kN}) {
      sort_axes(space_, kind, store_column());
    }
    merge_axes(space_);
    for (Segment& segment : segments_) {
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
  Error pick_terms(Segment& segment) const {
    const auto contiguous_k = [&](const Axis& a, const Axis& b) {
      const auto rank = [&](const Axis& x) {
        return 3 * (x.extent.scale != 0) + (x.stride[segment.a] == 1) +
               (x.stride[segment.b[0]] == 1);
      };
      return rank(a) != rank(b) ? rank(a) > rank(b) : is_larger(a, b);
    };
    const bool ragged_terms = anchor().ragged && !ragged_rows_;
    segment.k = take(segment.terms, ragged_terms ? AxisKind::kFree : AxisKind::kTerm, contiguous_k);
    segment.outer = take(segment.terms, AxisKind::kTerm, is_larger);
    if (segment.terms.axes.empty() && segment.outer.extent.scale == 0) return Error::success();
    return make_error(ErrorCode::kUnsupported,
                      "'{}' = contract \"{}\": the summed labels need more than two loops, or two "
                      "of symbolic size, the limit of every family: order their strides so that "
                      "they merge",
                      value(segment).name, value(segment).equation);
  }

  Error pick_matrix_axes() {
    const auto contiguous_or_larger = [&](const Axis& a, const Axis& b) {
      const bool a_contiguous = store_step(a) == 1;
      const bool b_contiguous = store_step(b) == 1;
      return a_contiguous != b_contiguous ? a_contiguous : is_larger(a, b);
    };
    // The axis along which a tile stores vectors.
    (transposed_ ? m_ : n_) =
        take(space_, transposed_ ? AxisKind::kM : AxisKind::kN, contiguous_or_larger);
    (transposed_ ? n_ : m_) = take(space_, transposed_ ? AxisKind::kN : AxisKind::kM, is_larger);
    for (Segment& segment : segments_) {
      if (Error error = pick_terms(segment)) return error;
    }
    if (space_.axes.size() > kMaxBatch) {
      return make_error(ErrorCode::kUnsupported,
                        "'{}' = contract \"{}\" needs {} batch loops, above the limit of {}: order "
                        "the strides so that labels merge",
                        anchor().name, anchor().equation, space_.axes.size(), kMaxBatch);
    }
    return Error::success();
  }

  // Sums of rows are over M: all of it, and no more.
  Error check_summed_rows() const {
    const auto& tensors = context_.tensors.program.tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].row_stride == 0) continue;
      const size_t column = matrices() + i;  // of the space, that of tensor i
      if (m_.extent == tensors[i].summed_rows && m_.stride[column] == tensors[i].row_stride &&
          n_.stride[column] == 1) {
        continue;
      }
      return make_error(ErrorCode::kUnsupported,
                        "'{}' does not sum the rows of '{}', which a tile holds: sum a contiguous "
                        "value over all of its outer dimensions",
                        context_.tensors.locations[tensors[i].location].binding.name,
                        anchor().name);
    }
    return Error::success();
  }

  MatrixOperand matrix(const Segment& segment, int column) const {
    const MemoryLocation& memory = location(column);
    const bool is_a = column == segment.a;
    const Axis& row = is_a ? m_ : n_;
    const i64 bytes = dtype_bytes(memory.dtype);
    MatrixOperand operand;
    operand.slot = places_[column];
    // An axis of one step has no stride to respect.
    const auto step = [&](const Axis& axis) {
      return axis.extent == Extent(1) ? 0 : axis.stride[column];
    };
    operand.stride_row = step(row);
    operand.stride_k = step(segment.k);
    operand.stride_outer = step(segment.outer);
    const int count = static_cast<int>(space_.axes.size());
    llvm::SmallVector<i64, 8> steps = {operand.stride_outer * bytes};
    for (int b = 0; b < count; ++b) {
      operand.stride_batch.at[kMaxDims - count + b] = space_.axes[b].stride[column];
      steps.push_back(space_.axes[b].stride[column] * bytes);
    }
    if (ragged_rows_ && !is_a) {
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
        anchor().ragged && (ragged_rows_ ? is_a && !operand.k_major : operand.k_major);
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
    p.space.batch_rank = static_cast<i32>(space_.axes.size());
    p.space.batch = space_extents(space_);
    p.space.m = m_.extent;
    p.space.n = n_.extent;
    p.space.k = segments_[0].k.extent;
    p.space.k_outer = segments_[0].outer.extent.size;
    if (!anchor().ragged) return Error::success();
    p.ragged.kind = ragged_rows_ ? Ragged::kMGrouped : Ragged::kKGrouped;
    const ValueId ends = anchor().ragged->ends;
    p.ragged.num_groups = context_.chain.info(ends).type.shape[0].size;
    const SlotBinding wanted = parameter_location(context_.chain, ends).binding;
    const auto slot = llvm::find_if(p.slots, [&](const SlotBinding& s) {
      return s.kind == wanted.kind && s.index == wanted.index;
    });
    p.ragged.group_ends_slot = static_cast<i32>(slot - p.slots.begin());
    return Error::success();
  }

  ContractionOperand operand(const Segment& segment, int column) const {
    const MemoryLocation& memory = location(column);
    ContractionOperand operand{matrix(segment, column), memory.dtype, memory.weight,
                               bytes_at(memory, context_.symbol_hi), std::nullopt};
    const auto& dequant = context_.tensors.dequants[matrix_of_[column]];
    if (dequant) add_dequant(segment, column, *dequant, operand);
    return operand;
  }

  void add_dequant(const Segment& segment, int column, const DequantTensors& tensors,
                   ContractionOperand& operand) const {
    const bool rows_by_k = has_rows_by_k(segment, column, operand.memory);
    const Axis& row = is_of_a(segment, column) ? m_ : n_;
    const auto numbers = [&](int numbers_column) {
      const MemoryLocation& memory = location(numbers_column);
      operand.bytes += bytes_at(memory, context_.symbol_hi);
      operand.weight = operand.weight && memory.weight;
      BlockOperand block{places_[numbers_column], memory.dtype, memory.strides.end()[-2],
                         memory.strides.end()[-1]};
      if (rows_by_k && !(row.extent == Extent(1))) block.stride_row = row.stride[numbers_column];
      const int count = static_cast<int>(space_.axes.size());
      for (int b = 0; b < count; ++b) {
        block.stride_batch.at[kMaxDims - count + b] =
            space_.axes[b].stride[numbers_column] / rows_of_block(numbers_column);
      }
      if (ragged_rows_ && !is_of_a(segment, column))
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

  // K is the last dimension and the row (M or N) the one before; all other labels step over whole
  // matrices.
  bool has_rows_by_k(const Segment& segment, int column, const MatrixOperand& q) const {
    const auto& strides = location(column).strides;
    const int rank = static_cast<int>(strides.size());
    const auto& terms = contraction(segment).k;
    const i64 matrix = rank > 2 ? strides[rank - 3] : 0;
    const auto is_whole = [&](i64 step) { return step == 0 || (matrix > 0 && step % matrix == 0); };
    return terms.size() == 1 && dim_of(segment, terms[0], column) == rank - 1 &&
           ((column == segment.a ? m_ : n_).extent == Extent(1) ||
            q.stride_row == strides[rank - 2]) &&
           llvm::all_of(q.stride_batch.at, is_whole) && is_whole(q.stride_group);
  }

  void fill_operands() {
    ContractionProblem& p = problem_;
    for (const Segment& segment : segments_) {
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
    p.accumulator_n.assign(context_.group.accumulators.size(), n_.extent);
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
    for (const Axis& axis : space_.axes) space.axes.push_back(axis);
    space.axes.push_back(m_);
    space.axes.push_back(n_);
    for (Axis& axis : space.axes)
      axis.stride.erase(axis.stride.begin(), axis.stride.begin() + matrices());
    return space;
  }

  const GroupContext& context_;
  bool swapped_;
  bool transposed_;
  ContractionProblem problem_;
  llvm::SmallVector<Segment, 2> segments_;
  llvm::SmallVector<int, 4> places_;     // location of each matrix column
  llvm::SmallVector<int, 4> matrix_of_;  // its number in GroupTensors::matrices
  Space space_;
  llvm::SmallVector<int, 8> result_dim_;
  bool ragged_rows_ = false;
  Axis m_, n_;
};

}  // namespace

Expected<ContractionProblem> make_contraction_problem(const GroupContext& context) {
  if (Error error = check_group_operands(context, context.tensors.program)) return error;
  Expected<Orientation> orientation = find_orientation(context);
  if (!orientation) return orientation.takeError();
  AxesBuilder builder(context, orientation->swapped);
  Expected<ContractionProblem> problem = builder.build();
  const bool swaps = problem && !orientation->fixed && builder.prefers_swap();
  AxesBuilder other(context, /*swapped=*/true);
  if (swaps) problem = other.build();
  if (!problem) return problem;
  if (Error error = (swaps ? other : builder).check_row_reductions()) return error;
  return problem;
}

std::optional<ContractionProblem> make_transposed_problem(const GroupContext& context,
                                                          const ContractionProblem& problem) {
  // No error: `problem` is the context's.
  const bool fixed = llvm::cantFail(find_orientation(context)).fixed;
  if (fixed || problem.num_column_sums() > 0 || problem.reduced_columns > 1) return std::nullopt;
  auto found = AxesBuilder(context, !problem.swapped, /*transposed=*/true).build();
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
