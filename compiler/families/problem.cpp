// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/problem.h"

#include <algorithm>

namespace catenary {
namespace {

// Room for M, N and a split-K beside the batch.
constexpr int kMaxBatch = kMaxDims - 3;

// Which side of the contraction is the kernel's A: its free labels are M.
struct Sides {
  bool swapped = false;  // A is the right operand
};

class AxesBuilder {
 public:
  AxesBuilder(const GroupContext& context, Sides sides) : context_(context), sides_(sides) {}

  Expected<ContractionProblem> build() {
    add_label_axes();
    order_axes();
    if (Error error = check_axes(context_, space_, /*terms=*/false)) return error;
    if (Error error = pick_matrix_axes()) return error;
    ContractionProblem& p = problem_;
    p.program = bind_program(context_, context_.tensors.program, epilogue_space(), 0);
    p.vec = std::max(vector_width(p.program, 8), 4);
    p.slots = bind_slots(context_.tensors);
    p.scalars = context_.tensors.scalars;
    p.row_squares = context_.group.row_squares >= 0;
    if (Error error = fill_extents()) return error;
    fill_operands();
    fill_sizes();
    return std::move(p);
  }

  // Would the epilogue rather see the other orientation? Only D's contiguous dimension counts.
  bool prefers_swap() const {
    return store_step(m_) == 1 && store_step(n_) != 1 && n_.extent.size > 1;
  }

 private:
  // Columns of the space: A, B (, B2), then the program's tensors.
  int matrices() const { return is_dual() ? 3 : 2; }
  bool is_dual() const { return context_.group.anchors.size() == 2; }
  int store_column() const { return matrices() + first_store(context_.tensors.program); }
  i64 store_step(const Axis& axis) const {
    return axis.stride.empty() ? 0 : axis.stride[store_column()];
  }

  const Value& anchor() const { return context_.chain.value(context_.group.anchors[0].value); }
  const Contraction& contraction() const {
    return *context_.chain.info(context_.group.anchors[0].value).contraction;
  }

  // Place numbers of the kernel's A, B, B2.
  llvm::SmallVector<int, 3> matrix_places() const {
    const auto& places = context_.tensors.matrices;  // left, right, left', right'
    llvm::SmallVector<int, 3> chosen;
    chosen.push_back(places[sides_.swapped ? 1 : 0]);
    chosen.push_back(places[sides_.swapped ? 0 : 1]);
    if (is_dual()) chosen.push_back(places[sides_.swapped ? 2 : 3]);
    return chosen;
  }

  void add_axis(AxisKind kind, const ContractionLabel& label) {
    Axis axis;
    axis.kind = kind;
    axis.extent = extent_of(label.size);
    const int a = sides_.swapped ? label.right : label.left;
    const int b = sides_.swapped ? label.left : label.right;
    const auto places = matrix_places();
    for (size_t i = 0; i < places.size(); ++i) {
      const int dim = i == 0 ? a : b;
      axis.stride.push_back(dim < 0 ? 0 : context_.tensors.locations[places[i]].strides[dim]);
    }
    space_.axes.push_back(std::move(axis));
    result_dim_.push_back(label.result);
  }

  void add_label_axes() {
    const Contraction& c = contraction();
    const auto& ragged = anchor().ragged;
    const char apart = ragged ? ragged->label : 0;
    if (ragged) ragged_rows_ = llvm::any_of(c.m, [&](const auto& l) { return l.label == apart; });
    if (ragged && !ragged_rows_) add_axis(AxisKind::kGroup, *c.ragged_group);
    for (const auto& label : c.batch) add_axis(AxisKind::kBatch, label);
    // A ragged label is never merged with its neighbours: the ends count its elements only.
    for (const auto& label : sides_.swapped ? c.n : c.m) {
      add_axis(ragged_rows_ && label.label != apart ? AxisKind::kBatch : AxisKind::kM, label);
    }
    for (const auto& label : sides_.swapped ? c.m : c.n) add_axis(AxisKind::kN, label);
    for (const auto& label : c.k) {
      const bool alone = ragged && !ragged_rows_ && label.label == apart;
      add_axis(alone ? AxisKind::kFree : AxisKind::kTerm, label);
    }
    add_tensors(space_, context_.tensors.program, result_dim_);
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
    sort_axes(space_, AxisKind::kTerm, 0);
    merge_axes(space_);
  }

  Axis unit_axis() const {
    Axis axis;
    axis.stride.assign(matrices() + context_.tensors.program.tensors.size(), 0);
    return axis;
  }

  // Removes the axis of `kind` that a tile should span from the list; the others stay.
  template <class Better>
  Axis take(AxisKind kind, Better better) {
    Axis* best = nullptr;
    for (Axis& axis : space_.axes) {
      if (axis.kind == kind && (best == nullptr || better(axis, *best))) best = &axis;
    }
    if (best == nullptr) return unit_axis();
    Axis taken = *best;
    space_.axes.erase(best);
    return taken;
  }

