// SPDX-License-Identifier: Apache-2.0
// A fusion group as tensors and a program: which memory the group's kernel touches, with a step per
// dimension of the group's shape, and the straight-line code between loads and stores. The family
// planners (plan_*.cpp) turn this into axes, operands and a config.
#pragma once

#include <map>

#include "compiler/fusion/fuse.h"
#include "compiler/fusion/program.h"
#include "compiler/fusion/space.h"

namespace catenary {

// Where a value lives between kernels (or a parameter or output for good).
struct MemoryLocation {
  SlotBinding binding;
  DType dtype = DType::kF32;
  llvm::SmallVector<Dim, 4> shape;    // of the value; empty if it has no symbolic dimension
  llvm::SmallVector<i64, 4> strides;  // per dimension of the value
  i64 traffic = 0;                    // traffic_bytes() of the value, if no size is symbolic
  bool weight = false;                // a parameter with role weight
  bool packed = false;                // in the packed layout, padding included in the strides
};

// Bytes that memory moves for the tensor where the symbol is `symbol` (ir/types.h).
// SlotBinding::bytes is the span at the symbol's upper bound, which a buffer needs.
i64 traffic_at(const MemoryLocation& location, i64 symbol);

// How a matrix is dequantised as it is read: locations of its scales and zeros.
struct DequantTensors {
  ScaleBlock block;
  int scale = -1;
  int zero = -1;  // -1: none
};

// A tensor that the program loads or stores. `steps` has one entry per dimension of the program's
// shape (for a reduction's prologue: of the reduced operand's shape).
struct TensorUse {
  int location = -1;  // index into GroupTensors::locations
  llvm::SmallVector<i64, 8> steps;
  bool store = false;
  // One dimension takes the group of the row in dimension rows->dim; 0 in a row of no group.
  std::optional<GroupedRows> rows;
  i64 group_step = 0;  // elements from one group to the next
  // Sums of rows (column_sums.h): how many rows there are, and elements from one to the next. 0: an
  // ordinary tensor.
  Extent summed_rows;
  i64 row_stride = 0;
  // Above 1: a store of one number for each row and this many columns (row_reductions.h). Steps
  // then count 1 / columns of an element.
  i64 columns = 1;
  // Above 0: a load of a vector over the columns of a block, the same for every block. Steps along
  // the other dimensions are as if blocks followed each other; the kernel takes none of them.
  i64 period = 0;
};

struct GroupProgram {
  // Operand fields are unset; ProgramLine::index of kLoad and kStore is the number of a TensorUse.
  Program lines;
  std::vector<TensorUse> tensors;
};

// An operand that the kernel forms (FormedOperand), as programs over its two dimensions; of `rows`
// over the one that is not K. Indices as in FormedPrograms.
struct FormedTensors {
  struct Pass {
    GroupProgram terms;
    llvm::SmallVector<int, 2> sums;
    GroupProgram rows;
    llvm::SmallVector<int, 2> results;
  };
  std::vector<Pass> passes;
  GroupProgram values;
  int result = 0;
};

// Everything that a group's kernel addresses.
struct GroupTensors {
  std::vector<MemoryLocation> locations;  // in slot order
  llvm::SmallVector<int, 2> scalars;      // positions among the chain's scalar parameters
  GroupProgram prologue;                  // kReduction: the terms, and stores (stored_terms.h)
  llvm::SmallVector<int, 2> prologue_results;
  GroupProgram program;                // accumulators in, stores out
  llvm::SmallVector<int, 4> matrices;  // kContract: locations of left and right of each anchor
  llvm::SmallVector<std::optional<DequantTensors>, 4> dequants;  // of each matrix
  int gain = -1;  // location of the vector by which A is multiplied (LoadGain); -1: none
  std::optional<FormedTensors> formed;  // of A

  int add_location(const MemoryLocation& location);  // reuses an equal one
  // Do the products read the location? Scales and zeros of a dequantised matrix, a gain and the
  // tensors of a formed operand included.
  bool is_matrix(int location) const;
};

// Where every stored value of the chain goes: outputs and workspace. Offsets are multiples of 256.
struct MemoryMap {
  std::map<ValueId, MemoryLocation> home;                 // what other groups read
  std::map<ValueId, std::vector<MemoryLocation>> stores;  // all that its group must write
  std::map<int, MemoryLocation> copies;                   // outputs that a later group copies
  std::map<ValueId, MemoryLocation> column_sums;          // sums of rows of the value
  i64 workspace_bytes = 0;
};
MemoryMap map_memory(const VerifiedChain& chain, const FusionPlan& fusion);

MemoryLocation parameter_location(const VerifiedChain& chain, ValueId id);

// Values that the group reads from memory, itself or through values that it recomputes; ascending.
std::vector<ValueId> read_values(const VerifiedChain& chain, const FusionPlan& fusion, int group);

// Values that the group's kernels compute, those that they recompute included; ascending.
std::vector<ValueId> computed_values(const VerifiedChain& chain, const FusionPlan& fusion,
                                     int group);

GroupTensors build_group(const VerifiedChain& chain, const FusionPlan& fusion,
                         const MemoryMap& memory, int group);

}  // namespace catenary
