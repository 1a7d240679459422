// SPDX-License-Identifier: Apache-2.0
// A contraction as every family sees it: extents, operands and outputs, with every label mapped to
// batch, M, N or K. Labels of one class merge where all tensors have matching strides; a free label
// that does not merge becomes a batch dimension, so any layout has a problem. Knows no family.
#pragma once

#include "compiler/families/binding.h"

namespace catenary {

// Scales or zeros of a dequantised operand: one number for each block of rows and columns.
struct BlockOperand {
  i32 slot = 0;
  DType dtype = DType::kF32;
  i64 stride_row = 0;      // elements from one block of rows to the next
  i64 stride_column = 0;   // the same of columns
  i64 stride_group = 0;    // as in MatrixOperand
  Dims stride_batch = {};  // the same
};

// An operand (q - zero) * scale of integers q, or q * scale of fp8.
struct DequantisedOperand {
  ScaleBlock block;
  BlockOperand scale;
  std::optional<BlockOperand> zero;
  bool packed = false;  // q is in the packed layout: its strides are those, padding included
  // Every q is a matrix whose columns are K and whose rows are N: of all batch entries and groups.
  bool rows_by_k = false;
};

// A matrix operand: where it is, and what may be assumed of it.
struct ContractionOperand {
  MatrixOperand memory;
  DType dtype = DType::kBF16;
  bool weight = false;  // may be read before the dependency wait, with its scales and zeros
  i64 bytes = 0;        // its span in memory, scales and zeros included
  std::optional<DequantisedOperand> dequant;
};

// One product A x B that is summed into an accumulator. A dual GEMM has two over one A, each with
// an accumulator of its own. Products into one accumulator, each with its own A, B and K, are the
// dx of a gated layer: they are its K segments, in this order.
struct ContractionProduct {
  int a = 0, b = 0, accumulator = 0;
  Extent k;  // of product 0 and of a dual GEMM: as in the space
  i64 k_outer = 1;
  bool operator==(const ContractionProduct&) const = default;
};

// An output: the store of one program line.
struct ContractionOutput {
  int line = 0;  // of ContractionProblem::program
  Operand operand;
};

// One of several contractions side by side, in rows and columns of the joint accumulator.
struct PartSize {
  i64 m = 0, n = 0;
};

struct ContractionProblem {
  ContractionSpace space;
  RaggedGroups ragged;
  bool swapped = false;  // A is the right operand of the first contraction
  // D^T = B^T * A^T: the outputs are contiguous along M instead of N (make_transposed_problem).
  bool transposed = false;

  llvm::SmallVector<ContractionOperand, 1> a;
  llvm::SmallVector<ContractionOperand, 2> b;
  llvm::SmallVector<ContractionProduct, 2> products;
  llvm::SmallVector<Extent, 2> accumulator_n;  // columns of each accumulator
  llvm::SmallVector<ContractionOutput, 2> outputs;

  Program program;  // the epilogue; its last dimension is N, before it M, before that the batch
  i32 vec = 4;      // adjacent columns that the epilogue's operands and outputs allow at once
  std::vector<SlotBinding> slots;
  llvm::SmallVector<int, 2> scalars;  // parameter positions
  // The epilogue takes one more accumulator: the sum of the squares of each row of A.
  bool row_squares = false;
  // A vector along K by which A is multiplied as it is loaded, in A's dtype. The squares are those
  // of A before that.
  std::optional<ContractionOperand> gain;
  // A is what these programs form of the elements in memory, which `a` describes. The squares are
  // those of the elements in memory.
  std::optional<FormedPrograms> formed;
  ValueId formed_value = -1;  // what they form: equal in two problems of a chain, equal programs
  // Contractions side by side whose columns, or rows, these are (beside.h): each ends in a tile of
  // its own. Empty: one contraction.
  llvm::SmallVector<PartSize, 4> parts;
  int num_parts() const { return parts.empty() ? 1 : static_cast<int>(parts.size()); }

  // At the bucket's upper bound.
  struct Sizes {
    i64 symbol = 0;
    i64 batch = 1;  // product of the batch extents
    i64 m = 0, n = 0;
    i64 k = 0;  // all segments and outer steps; of K-grouped operands, the mean of a group
    i64 matrix_bytes = 0;       // A and B, each once
    i64 epilogue_bytes = 0;     // all other tensors, each once
    double epilogue_flops = 0;  // elementwise work over all of D
  };
  Sizes size;