  Error pick_matrix_axes() {
    const auto larger = [](const Axis& a, const Axis& b) {
      return (a.extent.scale != 0) > (b.extent.scale != 0) ||
             ((a.extent.scale != 0) == (b.extent.scale != 0) && a.extent.size > b.extent.size);
    };
    const auto contiguous_or_larger = [&](const Axis& a, const Axis& b) {
      const bool a_contiguous = store_step(a) == 1;
      const bool b_contiguous = store_step(b) == 1;
      return a_contiguous != b_contiguous ? a_contiguous : larger(a, b);
    };
    m_ = take(AxisKind::kM, larger);
    n_ = take(AxisKind::kN, contiguous_or_larger);
    const bool ragged_terms = anchor().ragged && !ragged_rows_;
    // The outer loop's count is a constant of the kernel, so a symbolic label is the inner one.
    const auto contiguous_k = [&](const Axis& a, const Axis& b) {
      const auto rank = [](const Axis& x) {
        return 3 * (x.extent.scale != 0) + (x.stride[0] == 1) + (x.stride[1] == 1);
      };
      return rank(a) != rank(b) ? rank(a) > rank(b) : larger(a, b);
    };
    k_ = take(ragged_terms ? AxisKind::kFree : AxisKind::kTerm, contiguous_k);
    outer_ = take(AxisKind::kTerm, larger);
    const bool more =
        llvm::any_of(space_.axes, [](const Axis& axis) { return axis.kind == AxisKind::kTerm; });
    if (more || outer_.extent.scale != 0) {
      return make_error(
          ErrorCode::kUnsupported,
          "'{}' = contract \"{}\": the summed labels need more than two loops, or two "
          "of symbolic size, the limit of every family: order their strides so that "
          "they merge",
          anchor().name, anchor().equation);
    }
    if (space_.axes.size() > kMaxBatch) {
      return make_error(ErrorCode::kUnsupported,
                        "'{}' = contract \"{}\" needs {} batch loops, above the limit of {}: order "
                        "the strides so that labels merge",
                        anchor().name, anchor().equation, space_.axes.size(), kMaxBatch);
    }
    return Error::success();
  }

  MatrixOperand matrix(int column, int place, const Axis& row) const {
    const MemoryLocation& memory = context_.tensors.locations[place];
    const i64 bytes = dtype_bytes(memory.dtype);
    MatrixOperand operand;
    operand.slot = place;
    // An axis of one step has no stride to respect.
    operand.stride_row = row.extent == Extent(1) ? 0 : row.stride[column];
    operand.stride_k = k_.extent == Extent(1) ? 0 : k_.stride[column];
    operand.stride_outer = outer_.extent == Extent(1) ? 0 : outer_.stride[column];
    const int count = static_cast<int>(space_.axes.size());
    llvm::SmallVector<i64, 8> steps = {operand.stride_outer * bytes};
    for (int b = 0; b < count; ++b) {
      operand.stride_batch.at[kMaxDims - count + b] = space_.axes[b].stride[column];
      steps.push_back(space_.axes[b].stride[column] * bytes);
    }
    if (ragged_rows_ && column > 0) {
      const int group = contraction().ragged_group->right;
      operand.stride_group = memory.strides[group];
      steps.push_back(operand.stride_group * bytes);
    }
    operand.k_major = operand.stride_k == 1 || operand.stride_row != 1;
    const i64 contiguous = operand.k_major ? operand.stride_k : operand.stride_row;
    const Extent& along = operand.k_major ? k_.extent : row.extent;
    steps.push_back((operand.k_major ? operand.stride_row : operand.stride_k) * bytes);
    // A tile of ragged rows (or terms) may start anywhere along the ragged dimension.
    const bool starts_anywhere =
        anchor().ragged && (ragged_rows_ ? column == 0 && !operand.k_major : operand.k_major);
    if (starts_anywhere) steps.push_back(bytes);
    // Elements that are not adjacent (a broadcast has stride 0) are copied one by one.
    const bool side_by_side = contiguous == 1 || along == Extent(1);
    operand.copy_bytes = static_cast<i32>(
        side_by_side ? std::max(access_bytes(memory.binding.align, steps), bytes) : bytes);
    return operand;
  }

