// SPDX-License-Identifier: Apache-2.0
// Values of a group -> the lines of a kernel's program: loads of what is in memory, everything else
// computed where it is read, stores.
#pragma once

#include <map>
#include <set>

#include "compiler/fusion/group.h"

namespace catenary {

// For each dimension of a value, the dimension of the program's shape that indexes it; -1: none (a
// broadcast dimension of size 1); below that the group of a row, which `compute` writes.
using DimMap = llvm::SmallVector<int, 8>;

// Dimension i of the value is dimension i of the program.
DimMap identity(int rank);

// Appends to `program`, and to `tensors` what it addresses. `rank`: of the program's shape.
class ProgramBuilder {
 public:
  ProgramBuilder(const VerifiedChain& chain, const FusionPlan& fusion, const MemoryMap& memory,
                 int group, int rank, GroupTensors& tensors, GroupProgram& program)
      : chain_(chain),
        fusion_(fusion),
        memory_(memory),
        group_(group),
        rank_(rank),
        tensors_(tensors),
        program_(program) {}

  // Declares the value an accumulator before the program reads it.
  void accumulator(ValueId id, int index);

  // Declares the value an accumulator of the kernel where the program reads it so indexed.
  void given(ValueId id, const DimMap& map, int index);

  // The line that holds value `id`, indexed by `given`.
  int value(ValueId id, const DimMap& given);
  // All that the group writes of the value; one place of it; its sums of rows.
  void store(ValueId id);
  void store(ValueId id, const MemoryLocation& location);
  void store_column_sums(const ColumnSums& sums);
  int load_column_sums(ValueId id);

 private:
  // The dimensions of the program that index a value: all of them, or the ones that row reductions
  // keep.
  DimMap own_dims(ValueId id) const;
  // Which dimension indexes one of size 1 makes no difference, and must not make a second line.
  DimMap canonical(ValueId id, DimMap map) const;
  void step_by_blocks(const DimMap& kept, TensorUse& tensor) const;
  void repeat_in_blocks(const DimMap& map, TensorUse& tensor) const;
  int append(ProgramLine line, ValueId id);
  int append_given(ValueId id, int index);
  std::string unique_name(const std::string& name);
  std::string describe(ValueId id) const;
  int use(const MemoryLocation& location, const DimMap& map, bool store);
  int load(ValueId id, const MemoryLocation& location, const DimMap& map);
  int make(ValueId id, const DimMap& map);

  // A sum that this kernel forms beside its contractions: the accumulator after theirs.
  int row_squares(ValueId id);
  int reduce_row(ValueId id);
  int constant(ValueId id);
  int scalar(ValueId id);
  int compute(ValueId id, const DimMap& map);

  const VerifiedChain& chain_;
  const FusionPlan& fusion_;
  const MemoryMap& memory_;
  int group_;
  int rank_;
  GroupTensors& tensors_;
  GroupProgram& program_;
  std::map<std::pair<ValueId, DimMap>, int> memo_;
  std::map<std::pair<ValueId, DimMap>, int> given_;
  std::set<std::string> names_;
};

}  // namespace catenary
