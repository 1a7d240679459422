// SPDX-License-Identifier: Apache-2.0
// The identity of a contraction for measured choices, from the problem's own fields. A change of
// what is written here is a change of kSchema: records of another schema are then not found.
#include <fmt/ranges.h>

#include "llvm/ADT/STLExtras.h"

#include "compiler/families/problem.h"

namespace catenary {
namespace {

constexpr int kSchema = 2;

// Structured bindings, so that a struct that gains a field does not compile until it is here.
std::string text(const Extent& extent) {
  const auto& [size, scale] = extent;
  return scale == 0 ? fmt::to_string(size) : fmt::format("{}*s", scale);
}

std::string text(const Dims& dims) {
  const auto& [at] = dims;
  return fmt::format("{}", fmt::join(at, ","));
}

std::string text(const Operand& operand) {
  const auto& [slot, dtype, vec, streamed, weight, before_wait, by_group, map, rows, columns,
               period, stride_group, stride] = operand;
  std::string out = fmt::format("{}:{}:{}:{}{}{}:{}:{}", slot, dtype_text(dtype), vec,
                                int{streamed}, int{weight}, int{before_wait}, map, text(stride));
  if (by_group) out += fmt::format(":group {}", stride_group);
  if (rows != 1) out += fmt::format(":rows {}", rows);
  if (columns != 1) out += fmt::format(":columns {}", columns);
  if (period != 0) out += fmt::format(":period {}", period);
  return out;
}

std::string text(const BlockOperand& operand) {
  const auto& [slot, dtype, row, column, group, batch] = operand;
  return fmt::format("{}:{}:{}:{}:{}:{}", slot, dtype_text(dtype), row, column, group, text(batch));
}

std::string text(const DequantisedOperand& operand) {
  const auto& [block, scale, zero, packed, rows_by_k] = operand;
  return fmt::format(":dequant {}x{} scale {} zero {} {}{}", block.rows, block.columns, text(scale),
                     zero ? text(*zero) : "none", int{packed}, int{rows_by_k});
}

std::string text(const ContractionOperand& operand) {
  const auto& [memory, dtype, weight, bytes, dequant] = operand;
  const auto& [slot, row, k, outer, group, batch, k_major, copy_bytes] = memory;
  std::string out =
      fmt::format("{}:{}:{}:{}:{}:{}:{}:{}:{}:{}", slot, dtype_text(dtype), int{weight}, row, k,
                  outer, group, text(batch), int{k_major}, copy_bytes);
  if (dequant) out += text(*dequant);
  return out;
}

std::string text(const ProgramLine& line) {
  const auto& [kind, name, comment, op, index, args, attributes, dtype, operand] = line;
  std::string out = fmt::format("{}:{}:{}:{}:{:a}:{:a}", static_cast<int>(kind), op_info(op).text,
                                index, fmt::join(args, ","), attributes[0], attributes[1]);
  if (line.kind == ProgramLine::Kind::kRound) out += fmt::format(":{}", dtype_text(dtype));
  if (line.is_memory()) out += fmt::format(":{}", text(operand));
  return out;
}

std::string text(const Program& program) {
  std::string out;
  for (const ProgramLine& line : program) out += text(line) + ";";
  return out;
}

std::string text(const FormedPrograms& formed) {
  const auto& [passes, values, result] = formed;
  std::string out;
  for (const auto& [terms, sums, rows, results] : passes) {
    out += fmt::format("pass {} sums {} rows {} {}\n", text(terms), fmt::join(sums, ","),
                       text(rows), fmt::join(results, ","));
  }
  return out + fmt::format("formed {} {}\n", text(values), result);
}

// One row has no stride.
bool has_contiguous_rows(const ContractionOperand& operand, i64 rows,
                         const ContractionProblem& problem) {
  return operand.memory.k_major && operand.memory.copy_bytes == 16 &&
         (rows == 1 || operand.memory.stride_row == problem.size.k);
}

bool is_one_layer(const ContractionProblem& p) {
  const bool exact = p.space.m.scale == 0 && p.space.n.scale == 0 && p.space.k.scale == 0;
  return exact && p.reduced_columns == 1 && !p.is_dequantised() && p.space.k_outer == 1 &&
         p.size.batch == 1 && p.ragged.kind == Ragged::kNone && p.has_plain_products() &&
         !p.formed && !p.gain && !p.row_squares && p.outputs.size() == 1 &&
         has_contiguous_rows(p.a[0], p.size.m, p) &&
         llvm::all_of(p.b, [&](const ContractionOperand& b) {
           return b.weight && has_contiguous_rows(b, p.size.n, p);
         });
}

}  // namespace

std::string problem_signature(const ContractionProblem& p) {
  const auto& [math, batch, batch_rank, m, n, k, k_outer] = p.space;
  const auto& [ragged, group_ends_slot, num_groups] = p.ragged;
  std::string out = fmt::format("contraction {}\nmath {}\nbatch", kSchema, static_cast<int>(math));
  for (int d = kMaxDims - batch_rank; d < kMaxDims; ++d) out += " " + text(batch.at[d]);
  out += fmt::format("\nmnk {} {} {} x {}\nsymbol {}\n", text(m), text(n), text(k), k_outer,
                     p.size.symbol);
  if (ragged != Ragged::kNone) {
    out += fmt::format("ragged {} slot {} groups {}\n", static_cast<int>(ragged), group_ends_slot,
                       num_groups);
  }
  for (const ContractionOperand& operand : p.a) out += "a " + text(operand) + "\n";
  for (const ContractionOperand& operand : p.b) out += "b " + text(operand) + "\n";
  for (const auto& [a, b, accumulator, k, k_outer] : p.products) {
    out += fmt::format("product {} {} {}", a, b, accumulator);
    out += a > 0 ? fmt::format(" k {} x {}\n", text(k), k_outer) : "\n";
  }
  for (const Extent& n : p.accumulator_n) out += fmt::format("accumulator {}\n", text(n));
  if (p.reduced_columns > 1) out += fmt::format("reduced columns {}\n", p.reduced_columns);
  if (p.row_squares) out += "squares of the rows of a\n";
  if (p.gain) out += "gain of a " + text(*p.gain) + "\n";
  if (p.formed) out += text(*p.formed);
  for (const ProgramLine& line : p.program) out += "line " + text(line) + "\n";
  return out;
}

std::string problem_shape(const ContractionProblem& p) {
  if (!is_one_layer(p)) return "";
  const std::string width = is_16bit(p.space.math) ? "16-bit" : math_info(p.space.math).text;
  const i64 m = p.size.m <= 8 ? p.size.m : ceil_div(p.size.m, 8) * 8;
  return fmt::format("{} {}x{}x{}{}", width, m, p.size.n, p.size.k, p.is_dual() ? " dual" : "");
}

}  // namespace catenary
