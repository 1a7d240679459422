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
  for (int pass = 0; pass < passes_; ++pass) kept_.push_back(find_kept(program, pass));
}

std::vector<int> RowNumbers::reductions(const Program& program, int pass) const {
  std::vector<int> lines;
  for (int i = 0; i < static_cast<int>(program.size()); ++i) {
    if (program[i].kind == Kind::kReduceRow && level_[i] == pass + 1) lines.push_back(i);
  }
  return lines;
}

int RowNumbers::source(int pass) const {
  while (pass-- > 0) {
    if (kept_[pass] >= 0) return kept_[pass];
  }
  return -1;
}

int RowNumbers::find_kept(const Program& program, int pass) const {
  const auto add_terms = [&](int of, llvm::SmallVectorImpl<int>& lines) {
    for (int line : reductions(program, of)) lines.push_back(program[line].args[0]);
  };
  const auto needs = [&](llvm::ArrayRef<int> results, int known, auto is) {
    bool found = false;
    each_from(program, known, results, [&](int line) { found |= is(line); });
    return found;
  };
  llvm::SmallVector<int, 8> terms, later(element_stores(program));
  add_terms(pass, terms);
  for (int of = pass + 1; of < passes_; ++of) add_terms(of, later);
  for (int line = static_cast<int>(program.size()) - 1; line >= 0; --line) {
    const Kind kind = program[line].kind;
    if ((kind != Kind::kCompute && kind != Kind::kRound) || row_[line] || level_[line] > pass)
      continue;
    if (needs(terms, -1, [&](int i) { return i == line; }) &&
        !needs(later, line, [&](int i) { return program[i].kind == Kind::kAccumulator; })) {
      return line;
    }
  }
  return -1;
}

void RowNumbers::each_from(const Program& program, int source, llvm::ArrayRef<int> results,
                           llvm::function_ref<void(int)> f) const {
  each_needed(
      program, results, [&](int line) { return is_number(line) || line == source; }, f);
}

llvm::SmallVector<int, 4> element_stores(const Program& program) {
  llvm::SmallVector<int, 4> lines;
  for (int i = 0; i < static_cast<int>(program.size()); ++i) {
    if (program[i].kind == Kind::kStore && program[i].operand.columns == 1) lines.push_back(i);
  }
  return lines;
}

void each_needed(const Program& program, llvm::ArrayRef<int> results,
                 llvm::function_ref<bool(int)> known, llvm::function_ref<void(int)> f) {
  std::vector<bool> needed(program.size(), false);
  for (int line : results) needed[line] = !known(line);
  for (int i = static_cast<int>(program.size()) - 1; i >= 0; --i) {
    if (!needed[i]) continue;
    for (int arg : program[i].args) needed[arg] = needed[arg] || !known(arg);
  }
  for (int i = 0; i < static_cast<int>(program.size()); ++i) {
    if (needed[i]) f(i);
  }
}

bool is_short(const Program& program) {
  constexpr int kMostInstructions = 3;
  const RowNumbers rows(program);
  int count = 0;
  rows.each_from(program, rows.source(rows.passes()), element_stores(program), [&](int i) {
    const ProgramLine& line = program[i];
    if (line.kind == Kind::kStore) ++count;
    if (line.kind != Kind::kCompute) return;
    const bool by_number = line.op == Op::kDiv && rows.is_number(line.args[1]);
    count += by_number ? 2 : op_info(line.op).error <= 1 ? 1 : kMostInstructions + 1;
  });
  return count <= kMostInstructions;
}

bool is_long(const Program& program) {
  constexpr int kMostOps = 12;
  const auto is_op = [](const ProgramLine& line) { return line.kind == Kind::kCompute; };
  return llvm::count_if(program, is_op) > kMostOps;
}

}  // namespace catenary
