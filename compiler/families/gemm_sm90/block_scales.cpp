// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/gemm_sm90/block_scales.h"

namespace catenary {
namespace {

// Products of one k-tile, which the tensor cores add before they are scaled.
constexpr i64 kTerms = 128;
// A column tile has whole MMAs of 8 columns, of two blocks at most.
constexpr i64 kColumns = 128;

std::string refusal_of(const ContractionProblem& p, const ContractionOperand& o) {
  const std::string& name = p.slots[o.memory.slot].name;
  if (!o.dequant->rows_by_k) {
    return fmt::format(
        "'{}' is not a matrix with the summed label innermost: contract it as \"mk,nk->mn\", or as "
        "\"mk,enk->mn\" with ragged rows",
        name);
  }
  const i64 columns = o.dequant->block.columns;
  if (columns % kTerms != 0 && columns < p.size.k) {
    return fmt::format("{} columns of '{}' share a scale: make that a multiple of {}", columns,
                       name, kTerms);
  }
  return "";
}

// `rows`: all rows of the operand.
BlockScales scales_of(const ContractionProblem& p, const ContractionOperand& o, i64 rows) {
  const ScaleBlock& block = o.dequant->block;
  const BlockOperand& numbers = o.dequant->scale;
  BlockScales scales;
  scales.slot = numbers.slot;
  scales.stride_group = p.ragged.kind == Ragged::kNone ? 0 : numbers.stride_group;
  // A dimension of one block has no stride to respect.
  if (block.rows < rows) {
    scales.rows = block.rows;
    scales.stride_row = numbers.stride_row;
  }
  if (block.columns < p.size.k) {
    scales.columns = block.columns;
    scales.stride_column = numbers.stride_column;
  }
  return scales;
}

}  // namespace

std::string block_scales_refusal(const ContractionProblem& p) {
  const ContractionOperand& a = p.a[0];
  const ContractionOperand& b = p.b[0];
  for (const ContractionOperand* o : {&a, &b, &p.b.back()}) {
    std::string refusal = refusal_of(p, *o);
    if (!refusal.empty()) return refusal;
  }
  if (p.size.batch != 1 || p.space.k_outer != 1)
    return "scales per block are of two matrices: write a contraction for each batch entry";
  const i64 rows_a = a.dequant->block.rows;
  if (rows_a != 1 && rows_a < p.size.m) {
    return fmt::format("{} rows of '{}' share a scale: give each row its own, or all rows one",
                       rows_a, p.slots[a.memory.slot].name);
  }
  const i64 rows_b = b.dequant->block.rows;
  if (rows_b % kColumns != 0 && rows_b < p.size.n) {
    const std::string& name = p.slots[b.memory.slot].name;
    if (rows_b == 1) {
      return fmt::format(
          "each row of '{}' has scales of its own, and so has each row of '{}': let {} rows of one "
          "share a scale",
          name, p.slots[a.memory.slot].name, kColumns);
    }
    return fmt::format("{} rows of '{}' share a scale: make that a multiple of {}", rows_b, name,
                       kColumns);
  }
  return "";
}

void set_block_scales(const ContractionProblem& p, GemmSm90Config& config) {
  config.block_scaled = true;
  config.scale_a = scales_of(p, p.a[0], p.size.m);
  config.scale_b = scales_of(p, p.b[0], p.size.n);
  if (p.is_dual()) config.scale_b2 = scales_of(p, p.b[1], p.size.n);
}

}  // namespace catenary
