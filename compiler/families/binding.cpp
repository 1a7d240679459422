// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/binding.h"

#include <algorithm>

#include "compiler/kernel_family.h"

namespace catenary {

int add_tensors(Space& space, const GroupProgram& program, llvm::ArrayRef<int> dim_of_axis) {
  const int first = space.num_tensors();
  for (size_t a = 0; a < space.axes.size(); ++a) {
    for (const TensorUse& tensor : program.tensors) {
      const int dim = dim_of_axis[a];
      space.axes[a].stride.push_back(dim < 0 ? 0 : tensor.steps[dim]);
    }
  }
  return first;
}

namespace {

Operand bind_operand(const GroupContext& context, const TensorUse& tensor, const Space& space,
                     int column) {
  const MemoryLocation& place = context.tensors.locations[tensor.location];
  Operand operand;
  operand.slot = tensor.location;
  operand.dtype = place.dtype;
  const int axes = static_cast<int>(space.axes.size());
  llvm::SmallVector<i64, 8> byte_steps;
  bool covers_all = true;
  for (int a = 0; a < axes; ++a) {
    const bool steps = !space.axes[a].stride.empty() && (tensor.period == 0 || a + 1 == axes);
    const i64 step = steps ? space.axes[a].stride[column] : 0;
    operand.stride.at[kMaxDims - axes + a] = step;
    covers_all &= step != 0;
    if (a + 1 < axes) byte_steps.push_back(step * dtype_bytes(place.dtype));
  }
  operand.rows = tensor.row_stride != 0 ? kSummedRows : 1;
  operand.columns = static_cast<i32>(tensor.columns);
  operand.period = static_cast<i32>(tensor.period);
  operand.by_group = tensor.rows.has_value();
  operand.stride_group = tensor.group_step;
  if (tensor.rows) byte_steps.push_back(tensor.group_step * dtype_bytes(place.dtype));
  if (operand.stride.at[kMaxDims - 1] == 1 && tensor.columns == 1) {
    const i64 bytes = access_bytes(place.binding.align, byte_steps);
    operand.vec = static_cast<i32>(std::max<i64>(1, bytes / dtype_bytes(place.dtype)));
  }
  // A store stays in L2 for the next kernel unless the kernel's tensors do not fit there anyway.
  const bool fits_l2 =
      program_bytes(context.tensors, context.symbol_hi) <= context.target.l2_bytes / 2;
  // Sums of rows and numbers of rows are few.
  operand.streamed = covers_all && !tensor.rows && operand.rows == 1 && operand.columns == 1 &&
                     !(tensor.store && fits_l2);
  operand.weight = place.weight && !tensor.store;
  return operand;
}

}  // namespace

Program bind_program(const GroupContext& context, const GroupProgram& program, const Space& space,
                     int first) {
  Program bound = program.lines;
  for (ProgramLine& line : bound) {
    if (!line.is_memory()) continue;
    line.operand = bind_operand(context, program.tensors[line.index], space, first + line.index);
  }
  return bound;
}

std::optional<GroupedRows> rows_by_group(const GroupProgram& program) {
  for (const TensorUse& tensor : program.tensors) {
    if (tensor.rows) return tensor.rows;
  }
  return std::nullopt;
}

Error check_group_operands(const GroupContext& context, const GroupProgram& program) {
  const auto& anchors = context.group.anchors;
  const std::optional<GroupedRows> known =
      anchors.empty() ? rows_by_group(program) : context.chain.info(anchors[0].value).rows;
  for (const TensorUse& tensor : program.tensors) {
    if (!tensor.rows ||
        (known && known->dim == tensor.rows->dim && known->ends == tensor.rows->ends)) {
      continue;
    }
    return make_error(ErrorCode::kInternal,
                      "'{}' is read by the group of a row in a kernel that does not know it",
                      context.tensors.locations[tensor.location].binding.name);
  }
  return Error::success();
}

GroupEnds bind_ends(const GroupContext& context, ValueId ends, int dim) {
  const MemoryLocation wanted = parameter_location(context.chain, ends);
  const auto found = llvm::find_if(context.tensors.locations, [&](const MemoryLocation& place) {
    return place.binding.kind == wanted.binding.kind && place.binding.index == wanted.binding.index;
  });
  GroupEnds bound;
  bound.num_groups = context.chain.info(ends).type.shape[0].size;
  bound.slot = static_cast<i32>(found - context.tensors.locations.begin());
  bound.dim = dim;
  return bound;
}

namespace {

// The first value that the group computes, or the one that it copies.
std::string_view group_name(const GroupContext& context) {
  const auto& values = context.group.values;
  return values.empty() ? context.tensors.locations.front().binding.name
                        : context.chain.value(values.front()).name;
}

Location group_location(const GroupContext& context) {
  const auto& values = context.group.values;
  return values.empty() ? Location{} : context.chain.value(values.front()).at;
}

}  // namespace

Expected<Orientation> find_orientation(const GroupContext& context) {
  const GroupTensors& tensors = context.tensors;
  const Value& first = context.chain.value(context.group.anchors[0].value);
  const bool dual = context.group.accumulators.size() == 2;
  const bool given = context.group.row_data >= 0;  // A is that operand
  const bool dequantised =
      llvm::any_of(tensors.dequants, [](const auto& d) { return d.has_value(); });
  Orientation found;
  found.fixed = dual || first.ragged || dequantised || given;
  // A is the operand that both contractions of a dual GEMM share.
  found.swapped = dual && tensors.matrices[0] != tensors.matrices[2];
  if (given) found.swapped = first.operands[0].value != context.group.row_data;
  // A dequantised operand is B; of two, the one whose rows share scales.
  if (dequantised) {
    const auto& left = tensors.dequants[0];
    const auto& right = tensors.dequants[1];
    if (!left || !right) {
      found.swapped = left.has_value();
    } else if (!dual && !first.ragged) {
      found.swapped = left->block.rows > 1 && right->block.rows == 1;
    }
  }
  if (dequantised && found.swapped && first.ragged) {
    return make_error_at(
        first.at, ErrorCode::kUnsupported,
        "'{}' = contract \"{}\": the operand with ragged rows is dequantised, and no "
        "kernel reads groups of those: quantise the weights of the groups instead",
        first.name, first.equation);
  }
  return found;
}

Error check_axes(const GroupContext& context, const Space& space, bool terms) {
  for (const Axis& axis : space.axes) {
    if ((axis.kind == AxisKind::kTerm && !terms) || axis.extent.size <= kMaxAxisSize) continue;
    return make_error_at(
        group_location(context), ErrorCode::kResourceLimit,
        "'{}' has a dimension of {} elements; a kernel's limit is {}: split it in two",
        group_name(context), axis.extent.size, kMaxAxisSize);
  }
  return Error::success();
}

Extents space_extents(const Space& space) {
  Extents extents;
  const int axes = static_cast<int>(space.axes.size());
  for (int a = 0; a < axes; ++a) extents.at[kMaxDims - axes + a] = space.axes[a].extent;
  return extents;
}

std::vector<SlotBinding> bind_slots(const GroupTensors& tensors) {
  std::vector<SlotBinding> slots;
  for (const MemoryLocation& place : tensors.locations) slots.push_back(place.binding);
  return slots;
}

void renumber_slots(KernelPlan& kernel, llvm::function_ref<i32(i32)> renumber) {
  const auto renumber_program = [&](Program& program) {
    for (ProgramLine& line : program) {
      if (line.is_memory()) line.operand.slot = renumber(line.operand.slot);
    }
  };
  renumber_program(kernel.prologue);
  renumber_program(kernel.program);
  if (kernel.formed) kernel.formed->each_program(renumber_program);
  for (MapBinding& map : kernel.maps) map.slot = renumber(map.slot);
  kernel.config = kernel.family->with_slots(kernel.config, renumber);
}

void keep_addressed_slots(KernelPlan& kernel) {
  std::vector<i32> number(kernel.slots.size(), -1);
  renumber_slots(kernel, [&](i32 slot) {
    number[slot] = 0;
    return slot;
  });
  std::vector<SlotBinding> kept;
  for (size_t slot = 0; slot < number.size(); ++slot) {
    if (number[slot] < 0) continue;
    number[slot] = static_cast<i32>(kept.size());
    kept.push_back(kernel.slots[slot]);
  }
  renumber_slots(kernel, [&](i32 slot) { return number[slot]; });
  kernel.slots = std::move(kept);
}

int first_store(const GroupProgram& program) {
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].store) return static_cast<int>(i);
  }
  return -1;
}

