// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/program.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"

namespace catenary {

using Kind = ProgramLine::Kind;

RowNumbers::RowNumbers(const Program& program) {
  for (const ProgramLine& line : program) {
    bool row = line.kind == Kind::kConstant || line.kind == Kind::kScalar ||
               line.kind == Kind::kReduceRow ||
               (line.kind == Kind::kLoad && line.operand.stride.at[kMaxDims - 1] == 0);
    int level = 0;
    for (int arg : line.args) level = std::max(level, level_[arg]);
    if (line.kind == Kind::kCompute || line.kind == Kind::kRound)
      row = llvm::all_of(line.args, [&](int arg) { return row_[arg]; });
    if (line.kind == Kind::kReduceRow) ++level;
    row_.push_back(row);
    level_.push_back(level);
    passes_ = std::max(passes_, level);
  }
}

std::vector<int> RowNumbers::reductions(const Program& program, int pass) const {
  std::vector<int> lines;
  for (int i = 0; i < static_cast<int>(program.size()); ++i) {
    if (program[i].kind == Kind::kReduceRow && level_[i] == pass + 1) lines.push_back(i);
  }
  return lines;
}

}  // namespace catenary