  // Allow-list: operands of other dtypes have no product.
  Expected<MathMode> math() const {
    const DType dtype = context_.tensors.locations[context_.tensors.matrices[0]].dtype;
    switch (dtype) {
      case DType::kBF16:
        return MathMode::kBF16;
      case DType::kF16:
        return MathMode::kF16;
      case DType::kF32:
        return anchor().true_f32 ? MathMode::kF32 : MathMode::kTF32;
      case DType::kI32:
        break;
    }
    return make_error(ErrorCode::kUnsupported,
                      "'{}' = contract \"{}\" has operands of {}: no kernel multiplies those; cast "
                      "them to bf16, f16 or f32",
                      anchor().name, anchor().equation, dtype_text(dtype));
  }

  Error fill_extents() {
    ContractionProblem& p = problem_;
    Expected<MathMode> found = math();
    if (!found) return found.takeError();
    p.space.math = *found;
    p.space.batch_rank = static_cast<i32>(space_.axes.size());
    p.space.batch = space_extents(space_);
    p.space.m = m_.extent;
    p.space.n = n_.extent;
    p.space.k = k_.extent;
    p.space.k_outer = outer_.extent.size;
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

  ContractionOperand operand(int column, int place, const Axis& row) const {
    const MemoryLocation& memory = context_.tensors.locations[place];
    return {matrix(column, place, row), memory.dtype, memory.weight, memory.binding.bytes};
  }

  void fill_operands() {
    ContractionProblem& p = problem_;
    const auto places = matrix_places();
    p.a.push_back(operand(0, places[0], m_));
    for (int i = 1; i < static_cast<int>(places.size()); ++i) {
      p.b.push_back(operand(i, places[i], n_));
      p.products.push_back({0, i - 1, i - 1});
      p.accumulator_n.push_back(n_.extent);
    }
    for (size_t i = 0; i < p.program.size(); ++i) {
      const ProgramLine& line = p.program[i];
      if (line.kind == ProgramLine::Kind::kStore) {
        p.outputs.push_back({static_cast<int>(i), line.operand});
      }
    }
  }

  void fill_sizes() {
    ContractionProblem& p = problem_;
    ContractionProblem::Sizes& size = p.size;
    size.symbol = context_.symbol_hi;
    for (const Extent& extent : p.space.batch.at) size.batch *= largest(extent, size.symbol);
    size.m = largest(p.space.m, size.symbol);
    size.n = largest(p.space.n, size.symbol);
    size.k = largest(p.space.k, size.symbol) * p.space.k_outer;
    // K-grouped: the groups divide K.
    if (p.ragged.kind == Ragged::kKGrouped)
      size.k = ceil_div(size.k, std::max<i64>(p.ragged.num_groups, 1));
    for (size_t i = 0; i < context_.tensors.locations.size(); ++i) {
      const bool matrix = llvm::is_contained(context_.tensors.matrices, static_cast<int>(i));
      (matrix ? size.matrix_bytes : size.epilogue_bytes) +=
          context_.tensors.locations[i].binding.bytes;
    }
    size.epilogue_flops = program_flops(p.program, size.batch * size.m * size.n);
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
  Sides sides_;
  ContractionProblem problem_;
  Space space_;
  llvm::SmallVector<int, 8> result_dim_;
  bool ragged_rows_ = false;
  Axis m_, n_, k_, outer_;
};

}  // namespace

bool ContractionProblem::has_plain_products() const {
  if (a.size() != 1 || b.empty() || b.size() > 2 || accumulator_n.size() != b.size()) return false;
  for (int i = 0; i < static_cast<int>(b.size()); ++i) {
    if (!(products[i] == ContractionProduct{0, i, i}) || !(accumulator_n[i] == space.n))
      return false;
  }
  return products.size() == b.size();
}

Expected<ContractionProblem> make_contraction_problem(const GroupContext& context) {
  if (Error error = check_group_operands(context, context.tensors.program)) return error;
  const auto& matrices = context.tensors.matrices;
  const bool dual = context.group.anchors.size() == 2;
  // A is the operand that both contractions of a dual GEMM share.
  const bool shares_left = dual && matrices[0] == matrices[2];
  Sides sides;
  sides.swapped = dual && !shares_left;
  if (context.group.row_squares >= 0) {
    const Value& first = context.chain.value(context.group.anchors[0].value);
    sides.swapped = first.operands[0].value != context.group.row_data;
  }
  AxesBuilder builder(context, sides);
  Expected<ContractionProblem> problem = builder.build();
  const bool ragged = context.chain.value(context.group.anchors[0].value).ragged.has_value();
  if (!problem || dual || ragged || context.group.row_squares >= 0 || !builder.prefers_swap())
    return problem;
  sides.swapped = true;
  return AxesBuilder(context, sides).build();
}

double math_tflops(const Target& target, MathMode math) {
  switch (math) {
    case MathMode::kBF16:
    case MathMode::kF16:
      return target.tensor_tflops;
    case MathMode::kTF32:
      return target.tf32_tflops;
    case MathMode::kF32:
      return target.f32_tflops;
  }
  return 0;
}

}  // namespace catenary
