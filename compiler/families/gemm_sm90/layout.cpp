// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/gemm_sm90/layout.h"

#include <algorithm>
#include <cmath>

#include "compiler/families/gemm_sm90/block_scales.h"
#include "shared/params.h"

namespace catenary {
namespace {

// TMA coordinates are signed 32-bit, and the last tile may end past the matrix.
constexpr i64 kMaxSize = (i64{1} << 31) - 1024;

// An operand, with its map but for the box along the free dimension; no map: cp.async loads it.
struct PlacedOperand {
  Sm90Operand operand;
  std::optional<MapBinding> map;
};

i64 at_least_16(i64 bytes) { return std::max<i64>(ceil_div(bytes, 16) * 16, 16); }

// False: no tensor map describes the operand, or it has too many dimensions. `grouped`: the ragged
// group is one of its dimensions.
bool find_map(const ContractionProblem& p, const ContractionProduct& product,
              const ContractionOperand& given, const Extent& row, bool grouped,
              PlacedOperand& placed) {
  const MatrixOperand& o = given.memory;
  MapBinding map;
  map.slot = o.slot;
  map.dtype = given.dtype;
  map.swizzle = Swizzle::k128;
  map.as_tf32 = p.space.math == MathMode::kTF32;
  const i64 bytes = dtype_bytes(given.dtype);
  const Extent& inner = o.k_major ? product.k : row;
  const Extent& outer = o.k_major ? row : product.k;
  const i64 outer_stride = o.k_major ? o.stride_row : o.stride_k;
  const i32 span = static_cast<i32>(128 / bytes);
  map.dims.push_back({inner, bytes, span});
  // A dimension of one element has no stride to respect, and a map wants one.
  const i64 stride = outer == Extent(1) ? at_least_16(inner.size * bytes) : outer_stride * bytes;
  map.dims.push_back({outer, stride, span});
  const auto add = [&](const Extent& size, i64 elements, i32 coordinate) {
    Sm90Operand& m = placed.operand;
    i32& coord = m.coord2 == kCoordNone ? m.coord2 : m.coord3 == kCoordNone ? m.coord3 : m.coord4;
    coord = coordinate;
    map.dims.push_back({size, elements * bytes, 1});
  };
  if (product.k_outer > 1 && o.stride_outer != 0)
    add(Extent(product.k_outer), o.stride_outer, kCoordOuterK);
  if (grouped) add(Extent(p.ragged.num_groups), o.stride_group, kCoordGroup);
  for (i32 d = kMaxDims - p.space.batch_rank; d < kMaxDims; ++d) {
    if (o.stride_batch.at[d] != 0) add(p.space.batch.at[d], o.stride_batch.at[d], d);
  }
  if (map.dims.size() > 5 || !map_limit(map, p.slots[o.slot]).empty()) return false;
  placed.map = std::move(map);
  return true;
}

// Nothing: the operand has no contiguous dimension. `unaligned`: a tile may start at any element of
// the innermost dimension, where a TMA box has to start on 16 bytes (RESULTS hw-100).
std::optional<PlacedOperand> place(const ContractionProblem& p, const ContractionProduct& product,
                                   const ContractionOperand& given, const Extent& row, bool grouped,
                                   bool unaligned) {
  const MatrixOperand& o = given.memory;
  const i64 inner_stride = o.k_major ? o.stride_k : o.stride_row;
  if (inner_stride != 1 && !((o.k_major ? product.k : row) == Extent(1))) return std::nullopt;
  PlacedOperand placed;
  placed.operand.k_major = o.k_major;
  placed.operand.weight = given.weight;
  if (!unaligned && find_map(p, product, given, row, grouped, placed)) return placed;
  Sm90Operand fallback;
  fallback.k_major = o.k_major;
  fallback.weight = given.weight;
  fallback.by_cp_async = true;
  fallback.memory = o;
  return PlacedOperand{fallback, std::nullopt};
}

bool has_extents(const ContractionProblem& p) {
  if (p.ragged.kind != Ragged::kNone && p.ragged.num_groups <= 0) return false;
  const auto fits = [](const Extent& extent) { return extent.size > 0 && extent.size <= kMaxSize; };
  return fits(p.space.m) && fits(p.space.n) &&
         llvm::all_of(
             p.products,
             [&](const auto& product) { return fits(product.k) && product.k_outer > 0; }) &&
         llvm::none_of(p.space.batch.at, [](const Extent& extent) { return extent.size <= 0; });
}

// Tiles have 32-bit numbers, with room for one more wave of CTAs.
bool is_countable(const ContractionProblem& p) {
  const double tiles = (std::ceil(static_cast<double>(p.size.m) / 64) + p.ragged.num_groups + 1) *
                       std::ceil(static_cast<double>(p.size.n) / 32) *
                       static_cast<double>(p.size.batch);
  return tiles < (i64{1} << 31);
}

// Is the parameter of slot `slot` overwritten by an output of this kernel?
bool is_overwritten(const ContractionProblem& p, int slot) {
  if (p.slots[slot].kind != SlotBinding::Kind::kParameter) return false;
  return llvm::any_of(p.slots, [&](const SlotBinding& other) {
    return other.kind == SlotBinding::Kind::kOutput && other.in_place == p.slots[slot].index;
  });
}

constexpr int kM = kMaxDims - 2;
constexpr int kN = kMaxDims - 1;

// Are the columns of a 16-bit operand made of 16-byte vectors?
bool has_column_vectors(const ContractionProblem& p, const Operand& o) {
  constexpr i64 kElements = 8;
  const SlotBinding& slot = p.slots[o.slot];
  if (o.stride.at[kM] != 1 || dtype_bytes(o.dtype) != 2 || p.space.m.scale != 0 ||
      p.space.m.size % kElements != 0 || slot.align % 16 != 0 || slot.workspace_offset % 16 != 0) {
    return false;
  }
  for (int d = 0; d < kMaxDims; ++d) {
    if (d != kM && o.stride.at[d] % kElements != 0) return false;
  }
  return true;
}

// Can the epilogue run on accumulators in registers? Operands that vary along both M and N must be
// rows of 16-byte vectors of 16-bit elements, outputs such rows, or rows of 8 columns of fp8, or of
// f32 pairs; of a transposed problem columns of such vectors, or of f32. An operand that is
// overwritten must be loaded by the thread that stores it.
bool fits_registers(const ContractionProblem& p) {
  constexpr int kMostMatrices = 4;  // more leave too little shared memory for the pipeline
  if (p.space.n.scale != 0 || sm90_matrix_operands(p) > kMostMatrices) return false;
  if (!p.transposed && p.space.n.size % 8 != 0) return false;
  const auto has_vectors = [&](const Operand& o) {
    if (p.transposed) return has_column_vectors(p, o);
    return o.stride.at[kN] == 1 && o.vec >= 8 && dtype_bytes(o.dtype) <= 2;
  };
  return llvm::all_of(p.program, [&](const ProgramLine& line) {
    const Operand& o = line.operand;
    if (line.kind == ProgramLine::Kind::kLoad) {
      const bool vectors = has_vectors(o) && dtype_bytes(o.dtype) == 2 && !o.by_group;
      return (o.stride.at[kM] == 0 || o.stride.at[kN] == 0 || vectors) &&
             !is_overwritten(p, o.slot);
    }
    if (line.kind != ProgramLine::Kind::kStore || o.columns > 1) return true;
    if (o.dtype != DType::kF32) return has_vectors(o);
    return p.transposed ? o.stride.at[kM] == 1 : o.stride.at[kN] == 1 && o.vec >= 2;
  });
}

// Elements of a vector in the staged epilogue: an mma warpgroup has registers for these values of
// long programs beside its accumulators. It reads 16 bytes at a time from its staging.
i32 epilogue_vec(const ContractionProblem& p) {
  constexpr int kMostLive = 104;
  const int live = live_values(p.program);
  i32 vec = p.vec;
  while (vec > 4 && live * vec > kMostLive) vec /= 2;
  return vec;
}

}  // namespace

int sm90_matrix_operands(const ContractionProblem& p) {
  return static_cast<int>(llvm::count_if(p.program, [](const ProgramLine& line) {
    return line.kind == ProgramLine::Kind::kLoad && line.operand.stride.at[kM] != 0 &&
           line.operand.stride.at[kN] != 0;
  }));
}

std::string sm90_layout_refusal(const ContractionProblem& p) {
  // PTX ISA 9.7.15.5: 16-bit operands may be K-major or MN-major, others are K-major.
  const auto is_k_major = [](const ContractionOperand& o) { return o.memory.k_major; };
  const bool k_major = llvm::all_of(p.a, is_k_major) && llvm::all_of(p.b, is_k_major);
  if (p.space.math == MathMode::kF32) {
    return "wgmma does not multiply in full f32; a contraction without f32 after its labels is "
           "tf32";
  }
  if (math_info(p.space.math).wgmma_k_major_only && !k_major) {
    const bool tf32 = p.space.math == MathMode::kTF32;
    return fmt::format(
        "wgmma takes {} operands whose summed label is innermost; store them so, or as bf16",
        tf32 ? "tf32" : dtype_text(p.a[0].dtype));
  }
  // Rows after a group's end are zero-filled line by line, and a line is one k.
  if (p.ragged.kind == Ragged::kKGrouped &&
      (p.a[0].memory.k_major ||
       llvm::any_of(p.b, [](const auto& b) { return b.memory.k_major; }))) {
    return "the ragged summed label is an operand's innermost label; wgmma kernels need it further "
           "out";
  }
  return "";
}

namespace {

// A and B of a product; nothing where one has no contiguous dimension.
struct PlacedProduct {
  std::optional<PlacedOperand> a, b;
};

PlacedProduct place_product(const ContractionProblem& p, const ContractionProduct& product) {
  const ContractionOperand& a = p.a[product.a];
  const bool m_grouped = p.ragged.kind == Ragged::kMGrouped;
  return {place(p, product, a, p.space.m, false, m_grouped && !a.memory.k_major),
          place(p, product, p.b[product.b], p.space.n, m_grouped, false)};
}

}  // namespace

std::string sm90_map_refusal(const ContractionProblem& p) {
  const bool fp8 = p.space.element_bytes() == 1;
  if ((!p.is_sum() && !fp8) || !has_extents(p)) return "";
  for (const ContractionProduct& product : p.products) {
    const PlacedProduct placed = place_product(p, product);
    if (!placed.a || !placed.b) return "";
    if (fp8 && (!placed.a->map || !placed.b->map)) {
      return fmt::format("an operand of {} has no tensor map; align it and its rows to 16 bytes",
                         dtype_text(p.a[0].dtype));
    }
    if (!p.is_sum()) continue;
    if (!placed.a->map || !placed.b->map)
      return "an operand of contractions that are added has no tensor map; align it to 16 bytes";
    if (placed.a->operand.k_major != p.a[0].memory.k_major ||
        placed.b->operand.k_major != p.b[0].memory.k_major) {
      return "the operands of contractions that are added differ in which label is innermost; "
             "store them alike";
    }
  }
  return "";
}

std::string sm90_row_reduction_refusal(const ContractionProblem& p, const GemmSm90Config& config) {
  constexpr i64 kMostColumns = 256;
  if (p.reduced_columns == 1) return "";
  if (!config.epilogue.in_registers)
    return "only the register epilogue reduces rows: outputs need rows of 8 aligned elements";
  if (config.epilogue.matrices > 0)
    return "an operand that varies along M and N leaves no registers to reduce rows";
  if (p.reduced_columns > kMostColumns)
    return fmt::format("a row of {} columns is more than a tile of {}", p.reduced_columns,
                       kMostColumns);
  const auto is_element = [](const ContractionOutput& output) {
    return output.operand.columns == 1;
  };
  if (llvm::none_of(p.outputs, is_element)) return "it stores numbers of rows beside elements only";
  return "";
}

std::string sm90_squares_refusal(const ContractionProblem& p, const GemmSm90Config& config) {
  if (!p.row_squares) return "";
  if (!is_16bit(p.space.math)) return "it sums squares of 16-bit rows only";
  if (p.transposed) return "it sums squares of the rows of A, which are columns of D here";
  if (config.a.by_cp_async || !config.a.k_major)
    return "it sums squares of rows that TMA loads, with K innermost";
  return "";
}

std::optional<Sm90Layout> sm90_layout(const ContractionProblem& p) {
  if (!has_extents(p) || !is_countable(p)) return std::nullopt;
  auto [a, b] = place_product(p, p.products[0]);
  auto b2 = p.is_dual() ? place_product(p, p.products[1]).b : b;
  if (!a || !b || !b2 || b2->operand.k_major != b->operand.k_major) return std::nullopt;
  Sm90Layout layout;
  GemmSm90Config& config = layout.config;
  config.space = p.space;
  config.dual = p.is_dual();
  config.row_squares = p.row_squares;
  config.epilogue.vec = epilogue_vec(p);
  config.ragged = p.ragged;
  const auto take = [&](PlacedOperand& placed) {
    if (placed.map) {
      placed.operand.map = static_cast<i32>(layout.maps.size());
      layout.maps.push_back(*placed.map);
    }
    return placed.operand;
  };
  config.a = take(*a);
  config.b = take(*b);
  if (config.dual) config.b2 = take(*b2);
  if (p.is_sum()) config.segments = static_cast<i32>(p.products.size());
  for (i32 s = 1; s < config.segments; ++s) {
    const ContractionProduct& product = p.products[s];
    auto placed = place_product(p, product);
    if (!placed.a || !placed.b) return std::nullopt;
    config.more[s - 1] = {take(*placed.a), take(*placed.b), product.k.size, product.k_outer};
  }
  if (p.is_block_scaled()) set_block_scales(p, config);
  config.epilogue.in_registers = fits_registers(p);
  config.epilogue.column_sums = p.num_column_sums();
  if (config.epilogue.in_registers) config.epilogue.matrices = sm90_matrix_operands(p);
  config.epilogue.reduced_columns = static_cast<i32>(p.reduced_columns);
  return layout;
}

// A K-major box has a 128-byte line for each row, an MN-major box one for each k.
void set_operand_boxes(const GemmSm90Config& c, std::vector<MapBinding>& maps) {
  const auto set = [&](const Sm90Operand& matrix, i32 rows) {
    if (!matrix.by_cp_async) maps[matrix.map].dims[1].box = matrix.k_major ? rows : c.block_k();
  };
  set(c.a, c.box_rows_a());
  set(c.b, c.box_rows_b());
  if (c.dual) set(c.b2, c.box_rows_b());
  for (i32 i = 0; i + 1 < c.segments; ++i) {
    set(c.more[i].a, c.box_rows_a());
    set(c.more[i].b, c.box_rows_b());
  }
}

namespace {

// The output of a store as a tensor whose boxes are the epilogue's subtiles: columns and rows, the
// contiguous ones first, then the dimensions along which it has a stride, in the order of
// epilogue/subtile_stores.cuh.
MapBinding output_map(const GemmSm90Config& c, const Operand& o) {
  const bool m_major = o.stride.at[kM] == 1 && o.stride.at[kN] != 1;
  const i64 bytes = dtype_bytes(o.dtype);
  MapBinding map;
  map.slot = o.slot;
  map.dtype = o.dtype;
  constexpr i32 kWarpgroupRows = 64, kWarps = 4;
  const i32 inner_box = m_major ? kWarpgroupRows : c.subtile_n();
  map.swizzle = inner_box == 64 ? Swizzle::k128 : Swizzle::k64;
  const Extent& inner = m_major ? c.space.m : c.space.n;
  const Extent& outer = m_major ? c.space.n : c.space.m;
  map.dims.push_back({inner, bytes, inner_box});
  const i64 pitch = o.stride.at[m_major ? kN : kM] * bytes;
  map.dims.push_back({outer, outer == Extent(1) ? at_least_16(inner.size * bytes) : pitch,
                      m_major ? c.subtile_n() / kWarps : 16});
  for (int d = kMaxDims - 3; d >= 0; --d) {
    if (o.stride.at[d] == 0) continue;
    // An operand's last two dimensions are rows and columns; a batch has neither.
    map.dims.push_back({c.space.batch.at[d + 2], o.stride.at[d] * bytes, 1});
  }
  return map;
}

// A kernel's parameters before CUDA 12.1 (CUDA C++ Programming Guide, function parameters).
constexpr i64 kMaxParamBytes = 4096;

// A TMA store waits for the loads that TMA was given before it, and the warp for the store when it
// needs the buffer again. Where a subtile has operands to wait for too, or three results, stores by
// rows are faster (RESULTS train-8).
bool stores_by_rows(const KernelPlan& kernel) {
  constexpr int kMostByTma = 2;
  const auto is_staged = [](const ProgramLine& line) {
    const Operand& o = line.operand;
    return line.kind == ProgramLine::Kind::kStore && dtype_bytes(o.dtype) == 2 && o.rows == 1 &&
           o.columns == 1;
  };
  return kernel.config.get<GemmSm90Config>().epilogue.matrices > 0 ||
         llvm::count_if(kernel.program, is_staged) > kMostByTma;
}

}  // namespace

void map_outputs(KernelPlan& kernel) {
  const auto& c = kernel.config.get<GemmSm90Config>();
  if (!c.epilogue.in_registers || c.schedule.cluster_k != 0 || c.schedule.split_k != 1) return;
  if (stores_by_rows(kernel)) return;
  const auto slots = static_cast<i64>(kernel.slots.size());
  const auto scalars = static_cast<i64>(kernel.scalars.size());
  for (ProgramLine& line : kernel.program) {
    if (line.kind != ProgramLine::Kind::kStore || dtype_bytes(line.operand.dtype) != 2 ||
        line.operand.columns > 1) {
      continue;
    }
    const auto maps = static_cast<i64>(kernel.maps.size());
    if (params_bytes(slots, scalars, maps + 1) > kMaxParamBytes) return;
    MapBinding map = output_map(c, line.operand);
    if (!map_limit(map, kernel.slots[line.operand.slot]).empty()) continue;
    line.operand.map = static_cast<i32>(kernel.maps.size());
    kernel.maps.push_back(std::move(map));
  }
}

}  // namespace catenary