  int num_accumulators() const { return static_cast<int>(accumulator_n.size()); }
  // Above 1: the program reduces rows over blocks of this many columns, which are neighbours along
  // N, and N is a multiple of it (fusion/row_reductions.h).
  i64 reduced_columns = 1;
  int reduction_passes = 0;  // over the columns, for those reductions (RowNumbers)
  // Stores of the program that are sums of kSummedRows rows.
  int num_column_sums() const;
  // One A, and one or two B with an accumulator of N columns each, none of them dequantised, and
  // nothing else to form from A: what most kernels compute.
  bool is_single_or_dual() const { return has_plain_products() && !forms_a(); }
  // Does the kernel form A, or something else from the rows of A?
  bool forms_a() const { return row_squares || gain || formed; }
  bool has_plain_products() const;
  // The same, dequantised or not.
  bool has_one_a() const;
  bool is_dual() const { return num_accumulators() == 2; }
  // Is an operand dequantised as it is read?
  bool is_dequantised() const;
  // One product of operands of fp8 with scales per block, or two over one A.
  bool is_block_scaled() const;
  // Are all B of this problem and of `other` dequantised from the same dtypes in the same blocks,
  // or none of them?
  bool has_dequants_like(const ContractionProblem& other) const;
  // K segments, each with its own A and B, of one accumulator. Their sizes are not symbolic.
  bool is_sum() const;
  // Steps along K of `block_k` terms; each segment ends with one of its own.
  i64 k_tiles(i64 block_k) const;
  double flops() const {
    return 2.0 * size.batch * size.m * size.n * size.k * num_accumulators() + size.epilogue_flops;
  }
  i64 bytes() const { return size.matrix_bytes + size.epilogue_bytes; }
};

// kUnsupported when K needs more than two loops or two symbolic ones, or the batch more than five;
// kResourceLimit when an axis is too long.
Expected<ContractionProblem> make_contraction_problem(const GroupContext& context);

// The sizes of a problem that is complete but for them.
ContractionProblem::Sizes problem_sizes(const GroupContext& context,
                                        const ContractionProblem& problem);

// CTAs for tiles of D of block_m x block_n, `fixed` CTAs for each; every batch entry has `extra`
// row tiles more. A symbolic size of M, of N or of the batch, the first of these, counts at the
// launch; others have their largest size where the symbol is `symbol`.
GridRule tile_grid(const ContractionSpace& space, i64 block_m, i64 block_n, i64 fixed, i64 extra,
                   i64 symbol);

// CTAs for as many groups as may have rows, the rows after the last end among them: no more than
// there are rows, however many groups there are. `fixed`, `symbol`: as above, without N.
GridRule group_grid(const ContractionSpace& space, i64 groups, i64 fixed, i64 symbol);

// The same contraction with A and B exchanged: what are rows of D in `problem` are columns here.
// A tile may then have any multiple of 8 of them. Nothing: the operands' roles are fixed, or the
// axes do not correspond.
std::optional<ContractionProblem> make_transposed_problem(const GroupContext& context,
                                                          const ContractionProblem& problem);

// The gain of a problem: its only stride is along K. Nothing: the group has none.
std::optional<ContractionOperand> gain_operand(const GroupContext& context);

// Why a kernel that reads X and its gain in vectors of 16 bytes along K does not multiply X by the
// gain: a sentence. Empty: it does, or there is none.
std::string gain_refusal(const ContractionProblem& problem);

// The programs that form A; nothing: A is in memory as it is multiplied.
std::optional<FormedPrograms> formed_programs(const GroupContext& context,
                                              const ContractionSpace& space);

// Everything that a kernel's time depends on and nothing that the planner chooses or the chain
// names: the same contraction in another chain has the same signature.
std::string problem_signature(const ContractionProblem& problem);

// The key of a row in measured.def: operand width and M x N x K, as in "16-bit 64x4096x512 dual".
// The epilogue is not part of it. M above 8 is rounded up to a multiple of 8, which is what MMAs
// compute. Empty if no row can name the problem. Rows name one layer with exact sizes and one
// output; both operands have contiguous rows along K, and B is a weight.
std::string problem_shape(const ContractionProblem& problem);

// The dtype in which a group's operands are multiplied. A dequantised one is multiplied in that of
// the other, two of fp8 in their own, one that the kernel forms in its own.
DType multiplied_dtype(const GroupContext& context);

// How products of a contraction with operands of `dtype` are formed. kUnsupported: no kernel
// multiplies those.
Expected<MathMode> product_math(const Value& contraction, DType dtype);

// The rate of the instruction that forms the products, dense, in 1e12 flop/s.
double math_tflops(const Target& target, MathMode math);

}  // namespace catenary
