// SPDX-License-Identifier: Apache-2.0
#include "compiler/measured.h"

#include <vector>

namespace catenary {

llvm::ArrayRef<MeasuredRow> measured_rows() {
  static const std::vector<MeasuredRow> rows = {
#define CATENARY_MEASURED(target, shape, family, tile, split_k, us, model_us) \
  {#target, shape, {#family, tile, split_k}, us, model_us},
#include "compiler/measured.def"
#undef CATENARY_MEASURED
  };
  return rows;
}

}  // namespace catenary
