// SPDX-License-Identifier: Apache-2.0
// The identity of a contraction for measured choices, from the problem's own fields. A change of
// what is written here is a change of kSchema: records of another schema are then not found.
#include <fmt/ranges.h>

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
  const auto& [slot, dtype, vec, streamed, weight, before_wait, map, stride] = operand;
  return fmt::format("{}:{}:{}:{}{}{}:{}:{}", slot, dtype_text(dtype), vec, int{streamed},
                     int{weight}, int{before_wait}, map, text(stride));
}

std::string text(const ContractionOperand& operand) {
  const auto& [memory, dtype, weight, bytes] = operand;
  const auto& [slot, row, k, outer, group, batch, k_major, copy_bytes] = memory;
  return fmt::format("{}:{}:{}:{}:{}:{}:{}:{}:{}:{}", slot, dtype_text(dtype), int{weight}, row, k,
                     outer, group, text(batch), int{k_major}, copy_bytes);
}

std::string text(const ProgramLine& line) {
  const auto& [kind, name, comment, op, index, args, attributes, dtype, operand] = line;
  std::string out = fmt::format("{}:{}:{}:{}:{:a}:{:a}", static_cast<int>(kind), op_info(op).text,
                                index, fmt::join(args, ","), attributes[0], attributes[1]);
  if (line.kind == ProgramLine::Kind::kRound) out += fmt::format(":{}", dtype_text(dtype));
  if (line.is_memory()) out += fmt::format(":{}", text(operand));
  return out;
}

}  // namespace

std::string problem_signature(const ContractionProblem& p) {
  std::string out =
      fmt::format("contraction {}\nmath {}\nbatch", kSchema, static_cast<int>(p.math));
  for (int d = kMaxDims - p.batch_rank; d < kMaxDims; ++d) out += " " + text(p.batch.at[d]);
  out += fmt::format("\nmnk {} {} {} x {}\nsymbol {}\n", text(p.m), text(p.n), text(p.k), p.k_outer,
                     p.size.symbol);
  if (p.ragged != Ragged::kNone) {
    out += fmt::format("ragged {} slot {} groups {}\n", static_cast<int>(p.ragged),
                       p.group_ends_slot, p.num_groups);
  }
  for (const ContractionOperand& operand : p.a) out += "a " + text(operand) + "\n";
  for (const ContractionOperand& operand : p.b) out += "b " + text(operand) + "\n";
  for (const auto& [a, b, accumulator] : p.products) {
    out += fmt::format("product {} {} {}\n", a, b, accumulator);
  }
  for (const Extent& n : p.accumulator_n) out += fmt::format("accumulator {}\n", text(n));
  for (const ProgramLine& line : p.program) out += "line " + text(line) + "\n";
  return out;
}

}  // namespace catenary