int vector_width(const Program& program, int limit) {
  int width = 1;
  for (const ProgramLine& line : program) {
    if (!line.is_memory()) continue;
    const int widest = 16 / dtype_bytes(line.operand.dtype);
    width = std::max(width, std::min(line.operand.vec, widest));
  }
  while (width > limit) width /= 2;
  return std::max(width, 1);
}

int live_values(const Program& program) {
  // Loads come first, wherever their lines are.
  const int end = static_cast<int>(program.size());
  std::vector<int> last(program.size(), -1);
  for (int i = 0; i < end; ++i) {
    for (int arg : program[i].args) last[arg] = i;
  }
  const auto is_vector = [](const ProgramLine& line) {
    return line.kind != ProgramLine::Kind::kConstant && line.kind != ProgramLine::Kind::kScalar &&
           line.kind != ProgramLine::Kind::kStore;
  };
  int most = 0;
  for (int at = 0; at < end; ++at) {
    int live = 0;
    for (int i = 0; i < end; ++i) {
      const bool begun = i <= at || program[i].kind == ProgramLine::Kind::kLoad;
      live += is_vector(program[i]) && begun && last[i] >= at ? 1 : 0;
    }
    most = std::max(most, live);
  }
  return most;
}

i64 program_bytes(const GroupTensors& tensors, i64 symbol) {
  i64 bytes = 0;
  for (const MemoryLocation& place : tensors.locations) bytes += traffic_at(place, symbol);
  return bytes;
}

