// SPDX-License-Identifier: Apache-2.0
#include "ir/random/scale_shapes.h"

#include "llvm/ADT/STLExtras.h"

namespace catenary {

llvm::SmallVector<Dim, 4> scale_shape(llvm::ArrayRef<Dim> shape, const ScaleBlock& block) {
  llvm::SmallVector<Dim, 4> scales(shape.begin(), shape.end());
  Dim& rows = scales[scales.size() - 2];
  Dim& columns = scales[scales.size() - 1];
  rows.size = ceil_div(rows.size, block.rows);
  columns.size = ceil_div(columns.size, block.columns);
  return scales;
}

void match_scale_shapes(Chain& chain) {
  for (const Value& value : chain.values) {
    if (value.op != Op::kDequant) continue;
    const auto& weight = chain.values[value.operands[0].value].type.shape;
    if (weight.size() < 2) continue;
    const auto shape = scale_shape(weight, value.block);
    for (const Use& use : llvm::drop_begin(value.operands)) {
      chain.values[use.value].type.shape = shape;
    }
  }
}

}  // namespace catenary
