// SPDX-License-Identifier: Apache-2.0
// Which kernels of a plan have a norm inside.
#pragma once

#include "compiler/kernel_family.h"
#include "shared/gemm_sm90_config.h"
#include "shared/skinny_config.h"

namespace catenary::testing {

// Whether the kernel, of `gemm_sm90` or `skinny`, sums the squares of the rows that it reads.
inline bool sums_squares(const KernelPlan& kernel) {
  return family_name(kernel) == "gemm_sm90" ? kernel.config.get<GemmSm90Config>().row_squares
                                            : kernel.config.get<SkinnyConfig>().row_squares;
}

}  // namespace catenary::testing
