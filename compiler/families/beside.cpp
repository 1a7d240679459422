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

bool shares_a(const ContractionProblem& first, const ContractionProblem& other) {
  MatrixOperand a = first.a[0].memory;
  MatrixOperand b = other.a[0].memory;
  const bool same = is_same_tensor(first.slots[a.slot], other.slots[b.slot]);
  a.slot = b.slot = 0;
  ContractionSpace space = other.space;
  space.n = first.space.n;
  return same && a == b && space == first.space && other.ragged.kind == Ragged::kNone &&
         other.has_one_a() && other.has_dequants_like(first) &&
         other.row_squares == first.row_squares && other.num_column_sums() == 0 &&
         first.num_column_sums() == 0;
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

bool has_same_launch(const KernelPlan& a, const KernelPlan& b) {
  const auto plain = [](const GridRule& grid) { return grid.extra == 0 && grid.limit == 0; };
  return a.family == b.family && a.threads == b.threads && a.cluster == b.cluster &&
         a.grid.size == b.grid.size && a.grid.scale == b.grid.scale &&
         a.grid.block == b.grid.block && plain(a.grid) && plain(b.grid);
}

}  // namespace

std::optional<ContractionProblem> joint_problem(llvm::ArrayRef<ContractionProblem> parts) {
  ContractionProblem joint = parts.front();
  if (joint.ragged.kind != Ragged::kNone || !joint.has_one_a()) return std::nullopt;
  const bool dual = llvm::all_of(parts, [](const auto& part) { return part.is_dual(); });
  i64 columns = 0;
  i64 a_bytes = joint.a[0].bytes;
  joint.size.matrix_bytes = a_bytes;
  joint.size.epilogue_bytes = 0;
  joint.size.epilogue_flops = 0;
  for (ContractionOperand& b : joint.b) b.bytes = 0;
  if (!dual) {
    joint.b.resize(1);
    joint.products.resize(1);
    joint.accumulator_n.resize(1);
  }
  for (const ContractionProblem& part : parts) {
    if (!shares_a(parts.front(), part) || part.space.n.scale != 0) return std::nullopt;
    columns += part.space.n.size * (dual ? 1 : part.num_accumulators());
    joint.vec = std::min(joint.vec, part.vec);
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
  joint.parts = static_cast<int>(parts.size());
  for (Extent& n : joint.accumulator_n) n = joint.space.n;
  joint.size.n = columns;
  return joint;
}

std::string joint_signature(llvm::ArrayRef<ContractionProblem> parts) {
  std::string text = fmt::format("{} side by side\n", parts.size());
  for (const ContractionProblem& part : parts) text += problem_signature(part);
  return text;
}

std::optional<KernelPlan> join_kernels(std::vector<KernelPlan> parts) {
  KernelPlan joint = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    KernelPlan& part = parts[i];
    if (!has_same_launch(joint, part)) return std::nullopt;
    join_slots(joint, part);
    join_maps(joint, part);
    joint.grid.fixed += part.grid.fixed;
    joint.smem_bytes = std::max(joint.smem_bytes, part.smem_bytes);
    joint.min_ctas = std::min(joint.min_ctas, part.min_ctas);
    joint.beside.push_back({part.config, part.program, part.grid.fixed});
  }
  const i64 bytes =
      params_bytes(static_cast<i64>(joint.slots.size()), static_cast<i64>(joint.scalars.size()),
                   static_cast<i64>(joint.maps.size()));
  if (bytes > kMaxParamBytes) return std::nullopt;
  return joint;
}

}  // namespace catenary
