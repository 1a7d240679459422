// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/group.h"

#include <algorithm>

#include "compiler/fusion/column_sums.h"
#include "compiler/fusion/program_builder.h"

namespace catenary {
namespace {

// The ends by which the group's kernel finds groups: of a sum by group, of operands by group.
void add_ends(const VerifiedChain& chain, const FusionGroup& group, GroupTensors& tensors) {
  for (const GroupAnchor& anchor : group.anchors) {
    if (const auto& terms = chain.info(anchor.value).grouped_terms)
      tensors.add_location(parameter_location(chain, terms->ends));
  }
  for (const GroupProgram* program : {&tensors.prologue, &tensors.program}) {
    for (const TensorUse& tensor : program->tensors) {
      if (tensor.rows) tensors.add_location(parameter_location(chain, tensor.rows->ends));
    }
  }
}

MemoryLocation location_of(const VerifiedChain& chain, const MemoryMap& memory, ValueId id) {
  if (chain.value(id).op == Op::kParameter) return parameter_location(chain, id);
  return memory.home.at(id);
}

// Adds a matrix that the kernel reads; of a dequantised one its integers, scales and zeros.
void add_matrix(const VerifiedChain& chain, const MemoryMap& memory, ValueId id,
                GroupTensors& tensors) {
  const Value& v = chain.value(id);
  if (v.op != Op::kDequant) {
    tensors.matrices.push_back(tensors.add_location(location_of(chain, memory, id)));
    tensors.dequants.push_back(std::nullopt);
    return;
  }
  const auto add = [&](size_t i) {
    return tensors.add_location(parameter_location(chain, v.operands[i].value));
  };
  tensors.matrices.push_back(add(0));
  tensors.dequants.push_back(DequantTensors{v.block, add(1), v.operands.size() > 2 ? add(2) : -1});
}

// Strides of a packed tensor, padding included: to the next row (on average over a tile of rows)
// and to the next matrix.
llvm::SmallVector<i64, 4> packed_strides(const TensorType& type) {
  const int rank = type.rank();
  const i64 columns = type.shape[rank - 1].size;
  llvm::SmallVector<i64, 4> strides(rank, 1);
  strides[rank - 2] = packed_tiles(columns, kPackedColumns) * kPackedColumns;
  i64 matrices = packed_elements(type.shape[rank - 2].size, columns);
  for (int d = rank - 3; d >= 0; --d) {
    strides[d] = matrices;
    matrices *= type.shape[d].size;
  }
  return strides;
}

// What group `g` reads from memory, itself or through values that it recomputes. Returns, per
// value, whether the group recomputes it.
std::vector<bool> mark_reads(const VerifiedChain& chain, const FusionPlan& fusion, int g,
                             std::vector<bool>& read) {
  std::vector<ValueId> todo(fusion.groups[g].values);
  std::vector<bool> seen(chain.num_values(), false);
  while (!todo.empty()) {
    const ValueId id = todo.back();
    todo.pop_back();
    const bool adds_sums =
        fusion.groups[g].adds_column_sums && id == fusion.groups[g].anchors[0].value;
    if (adds_sums) continue;  // it reads the sums of rows, not the value
    for (const Use& use : chain.value(id).operands) {
      if (reads_memory(fusion, use.value, g)) {
        read[use.value] = true;
      } else if (fusion.group_of[use.value] != g && !seen[use.value]) {
        seen[use.value] = true;
        todo.push_back(use.value);
      }
    }
  }
  return seen;
}

}  // namespace

int GroupTensors::add_location(const MemoryLocation& location) {
  for (size_t i = 0; i < locations.size(); ++i) {
    const SlotBinding& a = locations[i].binding;
    const SlotBinding& b = location.binding;
    if (a.kind == b.kind && a.index == b.index && a.workspace_offset == b.workspace_offset) {
      return static_cast<int>(i);
    }
  }
  locations.push_back(location);
  return static_cast<int>(locations.size()) - 1;
}

bool GroupTensors::is_matrix(int location) const {
  const auto reads = [&](const std::optional<DequantTensors>& dequant) {
    return dequant && (dequant->scale == location || dequant->zero == location);
  };
  const auto is_read = [&](const GroupProgram& program) {
    return llvm::any_of(program.tensors,
                        [&](const TensorUse& use) { return use.location == location; });
  };
  const bool forms = formed && (is_read(formed->values) ||
                                llvm::any_of(formed->passes, [&](const FormedTensors::Pass& pass) {
                                  return is_read(pass.terms);
                                }));
  return llvm::is_contained(matrices, location) || llvm::any_of(dequants, reads) ||
         gain == location || forms;
}

namespace {

void set_sizes(const TensorType& type, MemoryLocation& location) {
  location.binding.bytes = span_bytes(type);
  const auto symbolic = [](const Dim& dim) { return dim.symbolic; };
  if (llvm::any_of(type.shape, symbolic))
    location.shape = type.shape;
  else
    location.traffic = traffic_bytes(type);
}

}  // namespace

i64 traffic_at(const MemoryLocation& location, i64 symbol) {
  if (location.shape.empty()) return location.traffic;
  TensorType type;
  type.dtype = location.dtype;
  type.shape = location.shape;
  type.strides = location.strides;
  type.packed = location.packed;
  return traffic_bytes(with_symbol(std::move(type), symbol));
}

MemoryLocation parameter_location(const VerifiedChain& chain, ValueId id) {
  MemoryLocation location;
  const TensorType& type = chain.info(id).type;
  location.binding.kind = SlotBinding::Kind::kParameter;
  location.binding.index =
      static_cast<int>(llvm::find(chain.parameters(), id) - chain.parameters().begin());
  location.binding.name = chain.value(id).name;
  location.binding.align = type.align;
  location.dtype = type.dtype;
  location.strides = type.strides;
  if (type.packed) location.strides = packed_strides(type);
  set_sizes(type, location);
  location.weight = chain.value(id).role == Role::kWeight;
  location.packed = type.packed;
  return location;
}

MemoryLocation output_location(const VerifiedChain& chain, int i) {
  const Output& output = chain.chain().outputs[i];
  const TensorType& type = chain.output_type(i);
  MemoryLocation location;
  location.binding.kind = SlotBinding::Kind::kOutput;
  location.binding.index = i;
  location.binding.name = chain.value(output.value).name;
  location.binding.align = type.align;
  if (output.in_place >= 0) {
    location.binding.in_place = parameter_location(chain, output.in_place).binding.index;
  }
  location.dtype = type.dtype;
  location.strides = type.strides;
  set_sizes(type, location);
  return location;
}

// A tensor in the workspace of the map.
MemoryLocation workspace_location(MemoryMap& memory, std::string name, DType dtype,
                                  llvm::ArrayRef<i64> strides, i64 bytes) {
  MemoryLocation location;
  location.binding.kind = SlotBinding::Kind::kWorkspace;
  location.binding.workspace_offset = memory.workspace_bytes;
  location.binding.name = std::move(name);
  location.binding.align = 256;
  location.binding.bytes = location.traffic = bytes;
  location.dtype = dtype;
  location.strides.assign(strides.begin(), strides.end());
  // An empty value has an offset of its own too: locations are told apart by it.
  memory.workspace_bytes += ceil_div(std::max<i64>(location.binding.bytes, 1), 256) * 256;
  return location;
}

void map_column_sums(const VerifiedChain& chain, const FusionGroup& group, MemoryMap& memory) {
  for (const ColumnSums& sums : group.column_sums) {
    const SummedRows rows = summed_rows(chain.info(sums.value).type, sums.summed);
    const auto& ragged = chain.info(group.anchors[0].value).rows;
    const i64 groups = ragged ? chain.info(ragged->ends).type.shape[0].size : 0;
    memory.column_sums[sums.value] = workspace_location(
        memory, fmt::format("sums of {} rows of {}", kSummedRows, chain.value(sums.value).name),
        DType::kF32, rows.strides,
        4 * (ceil_div(rows.size.size, i64{kSummedRows}) + groups) * rows.row_stride);
  }
}

MemoryMap map_memory(const VerifiedChain& chain, const FusionPlan& fusion) {
  MemoryMap memory;
  std::vector<bool> read(chain.num_values(), false);  // by another group
  for (size_t g = 0; g < fusion.groups.size(); ++g) {
    mark_reads(chain, fusion, static_cast<int>(g), read);
    for (int i : fusion.groups[g].copies) {
      memory.copies[i] = output_location(chain, i);
      read[chain.chain().outputs[i].value] = true;
    }
  }
  for (const FusionGroup& group : fusion.groups) {
    for (const GroupOutput& output : group.outputs) {
      const ValueId id = output.value;
      auto& stores = memory.stores[id];
      const DType own = chain.info(id).type.dtype;
      const auto& outputs = chain.chain().outputs;
      for (int i = 0; i < static_cast<int>(outputs.size()); ++i) {
        if (outputs[i].value != id || memory.copies.count(i) != 0) continue;
        const MemoryLocation location = output_location(chain, i);
        stores.push_back(location);
        // An output of the value's own dtype holds every bit of it: other groups read that.
        if (location.dtype == own) memory.home.try_emplace(id, location);
      }
      if (!read[id] || memory.home.count(id) != 0) continue;
      const TensorType& type = chain.info(id).type;
      stores.push_back(
          workspace_location(memory, chain.value(id).name, own, type.strides, span_bytes(type)));
      set_sizes(type, stores.back());
      memory.home[id] = stores.back();
    }
    map_column_sums(chain, group, memory);
  }
  return memory;
}

std::vector<ValueId> read_values(const VerifiedChain& chain, const FusionPlan& fusion, int group) {
  std::vector<bool> read(chain.num_values(), false);
  mark_reads(chain, fusion, group, read);
  std::vector<ValueId> values;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    if (read[id]) values.push_back(id);
  }
  return values;
}

