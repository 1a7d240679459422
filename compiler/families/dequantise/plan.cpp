// SPDX-License-Identifier: Apache-2.0
// Casts of dequantised weights -> `dequantise` kernels.
#include <algorithm>

#include "compiler/emit/emit_program.h"
#include "compiler/emit/fields.h"
#include "compiler/families/family.h"
#include "compiler/families/roofline.h"
#include "ir/counted.h"
#include "shared/dequantise_config.h"

namespace catenary {
namespace {

constexpr int kThreads = 256;

std::string config_text(const DequantiseConfig& c) {
  Fields fields;
  fields.line().add_unless_default("size", c.size, DequantiseConfig().size);
  fields.line().add("packed", c.packed).add("has_zero", c.has_zero);
  fields.add_unless_default("load_bytes", c.load_bytes, DequantiseConfig().load_bytes);
  fields.add("threads", c.threads);
  fields.line().add("q", c.q);
  fields.line().add("scale", c.scale);
  if (c.has_zero) fields.line().add("zero", c.zero);
  fields.line().add("block_rows", c.block_rows).add("block_columns", c.block_columns);
  return fields.str();
}

class DequantiseFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "dequantise"; }
  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<DequantiseConfig>();
    const bool guarded = has_partial_vector(c.size.at[kMaxDims - 1], kDequantisedColumns);
    const ProgramText program{"Program", kDequantisedColumns, guarded, 1};
    return {"kernels/dequantise.cuh", "DequantiseConfig", config_text(c),
            emit_store_program(kernel.program, program), "dequantise<kConfig, Program>"};
  }
  // Its other slots are those of the program.
  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    auto c = config.get<DequantiseConfig>();
    c.q.slot = renumber(c.q.slot);
    c.scale.slot = renumber(c.scale.slot);
    if (c.has_zero) c.zero.slot = renumber(c.zero.slot);
    return c;
  }
};

// A tensor with one element for each block of rows x columns of `shape`. A single block has no
// step.
Operand blocked_operand(const GroupContext& context, int slot, i64 rows, i64 columns) {
  const MemoryLocation& place = context.tensors.locations[slot];
  const auto& shape = context.group.shape;
  const int rank = static_cast<int>(shape.size());
  Operand operand;
  operand.slot = slot;
  operand.dtype = place.dtype;
  operand.weight = operand.before_wait = place.weight;
  for (int d = 0; d < rank; ++d) {
    const i64 block = d + 1 == rank ? columns : d + 2 == rank ? rows : 1;
    if (shape[d].size > block) operand.stride.at[kMaxDims - rank + d] = place.strides[d];
  }
  return operand;
}

// What one load of plain integers takes of a row.
i32 load_bytes(const GroupContext& context, const Operand& q) {
  const int bits = dtype_info(q.dtype).bits;
  if (q.stride.at[kMaxDims - 1] != 1) return 1;
  llvm::SmallVector<i64, 8> steps;
  for (int d = 0; d + 1 < kMaxDims; ++d) steps.push_back(q.stride.at[d] * bits / 8);
  const i64 align = context.tensors.locations[q.slot].binding.align;
  const i64 bytes = std::min<i64>(access_bytes(align, steps), bits);
  return bytes < 4 ? 1 : static_cast<i32>(bytes);
}

// A store of the cast's dtype rounds as the cast does.
void round_once(Program& program) {
  const DType dtype = program[1].dtype;
  for (ProgramLine& line : program) {
    if (line.kind == ProgramLine::Kind::kStore && line.operand.dtype != dtype) return;
  }
  for (ProgramLine& line : program) {
    if (line.kind == ProgramLine::Kind::kStore) line.args = {0};
  }
  program.erase(program.begin() + 1);
}

DequantiseConfig make_config(const GroupContext& context, const Space& space) {
  const DequantTensors& dequant = *context.tensors.dequants[0];
  const int q = context.tensors.matrices[0];
  DequantiseConfig config;
  config.size = space_extents(space);
  config.packed = context.tensors.locations[q].packed;
  config.block_rows = std::min(dequant.block.rows, std::max<i64>(config.rows(), 1));
  config.block_columns = std::min(dequant.block.columns, std::max<i64>(config.columns(), 1));
  config.q = blocked_operand(context, q, 1, 1);
  if (config.packed) {
    config.q.stride = {};
  } else {
    config.load_bytes = load_bytes(context, config.q);
  }
  const auto numbers = [&](int slot) {
    return blocked_operand(context, slot, config.block_rows, config.block_columns);
  };
  config.scale = numbers(dequant.scale);
  config.has_zero = dequant.zero >= 0;
  if (config.has_zero) config.zero = numbers(dequant.zero);
  // Small CTAs where the grid would otherwise leave SMs without one.
  config.threads = kThreads;
  while (config.threads > 64 &&
         config.threads_in_all() / config.threads < context.target.sm_count) {
    config.threads /= 2;
  }
  return config;
}

}  // namespace

const KernelFamily& dequantise_family() {
  static const DequantiseFamily family;
  return family;
}

Expected<KernelPlan> plan_dequantise(const GroupContext& context) {
  Space space;
  llvm::SmallVector<int, 8> dims;
  for (const Dim& dim : context.group.shape) {
    dims.push_back(static_cast<int>(space.axes.size()));
    space.axes.push_back({AxisKind::kFree, extent_of(dim), {}});
  }
  const int first = add_tensors(space, context.tensors.program, dims);
  if (Error error = check_axes(context, space, /*terms=*/false)) return error;
  const DequantiseConfig config = make_config(context, space);
  const MemoryLocation& q = context.tensors.locations[config.q.slot];
  if (config.packed && q.binding.align < 4) {
    const Value& value = context.chain.value(context.group.values.front());
    return make_error_at(value.at, ErrorCode::kUnsupported,
                         "'{}' of '{}' is packed and aligned to {}: a kernel loads words of it, so "
                         "align it to 4 or more bytes",
                         q.binding.name, value.name, counted(q.binding.align, "byte"));
  }
  KernelPlan kernel;
  kernel.family = &dequantise_family();
  kernel.program = bind_program(context, context.tensors.program, space, first);
  round_once(kernel.program);
  kernel.slots = bind_slots(context.tensors);
  kernel.grid.size = config.threads_in_all();
  kernel.grid.block = config.threads;
  kernel.config = config;
  kernel.threads = config.threads;
  kernel.symbol = fmt::format("{}_dequantise", context.name);
  kernel.config_text =
      fmt::format("{} {}, {} columns per thread, {} threads", config.packed ? "packed" : "plain",
                  dtype_text(config.q.dtype), kDequantisedColumns, config.threads);
  const double elements = static_cast<double>(largest_elements(space, context.symbol_hi));
  kernel.predicted =
      predict_elementwise(context.target, program_bytes(context.tensors, context.symbol_hi),
                          2 * elements, static_cast<double>(config.threads_in_all()));
  return kernel;
}

}  // namespace catenary
