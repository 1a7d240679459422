// SPDX-License-Identifier: Apache-2.0
// The straight-line program of a fusion group, and the tensor that each kernel pointer addresses.
// Independent of family and target.
#pragma once

#include <string>
#include <vector>

#include "ir/ops.h"
#include "llvm/ADT/SmallVector.h"
#include "shared/config.h"

namespace catenary {

// One line of a kernel's elementwise program. Programs are SSA: `args` index earlier lines of the
// same program.
struct ProgramLine {
  enum class Kind : u8 {
    kAccumulator,  // accumulator `index` of the kernel's contraction or sum
    kLoad,         // element of a tensor (operand)
    kConstant,     // attributes[0]
    kScalar,       // Params::scalar[index]
    kCompute,      // op(args...; attributes...)
    kRound,        // args[0] rounded to `dtype`, kept as f32
    kReduceRow,    // sum or maximum (op) of args[0] over a block of a row's columns
    kStore,        // args[0] to a tensor (operand), rounded to its dtype
  };
  Kind kind = Kind::kCompute;
  std::string name;     // the IR value's name; emitted variables are called v_<name>
  std::string comment;  // the IR text of the line
  Op op = Op::kAdd;
  int index = 0;
  llvm::SmallVector<int, 2> args;
  double attributes[2] = {0, 0};
  DType dtype = DType::kF32;  // kRound
  Operand operand;            // kLoad, kStore

  bool is_memory() const { return kind == Kind::kLoad || kind == Kind::kStore; }
};
using Program = std::vector<ProgramLine>;

// Which lines of a bound program are numbers of a row, and after which of its row reductions they
// are known. A pass over the columns forms the reductions whose terms need no other of that pass.
class RowNumbers {
 public:
  explicit RowNumbers(const Program& program);

  int passes() const { return passes_; }
  // The value is one for a whole row: it varies with no column.
  bool is_row(int line) const { return row_[line]; }
  // Passes after which it is known; 0: before the first.
  int level(int line) const { return level_[line]; }
  // A row's number that some pass gives.
  bool is_number(int line) const { return row_[line] && level_[line] > 0; }
  // The reductions that pass `pass`, from 0, forms: lines, ascending.
  std::vector<int> reductions(const Program& program, int pass) const;
  // The last element that a pass forms and from which, with operands and numbers, all later lines
  // follow; or -1. It takes the place of accumulator 0, so that nothing is formed twice.
  int kept(int pass) const { return kept_[pass]; }
  // What a pass, or after the last one the results, read: the line that an earlier pass keeps, or
  // -1 for the accumulators.
  int source(int pass) const;
  // Calls f for the lines that `results` need from what a pass reads (`source` of it) and numbers.
  void each_from(const Program& program, int source, llvm::ArrayRef<int> results,
                 llvm::function_ref<void(int)> f) const;

 private:
  int find_kept(const Program& program, int pass) const;

  std::vector<bool> row_;
  std::vector<int> level_;
  std::vector<int> kept_;  // by pass
  int passes_ = 0;
};

// Calls f for the lines that `results` need, in order; `known` lines are not needed again.
void each_needed(const Program& program, llvm::ArrayRef<int> results,
                 llvm::function_ref<bool(int)> known, llvm::function_ref<void(int)> f);

// The stores of elements: not of numbers of rows.
llvm::SmallVector<int, 4> element_stores(const Program& program);

// Is there little to do for each element after the passes? A result counts as an instruction, and
// so does an op that rounds at most once. Division by a row's number counts as two.
bool is_short(const Program& program);

// Is there so much to do that several elements at once would spill registers?
bool is_long(const Program& program);

// How a kernel forms an operand from the rows that it loads (formed.h), as programs. In `values`
// and `terms`, accumulator 0 is the element of the row and accumulator 1 + i is the row's number i.
// In `rows`, accumulator i is the row's sum i. Sums and numbers count over all passes.
struct FormedPrograms {
  struct Pass {
    Program terms;
    llvm::SmallVector<int, 2> sums;  // lines of `terms` that are summed
    Program rows;
    llvm::SmallVector<int, 2> results;  // lines of `rows`
  };
  std::vector<Pass> passes;
  Program values;
  int result = 0;  // line of `values`

  template <class F>
  void each_program(F f) {
    for (Pass& pass : passes) f(pass.terms), f(pass.rows);
    f(values);
  }
};

// The tensor that one pointer of Params::ptr addresses.
struct SlotBinding {
  enum class Kind : u8 { kParameter, kOutput, kWorkspace };
  Kind kind = Kind::kParameter;
  int index = 0;             // parameter: position among parameters(); output: its number
  i64 workspace_offset = 0;  // bytes
  std::string name;          // for explain and errors
  i64 align = 16;            // bytes the pointer must be a multiple of
  i64 bytes = 0;             // span in memory; 0: never touched
  int in_place = -1;         // output: position of the parameter whose memory it takes
};

}  // namespace catenary