double program_flops(const Program& program, i64 elements) {
  double ops = 0;
  for (const ProgramLine& line : program) {
    if (line.kind != ProgramLine::Kind::kCompute) continue;
    // A transcendental takes about 16 instructions (templates/epilogue/ops.cuh).
    ops += op_info(line.op).error > 8 ? 16 : 1;
  }
  return ops * static_cast<double>(elements);
}

Program with_early_weights(Program program) {
  for (ProgramLine& line : program) {
    if (line.kind == ProgramLine::Kind::kLoad) line.operand.before_wait = line.operand.weight;
  }
  return program;
}

i64 largest_elements(const Space& space, i64 symbol_hi) {
  i64 count = 1;
  for (const Axis& axis : space.axes) count *= largest(axis.extent, symbol_hi);
  return count;
}

GridRule vector_grid(llvm::ArrayRef<Axis> axes, i64 vec, i64 per_cta, i64 symbol_hi) {
  const Extent inner = axes.empty() ? Extent(1) : axes.back().extent;
  i64 outer = 1;
  Extent symbolic;
  for (const Axis& axis : axes.empty() ? axes : axes.drop_back()) {
    if (axis.extent.scale != 0 && symbolic.scale == 0) {
      symbolic = axis.extent;
    } else {
      outer *= largest(axis.extent, symbol_hi);
    }
  }
  const i64 vectors = ceil_div(largest(inner, symbol_hi), vec) * outer;
  GridRule all;
  all.block = per_cta;
  all.size = symbolic.scale == 0 ? vectors : vectors * symbolic.size;
  all.scale = vectors * symbolic.scale;
  if (symbolic.scale != 0 || inner.scale == 0) return all;
  GridRule rows;
  rows.fixed = outer;
  rows.size = inner.size;
  rows.scale = inner.scale;
  rows.block = per_cta * vec;
  return rows.ctas(symbol_hi) <= all.ctas(symbol_hi) ? rows : all;
}

}  // namespace catenary
