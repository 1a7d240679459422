// SPDX-License-Identifier: Apache-2.0
// The labels of a contraction as axes: which are M, N, K and its outer loop, and which remain as
// batch, with the step of every tensor along each. Labels of one class merge where all tensors have
// matching strides.
#pragma once

#include "compiler/families/binding.h"

namespace catenary {

// A product of the kernel: an anchor, and its columns of the space.
struct ContractionSegment {
  ValueId anchor = 0;
  bool swapped = false;               // A is the right operand
  int a = 0;                          // column
  llvm::SmallVector<int, 2> b;        // columns; a dual GEMM has two
  llvm::SmallVector<int, 4> numbers;  // columns of scales and zeros
  Space terms;                        // the summed axes beside the next two
  Axis k, outer;
};

// Columns of the space are tensors: A and B of each segment (A, B and B2 of a dual GEMM), each with
// its scales and zeros, then the program's tensors.
struct ContractionAxes {
  llvm::SmallVector<ContractionSegment, 2> segments;
  llvm::SmallVector<int, 4> places;     // location of each matrix column
  llvm::SmallVector<int, 4> matrix_of;  // its number in GroupTensors::matrices
  Space space;                          // the batch, outermost first
  Axis m, n;
  bool ragged_rows = false;
  bool swapped = false;       // A is the right operand of the first anchor
  bool transposed = false;    // outputs are contiguous along M, else along N
  bool prefers_swap = false;  // the epilogue would rather see M as N: D is contiguous along it
  int blocks = 0;             // with row reductions: the column after all others, of their blocks

  int matrices() const { return static_cast<int>(places.size()); }
  // Rows of a block of scales or zeros.
  i64 rows_of_block(const GroupContext& context, int column) const;

  // Is the column, one of the segment's, that of A or of its scales?
  static bool is_of_a(const ContractionSegment& segment, int column) {
    return column < segment.b[0];
  }
  // The dimension that a label has in the operand of a column, which is one of the segment's.
  static int dim_of(const ContractionSegment& segment, const ContractionLabel& label, int column) {
    return is_of_a(segment, column) != segment.swapped ? label.left : label.right;
  }
};

// `swapped`, `transposed`: as above. kUnsupported when K needs more than two loops or two symbolic
// ones, the batch more than five, or sums over rows are not over M; kResourceLimit when an axis is
// too long.
Expected<ContractionAxes> make_contraction_axes(const GroupContext& context, bool swapped,
                                                bool transposed);

// kUnsupported unless the blocks of the group's row reductions are neighbours along N, and N whole
// blocks.
Error check_row_reductions(const GroupContext& context, const ContractionAxes& axes);

}  // namespace catenary
