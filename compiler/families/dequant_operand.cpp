// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/dequant_operand.h"

namespace catenary {
namespace {

BlockNumbers numbers(const BlockOperand& o) {
  return {o.slot, o.dtype, o.stride_row, o.stride_column, o.stride_group, o.stride_batch};
}

Fields fields_of(const BlockNumbers& n) {
  Fields fields;
  fields.add("slot", n.slot).add("dtype", n.dtype).add("stride_row", n.stride_row);
  fields.add("stride_block", n.stride_block)
      .add_unless_default("stride_group", n.stride_group, BlockNumbers().stride_group);
  return fields.add_unless_default("stride_batch", n.stride_batch, BlockNumbers().stride_batch);
}

// What of a dequantised operand the kernels do not read: a sentence; empty: they read all.
std::string weight_refusal(const ContractionProblem& p, const ContractionOperand& w) {
  const DequantisedOperand& dequant = *w.dequant;
  const std::string& q = p.slots[w.memory.slot].name;
  if (!dequant.packed) {
    return fmt::format(
        "'{}' is not in the packed layout: declare it packed, and pass what "
        "ctn_repack makes of it",
        q);
  }
  if (!dequant.rows_by_k) {
    return fmt::format(
        "the last two labels of '{}' are not one of the result's columns and the summed one: "
        "contract it as \"mk,nk->mn\" or, with a matrix for each group, \"gmk,gnk->gmn\"",
        q);
  }
  if (p.slots[w.memory.slot].align < 16) {
    return fmt::format("'{}' is aligned to {} bytes: align it to 16", q,
                       p.slots[w.memory.slot].align);
  }
  if (w.dtype != DType::kI8 && w.dtype != DType::kI4 && w.dtype != DType::kU4) {
    return fmt::format("'{}' is {}: it reads i8, i4 and u4", q, dtype_text(w.dtype));
  }
  if (dequant.block.rows != 1) {
    return fmt::format("{} rows of '{}' share a scale: give every row its own", dequant.block.rows,
                       q);
  }
  if (dequant.block.columns % 32 != 0 && dequant.block.columns < p.size.k) {
    return fmt::format("{} columns of '{}' share a scale: make that a multiple of 32",
                       dequant.block.columns, q);
  }
  if (dequant.zero && dequant.zero->dtype != DType::kI8) {
    return fmt::format("the zeros of '{}' are {}: pass them as i8", q,
                       dtype_text(dequant.zero->dtype));
  }
  return "";
}

// The same of N, K and the batch.
std::string size_refusal(const ContractionProblem& p) {
  const bool exact = p.space.k_outer == 1 && p.space.k.scale == 0 && p.space.n.scale == 0 &&
                     p.space.n.size > 0 && p.space.k.size > 0 && p.space.k.size % 32 == 0 &&
                     llvm::all_of(p.space.batch.at, [](const Extent& e) { return e.scale == 0; });
  if (!exact) return "it takes exact sizes, and K in whole multiples of 32";
  if (p.space.k.size > kDequantColumns)
    return fmt::format("K is {}: it takes at most {} columns", p.space.k.size, kDequantColumns);
  return "";
}

}  // namespace

DequantOperand dequant_operand(const ContractionOperand& b) {
  DequantOperand w;
  w.slot = b.memory.slot;
  w.dtype = b.dtype;
  w.block_columns = b.dequant->block.columns;
  w.scale = numbers(b.dequant->scale);
  w.has_zero = b.dequant->zero.has_value();
  if (w.has_zero) w.zero = numbers(*b.dequant->zero);
  w.stride_group = b.memory.stride_group;
  w.stride_batch = b.memory.stride_batch;
  return w;
}

Fields fields_of(const DequantOperand& w) {
  Fields fields;
  fields.add("slot", w.slot).add("dtype", w.dtype).add("block_columns", w.block_columns);
  fields.add("scale", fields_of(w.scale));
  if (w.has_zero) fields.add("has_zero", true).add("zero", fields_of(w.zero));
  fields.add_unless_default("stride_group", w.stride_group, DequantOperand().stride_group);
  return fields.add_unless_default("stride_batch", w.stride_batch, DequantOperand().stride_batch);
}

void renumber_slots(DequantOperand& w, llvm::function_ref<i32(i32)> renumber) {
  w.slot = renumber(w.slot);
  w.scale.slot = renumber(w.scale.slot);
  if (w.has_zero) w.zero.slot = renumber(w.zero.slot);
}

ContractionFamily::Support supports_dequant(const ContractionProblem& p) {
  const bool reads = p.has_one_a() && !p.a[0].dequant && p.b[0].dequant && p.has_dequants_like(p);
  if (!reads) return {"it computes one product with a dequantised weight, or two over one A", true};
  if (p.space.math != MathMode::kBF16 && p.space.math != MathMode::kF16)
    return {"it multiplies quantised weights by bf16 and f16"};
  if (p.num_column_sums() > 0) return {"it sums no rows", true};
  if (p.formed) return {"it forms no X from what is in memory", true};
  const bool has_groups = p.ragged.kind != Ragged::kNone;
  if (has_groups && (p.ragged.kind != Ragged::kMGrouped || p.ragged.num_groups <= 0))
    return {"it takes groups of rows of the activations, one or more"};
  if (std::string refusal = size_refusal(p); !refusal.empty()) return {refusal};
  for (const ContractionOperand& w : p.b) {
    if (std::string refusal = weight_refusal(p, w); !refusal.empty()) return {refusal};
  }
  return {};
}

}  // namespace catenary
