// SPDX-License-Identifier: Apache-2.0
// Vectors and threads of a reduction for which its registers suffice. A thread loads all operands
// before it computes a term, and may load several terms together.
#pragma once

#include "compiler/families/binding.h"
#include "shared/config.h"

namespace catenary {

// The widest vectors, at most `widest` elements, that 512 threads have registers for. `terms`,
// `results`: the programs of a term and of a result.
int widest_in_registers(const Program& terms, const Program& results, int widest);

// Takes fewer threads where even narrow vectors do not fit their registers, and one term at a time
// where the values of several would not.
void keep_in_registers(const Program& terms, const Program& results, ReduceConfig& config);

}  // namespace catenary
