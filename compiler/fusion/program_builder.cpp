// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/program_builder.h"

#include "compiler/fusion/column_sums.h"
#include "compiler/fusion/row_reductions.h"

namespace catenary {
namespace {

int by_group(const GroupedRows& rows) { return -2 - (rows.ends * kMaxRank + rows.dim); }

// The rows of by_group(); nothing for another entry of a DimMap.
std::optional<GroupedRows> rows_of(int index) {
  if (index > -2) return std::nullopt;
  GroupedRows rows;
  rows.dim = (-2 - index) % kMaxRank;
  rows.ends = (-2 - index) / kMaxRank;
  return rows;
}

}  // namespace

DimMap identity(int rank) {
  DimMap map(rank);
  for (int i = 0; i < rank; ++i) map[i] = i;
  return map;
}

void ProgramBuilder::accumulator(ValueId id, int index) {
  ProgramLine line;
  line.kind = ProgramLine::Kind::kAccumulator;
  line.index = index;
  memo_[{id, canonical(id, identity(rank_))}] = append(line, id);
}

void ProgramBuilder::given(ValueId id, const DimMap& map, int index) {
  given_[{id, canonical(id, map)}] = index;
}

int ProgramBuilder::value(ValueId id, const DimMap& given) {
  const DimMap map = canonical(id, given);
  const auto key = std::make_pair(id, map);
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  const auto known = given_.find(key);
  const int line = known == given_.end() ? make(id, map) : append_given(id, known->second);
  memo_[key] = line;
  return line;
}

void ProgramBuilder::store(ValueId id) {
  for (const MemoryLocation& location : memory_.stores.at(id)) store(id, location);
}

void ProgramBuilder::store(ValueId id, const MemoryLocation& location) {
  ProgramLine line;
  line.kind = ProgramLine::Kind::kStore;
  const DimMap map = own_dims(id);
  line.args = {value(id, map)};
  line.index = use(location, map, true);
  append(line, id);
  if (static_cast<int>(map.size()) < rank_) step_by_blocks(map, program_.tensors.back());
}

DimMap ProgramBuilder::own_dims(ValueId id) const {
  const FusionGroup& group = fusion_.groups[group_];
  const bool element = chain_.info(id).type.rank() == rank_ || !group.row_reductions;
  return element ? identity(rank_) : kept_dims(group);
}

void ProgramBuilder::step_by_blocks(const DimMap& kept, TensorUse& tensor) const {
  const FusionGroup& group = fusion_.groups[group_];
  tensor.columns = reduced_columns(group);
  // Blocks along the last dimension that is kept are neighbours where they are columns.
  i64 step = tensor.steps[kept.back()];
  for (int d : kept) tensor.steps[d] *= tensor.columns;
  for (int d : llvm::reverse(group.row_reductions->summed)) {
    tensor.steps[d] = step;
    step *= group.shape[d].size;
  }
}

void ProgramBuilder::store_column_sums(const ColumnSums& sums) {
  store(sums.value, memory_.column_sums.at(sums.value));
  const SummedRows rows = summed_rows(chain_.info(sums.value).type, sums.summed);
  TensorUse& tensor = program_.tensors.back();
  tensor.summed_rows = rows.size;
  tensor.row_stride = rows.row_stride;
  tensor.rows = chain_.info(fusion_.groups[group_].anchors[0].value).rows;
  if (tensor.rows) tensor.group_step = rows.row_stride;
}

int ProgramBuilder::load_column_sums(ValueId id) {
  return load(id, memory_.column_sums.at(id), identity(rank_));
}

DimMap ProgramBuilder::canonical(ValueId id, DimMap map) const {
  const auto& shape = chain_.info(id).type.shape;
  for (size_t d = 0; d < map.size(); ++d) {
    if (shape[d] == Dim{1, false} && !rows_of(map[d])) map[d] = -1;
  }
  return map;
}

int ProgramBuilder::append(ProgramLine line, ValueId id) {
  const std::string& name = chain_.value(id).name;
  line.name = line.kind == ProgramLine::Kind::kStore ? name : unique_name(name);
  line.comment = describe(id);
  program_.lines.push_back(std::move(line));
  return static_cast<int>(program_.lines.size()) - 1;
}

int ProgramBuilder::append_given(ValueId id, int index) {
  ProgramLine line;
  line.kind = ProgramLine::Kind::kAccumulator;
  line.index = index;
  return append(line, id);
}

std::string ProgramBuilder::unique_name(const std::string& name) {
  std::string unique = name;
  for (int count = 2; !names_.insert(unique).second; ++count) {
    unique = fmt::format("{}_{}", name, count);
  }
  return unique;
}

std::string ProgramBuilder::describe(ValueId id) const {
  const Value& v = chain_.value(id);
  if (v.op == Op::kParameter) return fmt::format("%{} = {}", v.name, role_text(v.role));
  if (v.op == Op::kConstant) return fmt::format("%{} = constant", v.name);
  std::string args;
  for (const Use& use : v.operands) {
    args += fmt::format("{}%{}", args.empty() ? "" : ", ", chain_.value(use.value).name);
  }
  return fmt::format("%{} = {}({})", v.name, op_info(v.op).text, args);
}

int ProgramBuilder::use(const MemoryLocation& location, const DimMap& map, bool store) {
  TensorUse tensor;
  tensor.location = tensors_.add_location(location);
  tensor.store = store;
  tensor.steps.assign(rank_, 0);
  for (size_t d = 0; d < map.size(); ++d) {
    if (map[d] >= 0) tensor.steps[map[d]] += location.strides[d];
    if (!rows_of(map[d])) continue;
    tensor.rows = rows_of(map[d]);
    tensor.group_step = location.strides[d];
  }
  if (!store && fusion_.groups[group_].row_reductions) repeat_in_blocks(map, tensor);
  program_.tensors.push_back(std::move(tensor));
  return static_cast<int>(program_.tensors.size()) - 1;
}

int ProgramBuilder::load(ValueId id, const MemoryLocation& location, const DimMap& map) {
  ProgramLine line;
  line.kind = ProgramLine::Kind::kLoad;
  line.index = use(location, map, false);
  return append(line, id);
}

int ProgramBuilder::make(ValueId id, const DimMap& map) {
  const Value& v = chain_.value(id);
  if (v.op == Op::kConstant) return constant(id);
  if (v.op == Op::kParameter && v.role == Role::kScalar) return scalar(id);
  if (v.op == Op::kParameter) return load(id, parameter_location(chain_, id), map);
  if (reads_memory(fusion_, id, group_)) {
    return load(id, memory_.home.at(id), map);
  }
  if (is_reduction(v.op))
    return fusion_.groups[group_].row_squares == id ? row_squares(id) : reduce_row(id);
  return compute(id, map);
}

int ProgramBuilder::row_squares(ValueId id) {
  return append_given(id, static_cast<int>(fusion_.groups[group_].anchors.size()));
}

int ProgramBuilder::reduce_row(ValueId id) {
  ProgramLine line;
  line.kind = ProgramLine::Kind::kReduceRow;
  line.op = chain_.value(id).op;
  line.args = {value(chain_.value(id).operands[0].value, identity(rank_))};
  return append(line, id);
}

// Gives a vector over the reduced dimensions, with its elements side by side, the steps of a tensor
// that has one for each block.
void ProgramBuilder::repeat_in_blocks(const DimMap& map, TensorUse& tensor) const {
  const FusionGroup& group = fusion_.groups[group_];
  const auto& summed = group.row_reductions->summed;
  if (static_cast<int>(tensor.steps.size()) != static_cast<int>(group.shape.size())) return;
  if (llvm::any_of(map, [&](int d) { return d < 0 || !llvm::is_contained(summed, d); })) return;
  i64 step = 1;
  for (int d : llvm::reverse(summed)) {
    if (tensor.steps[d] != step) return;
    step *= group.shape[d].size;
  }
  tensor.period = step;
  for (int d : llvm::reverse(kept_dims(group))) {
    tensor.steps[d] = step;
    step *= group.shape[d].size;
  }
}

int ProgramBuilder::constant(ValueId id) {
  ProgramLine line;
  line.kind = ProgramLine::Kind::kConstant;
  line.attributes[0] = chain_.value(id).attributes[0];
  return append(line, id);
}

int ProgramBuilder::scalar(ValueId id) {
  ProgramLine line;
  line.kind = ProgramLine::Kind::kScalar;
  const int position =
      static_cast<int>(llvm::find(chain_.parameters(), id) - chain_.parameters().begin());
  const auto found = llvm::find(tensors_.scalars, position);
  line.index = static_cast<int>(found - tensors_.scalars.begin());
  if (found == tensors_.scalars.end()) tensors_.scalars.push_back(position);
  return append(line, id);
}

int ProgramBuilder::compute(ValueId id, const DimMap& map) {
  const Value& v = chain_.value(id);
  const ValueInfo& info = chain_.info(id);
  ProgramLine line;
  for (size_t i = 0; i < v.operands.size(); ++i) {
    const ValueId operand = v.operands[i].value;
    DimMap inner(chain_.info(operand).type.rank(), -1);
    for (size_t d = 0; d < info.operand_dims[i].size(); ++d) {
      if (info.operand_dims[i][d] >= 0) inner[info.operand_dims[i][d]] = map[d];
    }
    if (info.operand_group[i] >= 0) inner[info.operand_group[i]] = by_group(*info.rows);
    line.args.push_back(value(operand, inner));
  }
  line.op = v.op;
  line.attributes[0] = v.attributes[0];
  line.attributes[1] = v.attributes[1];
  line.kind = v.op == Op::kCast ? ProgramLine::Kind::kRound : ProgramLine::Kind::kCompute;
  line.dtype = info.type.dtype;
  return append(line, id);
}

}  // namespace catenary