std::vector<ValueId> computed_values(const VerifiedChain& chain, const FusionPlan& fusion,
                                     int group) {
  std::vector<bool> read(chain.num_values(), false);
  const std::vector<bool> recomputed = mark_reads(chain, fusion, group, read);
  std::vector<ValueId> values(fusion.groups[group].values);
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    const Op op = chain.value(id).op;
    if (recomputed[id] && op != Op::kParameter && op != Op::kConstant) values.push_back(id);
  }
  llvm::sort(values);
  return values;
}

namespace {

// The programs of the group's formed operand.
FormedTensors build_formed(const VerifiedChain& chain, const FusionPlan& fusion,
                           const MemoryMap& memory, int index, GroupTensors& tensors) {
  const FormedOperand& formed = *fusion.groups[index].formed;
  const DimMap row = {1 - formed.k_dim};
  FormedTensors result;
  llvm::SmallVector<ValueId, 4> sums, rows;  // of the passes so far
  const auto of_matrix = [&](GroupProgram& program, llvm::function_ref<int(ProgramBuilder&)> use) {
    ProgramBuilder builder(chain, fusion, memory, index, 2, tensors, program);
    builder.given(formed.data, identity(2), 0);
    for (size_t i = 0; i < rows.size(); ++i) builder.given(rows[i], row, static_cast<int>(i) + 1);
    return use(builder);
  };
  for (const FormedOperand::Pass& pass : formed.passes) {
    FormedTensors::Pass& made = result.passes.emplace_back();
    of_matrix(made.terms, [&](ProgramBuilder& builder) {
      for (ValueId sum : pass.sums)
        made.sums.push_back(builder.value(chain.value(sum).operands[0].value, identity(2)));
      return 0;
    });
    llvm::append_range(sums, pass.sums);
    ProgramBuilder builder(chain, fusion, memory, index, 1, tensors, made.rows);
    for (size_t i = 0; i < sums.size(); ++i)
      builder.given(sums[i], identity(1), static_cast<int>(i));
    for (ValueId id : pass.rows) made.results.push_back(builder.value(id, identity(1)));
    llvm::append_range(rows, pass.rows);
  }
  result.result = of_matrix(result.values, [&](ProgramBuilder& builder) {
    return builder.value(fusion.groups[index].row_data, identity(2));
  });
  return result;
}

}  // namespace

