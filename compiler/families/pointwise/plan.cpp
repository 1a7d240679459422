// SPDX-License-Identifier: Apache-2.0
// Groups without an anchor -> `pointwise` kernels.
#include <algorithm>

#include "compiler/emit/emit_program.h"
#include "compiler/emit/fields.h"
#include "compiler/families/family.h"
#include "compiler/families/roofline.h"
#include "ir/counted.h"

namespace catenary {
namespace {

constexpr int kThreads = 256;  // 128 and 512 were slower on an H200 (0.77 and 0.90 to 0.91)
// Bytes of streamed operands a thread should have in flight. 2,048 threads per SM with 16 B each
// are 32 KB per SM, what 4.3 TB/s at 1 us of latency asks for (Little's law); more vectors per
// thread were slower on an H200 (relu(x*w+b), f32, width 4096: one vector 0.97 of the copy rate,
// two 0.93).
constexpr i64 kBytesInFlight = 16;
// Floats of a thread that hold operands and values at one time, of its 255 registers. ptxas spills
// with 256 (32 operands in vectors of 8, 64 in vectors of 4).
constexpr int kLiveFloats = 208;

// Rows whose groups the kernel finds are the outermost axis: then all elements of a vector belong
// to the same row.
Space make_space(const GroupContext& context, int& first) {
  Space space;
  llvm::SmallVector<int, 8> dims;
  const auto rows = rows_by_group(context.tensors.program);
  const auto add = [&](int d, AxisKind kind) {
    space.axes.push_back({kind, extent_of(context.group.shape[d]), {}});
    dims.push_back(d);
  };
  if (rows) add(rows->dim, AxisKind::kApart);
  for (int d = 0; d < static_cast<int>(context.group.shape.size()); ++d) {
    if (!rows || d != rows->dim) add(d, AxisKind::kFree);
  }
  first = add_tensors(space, context.tensors.program, dims);
  sort_axes(space, AxisKind::kFree, first + first_store(context.tensors.program));
  merge_axes(space);
  if (rows && space.axes.size() == 1) {
    space.axes.push_back({AxisKind::kFree, Extent(1), {}});
    space.axes.back().stride.assign(space.axes[0].stride.size(), 0);
  }
  return space;
}

// Bytes that one vector loads from tensors read once by the grid.
i64 streamed_bytes(const Program& program, int vec) {
  i64 bytes = 0;
  for (const ProgramLine& line : program) {
    if (line.kind == ProgramLine::Kind::kLoad && line.operand.streamed) {
      bytes += vec * dtype_bytes(line.operand.dtype);
    }
  }
  return bytes;
}

std::string config_text(const PointwiseConfig& c) {
  Fields fields;
  fields.line().add_unless_default("size", c.size, PointwiseConfig().size);
  fields.line().add("vec", c.vec).add("unroll", c.unroll).add("threads", c.threads);
  if (c.ends.num_groups > 0) fields.line().add("ends", fields_of(c.ends));
  return fields.str();
}

class PointwiseFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "pointwise"; }
  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<PointwiseConfig>();
    const ProgramText program{"Program", c.vec, has_partial_vector(c.size.at[kMaxDims - 1], c.vec),
                              0};
    return {"kernels/pointwise.cuh", "PointwiseConfig", config_text(c),
            emit_store_program(kernel.program, program), "pointwise<kConfig, Program>"};
  }
  // Its other slots are those of the programs.
  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    auto c = config.get<PointwiseConfig>();
    if (c.ends.num_groups > 0) c.ends.slot = renumber(c.ends.slot);
    return c;
  }
};

}  // namespace

const KernelFamily& pointwise_family() {
  static const PointwiseFamily family;
  return family;
}

Expected<KernelPlan> plan_pointwise(const GroupContext& context) {
  if (Error error = check_group_operands(context, context.tensors.program)) return error;
  int first = 0;
  const Space space = make_space(context, first);
  if (Error error = check_axes(context, space, /*terms=*/false)) return error;
  KernelPlan kernel;
  kernel.family = &pointwise_family();
  kernel.program = bind_program(context, context.tensors.program, space, first);
  kernel.slots = bind_slots(context.tensors);
  kernel.scalars = context.tensors.scalars;

  PointwiseConfig config;
  config.size = space_extents(space);
  if (const auto rows = rows_by_group(context.tensors.program)) {
    const int dim = kMaxDims - static_cast<int>(space.axes.size());
    config.ends = bind_ends(context, rows->ends, dim);
  }
  config.threads = kThreads;
  const i64 inner = config.size.at[kMaxDims - 1].size;
  int limit = 8;
  while (limit > 1 && limit > inner) limit /= 2;
  config.vec = vector_width(kernel.program, limit);
  const int live = live_values(kernel.program);
  while (config.vec > 1 && live * config.vec > kLiveFloats) config.vec /= 2;
  const i64 elements = largest_elements(space, context.symbol_hi);
  const i64 vectors = ceil_div(std::max<i64>(elements, 1), config.vec);
  const i64 bytes = std::max<i64>(streamed_bytes(kernel.program, config.vec), 1);
  // Small CTAs where the grid would otherwise leave SMs without one.
  while (config.threads > 64 && vectors / config.threads < context.target.sm_count) {
    config.threads /= 2;
  }
  // More vectors per thread only while the grid still has two full waves.
  while (config.unroll < 8 && config.unroll * bytes < kBytesInFlight &&
         live * config.vec * config.unroll * 2 <= kLiveFloats &&
         vectors / (config.unroll * 2 * kThreads) >= 16 * context.target.sm_count) {
    config.unroll *= 2;
  }
  kernel.grid =
      vector_grid(space.axes, config.vec, i64{config.threads} * config.unroll, context.symbol_hi);
  kernel.config = config;
  kernel.threads = config.threads;
  kernel.symbol = fmt::format("{}_pointwise_v{}u{}", context.name, config.vec, config.unroll);
  kernel.config_text =
      fmt::format("pointwise, {} x {} per thread, {}", counted(config.vec, "element"),
                  counted(config.unroll, "vector"), counted(config.threads, "thread"));
  const Target& target = context.target;
  kernel.predicted = predict_elementwise(
      target, program_bytes(context.tensors, context.symbol_hi),
      program_flops(kernel.program, elements),
      static_cast<double>(kernel.grid.ctas(context.symbol_hi)) * config.threads);
  return kernel;
}

}  // namespace catenary
