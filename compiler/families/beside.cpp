// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/beside.h"

#include <algorithm>

#include "compiler/kernel_family.h"
#include "shared/params.h"

namespace catenary {
namespace {

// A kernel's parameters before CUDA 12.1 (CUDA C++ Programming Guide, function parameters).
constexpr i64 kMaxParamBytes = 4096;

bool is_same_tensor(const SlotBinding& a, const SlotBinding& b) {
  return a.kind == b.kind && a.index == b.index && a.workspace_offset == b.workspace_offset;
}

bool is_same_operand(const ContractionProblem& first, MatrixOperand a,
                     const ContractionProblem& other, MatrixOperand b) {
  const bool same = is_same_tensor(first.slots[a.slot], other.slots[b.slot]);
  a.slot = b.slot = 0;
  return same && a == b;
}

bool has_same_gain(const ContractionProblem& first, const ContractionProblem& other) {
  if (!first.gain || !other.gain) return !first.gain && !other.gain;
  return is_same_operand(first, first.gain->memory, other, other.gain->memory);
}

// The parts of a launch have the first one's programs; equal tensors have equal slots there.
bool has_same_formed(const ContractionProblem& first, const ContractionProblem& other) {
  return first.formed.has_value() == other.formed.has_value() &&
         first.formed_value == other.formed_value;
}

bool has_same_groups(const ContractionProblem& first, const ContractionProblem& other) {
  const RaggedGroups& one = first.ragged;
  const RaggedGroups& two = other.ragged;
  if (one.kind != two.kind || one.num_groups != two.num_groups) return false;
  return one.kind == Ragged::kNone ||
         is_same_tensor(first.slots[one.group_ends_slot], other.slots[two.group_ends_slot]);
}

bool may_join(const ContractionProblem& first, const ContractionProblem& other) {
  return has_same_groups(first, other) && other.has_one_a() && !other.a[0].dequant &&
         other.has_dequants_like(first) && other.row_squares == first.row_squares &&
         has_same_gain(first, other) && has_same_formed(first, other) &&
         other.num_column_sums() == 0 && first.num_column_sums() == 0;
}

bool shares_a(const ContractionProblem& first, const ContractionProblem& other) {
  ContractionSpace space = other.space;
  space.n = first.space.n;
  return is_same_operand(first, first.a[0].memory, other, other.a[0].memory) &&
         space == first.space && first.ragged.kind == Ragged::kNone && may_join(first, other);
}

bool shares_b(const ContractionProblem& first, const ContractionProblem& other) {
  ContractionSpace space = other.space;
  space.m = first.space.m;
  return is_same_operand(first, first.b[0].memory, other, other.b[0].memory) &&
         space == first.space && first.ragged.kind != Ragged::kMGrouped && may_join(first, other) &&
         !first.is_dequantised() && !first.forms_a() && first.num_accumulators() == 1 &&
         other.num_accumulators() == 1 && first.reduced_columns == 1 && other.reduced_columns == 1;
}

template <class T>
i32 find_or_add(std::vector<T>& all, const T& one, llvm::function_ref<bool(const T&)> same) {
  const auto found = llvm::find_if(all, same);
  if (found == all.end()) all.push_back(one);
  return static_cast<i32>(llvm::find_if(all, same) - all.begin());
}

void join_slots(KernelPlan& all, KernelPlan& part) {
  const std::vector<SlotBinding> own = part.slots;
  renumber_slots(part, [&](i32 slot) {
    return find_or_add<SlotBinding>(all.slots, own[slot], [&](const SlotBinding& other) {
      return is_same_tensor(own[slot], other);
    });
  });
  for (ProgramLine& line : part.program) {
    if (line.kind != ProgramLine::Kind::kScalar) continue;
    const int position = part.scalars[line.index];
    if (!llvm::is_contained(all.scalars, position)) all.scalars.push_back(position);
    line.index = static_cast<int>(llvm::find(all.scalars, position) - all.scalars.begin());
  }
}

// After join_slots(): equal maps are one, as that of A.
void join_maps(KernelPlan& all, KernelPlan& part) {
  const auto renumber = [&](i32 map) {
    const MapBinding& own = part.maps[map];
    return find_or_add<MapBinding>(all.maps, own,
                                   [&](const MapBinding& other) { return own == other; });
  };
  part.config = part.family->with_maps(part.config, renumber);
  for (ProgramLine& line : part.program) {
    if (line.is_memory() && line.operand.map >= 0) line.operand.map = renumber(line.operand.map);
  }
}

bool is_persistent(const KernelPlan& kernel) { return kernel.grid.limit > 0; }

bool has_same_launch(const KernelPlan& a, const KernelPlan& b) {
  const GridRule& one = a.grid;
  const GridRule& other = b.grid;
  const bool row_tiles =
      one.size == other.size && one.scale == other.scale && one.block == other.block;
  return a.family == b.family && a.threads == b.threads && a.cluster == b.cluster &&
         one.extra == 0 && other.extra == 0 && one.limit == other.limit &&
         (row_tiles || is_persistent(a));
}

// The CTAs of each part, for each row tile or, of persistent ones, in the launch; empty: there are
// too few.
std::vector<i64> part_ctas(llvm::ArrayRef<KernelPlan> parts, i64 symbol) {
  std::vector<i64> ctas;
  if (!is_persistent(parts.front())) {
    for (const KernelPlan& part : parts) ctas.push_back(part.grid.fixed);
    return ctas;
  }
  const i64 cluster = parts.front().cluster;
  std::vector<i64> tiles;  // of clusters
  for (const KernelPlan& part : parts) {
    GridRule all = part.grid;
    all.limit = 0;
    tiles.push_back(all.ctas(symbol) / cluster);
  }
  const i64 rounds = persistent_rounds(tiles, parts.front().grid.limit / cluster);
  if (rounds == 0) return {};
  for (const i64 count : tiles) ctas.push_back(std::max<i64>(ceil_div(count, rounds), 1) * cluster);
  return ctas;
}

// Persistent CTAs are as many for every M but 0.
void set_one_row_tile(GridRule& grid, i64 symbol) {
  grid.limit = 0;
  grid.block = std::max<i64>(grid.scale == 0 ? grid.size : symbol * grid.scale, 1);
}

// The parts have one B: one A with the rows of theirs.
std::optional<ContractionProblem> joint_rows(llvm::ArrayRef<ContractionProblem> parts) {
  ContractionProblem joint = parts.front();
  joint.size = {.symbol = joint.size.symbol,
                .batch = joint.size.batch,
                .n = joint.size.n,
                .k = joint.size.k,
                .matrix_bytes = joint.b[0].bytes};
  joint.a[0].bytes = 0;
  for (const ContractionProblem& part : parts) {
    if (part.space.m.scale != 0) return std::nullopt;
    joint.parts.push_back({part.size.m, joint.size.n});
    joint.vec = std::min(joint.vec, part.vec);
    joint.a[0].bytes += part.a[0].bytes;
    joint.size.m += part.size.m;
    joint.size.matrix_bytes += part.a[0].bytes;
    joint.size.epilogue_bytes += part.size.epilogue_bytes;
    joint.size.epilogue_flops += part.size.epilogue_flops;
  }
  joint.space.m = Extent(joint.size.m);
  return joint;
}

}  // namespace

i64 persistent_rounds(llvm::ArrayRef<i64> tiles, i64 ctas) {
  if (static_cast<i64>(tiles.size()) > ctas) return 0;
  const auto needed = [&](i64 rounds) {
    i64 sum = 0;
    for (const i64 count : tiles) sum += std::max<i64>(ceil_div(count, rounds), 1);
    return sum;
  };
  i64 least = 1;
  i64 most = std::max<i64>(*std::max_element(tiles.begin(), tiles.end()), 1);
  while (least < most) {
    const i64 rounds = least + (most - least) / 2;
    if (needed(rounds) <= ctas) {
      most = rounds;
    } else {
      least = rounds + 1;
    }
  }
  return most;
}

std::optional<ContractionProblem> joint_problem(llvm::ArrayRef<ContractionProblem> parts) {
  ContractionProblem joint = parts.front();
  if (!joint.has_one_a()) return std::nullopt;
  if (llvm::all_of(parts, [&](const auto& part) { return shares_b(parts.front(), part); }))
    return joint_rows(parts);
  const bool dual = llvm::all_of(parts, [](const auto& part) { return part.is_dual(); });
  i64 columns = 0;
  const i64 a_bytes = joint.a[0].bytes + (joint.gain ? joint.gain->bytes : 0);
  joint.size.matrix_bytes = a_bytes;
  joint.size.epilogue_bytes = 0;
  joint.size.epilogue_flops = 0;
  joint.reduced_columns = 1;  // each part's own tiles hold its blocks
  for (ContractionOperand& b : joint.b) b.bytes = 0;
  if (!dual) {
    joint.b.resize(1);
    joint.products.resize(1);
    joint.accumulator_n.resize(1);
  }
  for (const ContractionProblem& part : parts) {
    if (!shares_a(parts.front(), part) || part.space.n.scale != 0) return std::nullopt;
    joint.parts.push_back({joint.size.m, part.space.n.size * (dual ? 1 : part.num_accumulators())});
    columns += joint.parts.back().n;
    joint.vec = std::min(joint.vec, part.vec);
    joint.reduction_passes = std::max(joint.reduction_passes, part.reduction_passes);
    for (size_t i = 0; i < part.b.size(); ++i) {
      ContractionOperand& b = joint.b[dual ? i : 0];
      b.bytes += part.b[i].bytes;
      b.weight = b.weight && part.b[i].weight;
      joint.size.matrix_bytes += part.b[i].bytes;
    }
    joint.size.epilogue_bytes += part.size.epilogue_bytes;
    joint.size.epilogue_flops += part.size.epilogue_flops;
  }
  joint.space.n = Extent(columns);
  for (Extent& n : joint.accumulator_n) n = joint.space.n;
  joint.size.n = columns;
  return joint;
}

std::string joint_signature(llvm::ArrayRef<ContractionProblem> parts) {
  std::string text = fmt::format("{} side by side\n", parts.size());
  for (const ContractionProblem& part : parts) text += problem_signature(part);
  return text;
}

std::optional<KernelPlan> join_kernels(std::vector<KernelPlan> parts,
                                       const ContractionProblem& joint_problem) {
  KernelPlan joint = parts.front();
  const bool by_rows = joint_problem.parts.front().m != joint_problem.size.m;
  if (by_rows && !is_persistent(joint)) return std::nullopt;
  for (const KernelPlan& part : parts) {
    if (!has_same_launch(joint, part)) return std::nullopt;
  }
  const std::vector<i64> ctas = part_ctas(parts, joint_problem.size.symbol);
  if (ctas.empty()) return std::nullopt;
  if (is_persistent(joint)) set_one_row_tile(joint.grid, joint_problem.size.symbol);
  joint.grid.fixed = ctas.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    KernelPlan& part = parts[i];
    join_slots(joint, part);
    join_maps(joint, part);
    joint.grid.fixed += ctas[i];
    joint.smem_bytes = std::max(joint.smem_bytes, part.smem_bytes);
    joint.min_ctas = std::min(joint.min_ctas, part.min_ctas);
    joint.beside.push_back({part.config, part.program, ctas[i]});
  }
  const i64 bytes =
      params_bytes(static_cast<i64>(joint.slots.size()), static_cast<i64>(joint.scalars.size()),
                   static_cast<i64>(joint.maps.size()));
  if (bytes > kMaxParamBytes) return std::nullopt;
  return joint;
}

}  // namespace catenary
