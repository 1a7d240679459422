// SPDX-License-Identifier: Apache-2.0
// What families ask a problem.
#include "compiler/families/problem.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"

namespace catenary {

ContractionProblem::Sizes problem_sizes(const GroupContext& context, const ContractionProblem& p) {
  ContractionProblem::Sizes size;
  size.symbol = context.symbol_hi;
  for (const Extent& extent : p.space.batch.at) size.batch *= largest(extent, size.symbol);
  size.m = largest(p.space.m, size.symbol);
  size.n = largest(p.space.n, size.symbol);
  for (const ContractionProduct& product : p.products) {
    // The second product of a dual GEMM has the K of the first.
    if (product.accumulator == 0) size.k += largest(product.k, size.symbol) * product.k_outer;
  }
  // K-grouped: K is divided among the groups.
  if (p.ragged.kind == Ragged::kKGrouped)
    size.k = ceil_div(size.k, std::max<i64>(p.ragged.num_groups, 1));
  for (size_t i = 0; i < context.tensors.locations.size(); ++i) {
    const bool matrix = context.tensors.is_matrix(static_cast<int>(i));
    (matrix ? size.matrix_bytes : size.epilogue_bytes) +=
        traffic_at(context.tensors.locations[i], size.symbol);
  }
  size.epilogue_flops = program_flops(p.program, size.batch * size.m * size.n);
  return size;
}

GridRule tile_grid(const ContractionSpace& space, i64 block_m, i64 block_n, i64 fixed, i64 extra,
                   i64 symbol) {
  GridRule grid;
  grid.fixed = fixed;
  grid.size = space.m.size;
  grid.scale = space.m.scale;
  grid.block = block_m;
  grid.extra = extra;
  const auto add = [&](const Extent& extent, i64 block) {
    if (extent.scale == 0 || grid.scale != 0) {
      grid.fixed *= ceil_div(largest(extent, symbol), block);
      return;
    }
    grid.fixed *= ceil_div(grid.size, grid.block) + grid.extra;
    grid.size = extent.size;
    grid.scale = extent.scale;
    grid.block = block;
    grid.extra = 0;
  };
  add(space.n, block_n);
  for (const Extent& extent : space.batch.at) add(extent, 1);
  return grid;
}

GridRule group_grid(const ContractionSpace& space, i64 groups, i64 fixed, i64 symbol) {
  ContractionSpace rows = space;
  rows.n = Extent(1);
  if (rows.m.scale == 0) rows.m.size = std::min(rows.m.size, groups + 1);
  GridRule grid = tile_grid(rows, 1, 1, fixed, 0, symbol);
  if (rows.m.scale != 0) grid.limit = grid.fixed * (groups + 1);
  return grid;
}

bool ContractionProblem::has_plain_products() const { return !is_dequantised() && has_one_a(); }

bool ContractionProblem::has_one_a() const {
  if (a.size() != 1 || b.empty() || b.size() > 2 || accumulator_n.size() != b.size()) return false;
  for (int i = 0; i < static_cast<int>(b.size()); ++i) {
    const ContractionProduct product{0, i, i, space.k, space.k_outer};
    if (!(products[i] == product) || !(accumulator_n[i] == space.n)) return false;
  }
  return products.size() == b.size();
}

bool ContractionProblem::is_dequantised() const {
  const auto dequantised = [](const ContractionOperand& o) { return o.dequant.has_value(); };
  return llvm::any_of(a, dequantised) || llvm::any_of(b, dequantised);
}

bool ContractionProblem::is_block_scaled() const {
  const auto scaled = [](const ContractionOperand& o) { return o.dequant && is_fp8(o.dtype); };
  return has_one_a() && llvm::all_of(a, scaled) && llvm::all_of(b, scaled) && !forms_a();
}

bool ContractionProblem::has_dequants_like(const ContractionProblem& other) const {
  const auto alike = [](const ContractionOperand& x, const ContractionOperand& y) {
    if (!x.dequant || !y.dequant) return !x.dequant && !y.dequant;
    const auto zeros = [](const DequantisedOperand& d) {
      return d.zero ? std::optional(d.zero->dtype) : std::nullopt;
    };
    return x.dtype == y.dtype && x.dequant->block == y.dequant->block &&
           x.dequant->packed == y.dequant->packed &&
           x.dequant->scale.dtype == y.dequant->scale.dtype &&
           zeros(*x.dequant) == zeros(*y.dequant);
  };
  return llvm::all_of(b, [&](const auto& own) { return alike(own, other.b[0]); }) &&
         llvm::all_of(other.b, [&](const auto& its) { return alike(its, b[0]); });
}

int ContractionProblem::num_column_sums() const {
  return static_cast<int>(
      llvm::count_if(program, [](const ProgramLine& line) { return line.operand.rows != 1; }));
}

bool ContractionProblem::is_sum() const {
  if (is_dequantised()) return false;
  if (a.size() < 2 || b.size() != a.size() || products.size() != a.size()) return false;
  if (accumulator_n.size() != 1 || !(accumulator_n[0] == space.n)) return false;
  for (int i = 0; i < static_cast<int>(a.size()); ++i) {
    const ContractionProduct& p = products[i];
    if (p.a != i || p.b != i || p.accumulator != 0 || p.k.scale != 0) return false;
  }
  return true;
}

i64 ContractionProblem::k_tiles(i64 block_k) const {
  if (num_accumulators() == static_cast<int>(products.size())) return ceil_div(size.k, block_k);
  i64 tiles = 0;
  for (const ContractionProduct& p : products) tiles += p.k_outer * ceil_div(p.k.size, block_k);
  return tiles;
}

std::optional<ContractionOperand> gain_operand(const GroupContext& context) {
  if (context.tensors.gain < 0) return std::nullopt;
  const MemoryLocation& place = context.tensors.locations[context.tensors.gain];
  ContractionOperand gain;
  gain.memory.slot = context.tensors.gain;
  gain.memory.stride_k = place.strides[0];
  const i64 bytes = dtype_bytes(place.dtype);
  gain.memory.copy_bytes = static_cast<i32>(
      gain.memory.stride_k == 1 ? std::max(access_bytes(place.binding.align, {}), bytes) : bytes);
  gain.dtype = place.dtype;
  gain.weight = place.weight;
  gain.bytes = traffic_at(place, context.symbol_hi);
  return gain;
}

std::string gain_refusal(const ContractionProblem& p) {
  if (!p.gain) return "";
  if (p.ragged.kind != Ragged::kNone) return "it multiplies rows of one X by a gain";
  if (p.gain->dtype != p.a[0].dtype || !is_16bit(p.space.math))
    return "it multiplies X by a gain of its own dtype, bf16 or f16";
  if (p.gain->memory.copy_bytes != 16) return "it reads a gain in vectors of 16 bytes along K";
  return "";
}

std::optional<FormedPrograms> formed_programs(const GroupContext& context,
                                              const ContractionSpace& space) {
  if (!context.tensors.formed) return std::nullopt;
  const int k_dim = context.group.formed->k_dim;
  Space axes;
  axes.axes.resize(2);
  axes.axes[0].extent = space.m;
  axes.axes[1].extent = space.k;
  const auto bind = [&](const GroupProgram& program) {
    Space own = axes;
    add_tensors(own, program, {1 - k_dim, k_dim});
    return bind_program(context, program, own, 0);
  };
  FormedPrograms programs;
  for (const FormedTensors::Pass& pass : context.tensors.formed->passes)
    programs.passes.push_back({bind(pass.terms), pass.sums, bind(pass.rows), pass.results});
  programs.values = bind(context.tensors.formed->values);
  programs.result = context.tensors.formed->result;
  return programs;
}

DType multiplied_dtype(const GroupContext& context) {
  if (context.group.formed) return context.chain.info(context.group.row_data).type.dtype;
  const GroupTensors& tensors = context.tensors;
  return tensors.locations[tensors.matrices[tensors.dequants[0] ? 1 : 0]].dtype;
}

// Allow-list: operands of other dtypes have no product.
Expected<MathMode> product_math(const Value& contraction, DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return MathMode::kBF16;
    case DType::kF16:
      return MathMode::kF16;
    case DType::kF32:
      return contraction.true_f32 ? MathMode::kF32 : MathMode::kTF32;
    case DType::kE4M3:
      return contraction.fast_accum ? MathMode::kE4M3Fast : MathMode::kE4M3;
    case DType::kE5M2:
      return contraction.fast_accum ? MathMode::kE5M2Fast : MathMode::kE5M2;
    case DType::kI32:
    case DType::kI8:
    case DType::kI4:
    case DType::kU4:
      break;
  }
  return make_error_at(
      contraction.at, ErrorCode::kUnsupported,
      "'{}' = contract \"{}\" has operands of {}: no kernel multiplies those; cast "
      "them to bf16, f16 or f32",
      contraction.name, contraction.equation, dtype_text(dtype));
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
    case MathMode::kE4M3:
    case MathMode::kE4M3Fast:
    case MathMode::kE5M2:
    case MathMode::kE5M2Fast:
      // 1,979 dense TFLOP/s on an H100 or H200 (the vendor's datasheets). None before sm_89.
      return target.compute_capability() >= 89 ? 2 * target.tensor_tflops : 0;
  }
  return 0;
}

}  // namespace catenary