GroupTensors build_group(const VerifiedChain& chain, const FusionPlan& fusion,
                         const MemoryMap& memory, int index) {
  const FusionGroup& group = fusion.groups[index];
  GroupTensors tensors;
  const int rank = static_cast<int>(group.shape.size());
  for (size_t i = 0; i < group.anchors.size(); ++i) {
    const Value& anchor = chain.value(group.anchors[i].value);
    if (anchor.op != Op::kContract) continue;
    for (const Use& use : anchor.operands) {
      ValueId in_memory = use.value;
      if (use.value == group.row_data && group.gain) in_memory = group.gain->data;
      if (use.value == group.row_data && group.formed) in_memory = group.formed->data;
      add_matrix(chain, memory, in_memory, tensors);
    }
    if (anchor.ragged && i == 0)
      tensors.add_location(parameter_location(chain, anchor.ragged->ends));
  }
  if (group.kind == FusionGroup::Kind::kDequant)
    add_matrix(chain, memory, group.accumulators[0], tensors);
  if (group.gain) tensors.gain = tensors.add_location(location_of(chain, memory, group.gain->gain));
  if (group.formed) tensors.formed = build_formed(chain, fusion, memory, index, tensors);
  if (group.kind == FusionGroup::Kind::kReduction) {
    const ValueId operand = chain.value(group.anchors[0].value).operands[0].value;
    const int terms_rank = chain.info(operand).type.rank();
    ProgramBuilder prologue(chain, fusion, memory, index, terms_rank, tensors, tensors.prologue);
    tensors.prologue_results = {group.adds_column_sums
                                    ? prologue.load_column_sums(operand)
                                    : prologue.value(operand, identity(terms_rank))};
    for (const GroupOutput& output : group.outputs) {
      if (output.of_terms) prologue.store(output.value);
    }
  }
  ProgramBuilder program(chain, fusion, memory, index, rank, tensors, tensors.program);
  for (size_t i = 0; i < group.accumulators.size(); ++i) {
    program.accumulator(group.accumulators[i], static_cast<int>(i));
  }
  // Elements first: their layout decides the axes.
  const auto is_element = [&](const GroupOutput& output) { return output.shape == group.shape; };
  for (const bool elements : {true, false}) {
    for (const GroupOutput& output : group.outputs) {
      if (!output.of_terms && is_element(output) == elements) program.store(output.value);
    }
  }
  for (const ColumnSums& sums : group.column_sums) program.store_column_sums(sums);
  for (int i : group.copies) program.store(chain.chain().outputs[i].value, memory.copies.at(i));
  add_ends(chain, group, tensors);
  return tensors;
}

}  // namespace catenary
