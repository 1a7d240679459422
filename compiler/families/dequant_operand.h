// SPDX-License-Identifier: Apache-2.0
// Quantised weights as operands of the families that read the packed layout.
#pragma once

#include <algorithm>

#include "compiler/emit/fields.h"
#include "compiler/families/family.h"
#include "shared/dequant_operand.h"

namespace catenary {

// Columns of K at most: they are counted in 32 bits.
inline constexpr i64 kDequantColumns = i64{1} << 30;

// `b` has a dequant.
DequantOperand dequant_operand(const ContractionOperand& b);

Fields fields_of(const DequantOperand& w);

// Replaces the slots of q, scale and zero.
void renumber_slots(DequantOperand& w, llvm::function_ref<i32(i32)> renumber);

// Whether the packed layout's kernels take the problem, but for the target, M and the activations.
ContractionFamily::Support supports_dequant(const ContractionProblem& problem);

// Slices of N for `c`, one of the contractions side by side whose joint config is `shared`: its
// share of the joint slices, and at least as many slices as the row tiles of a CTA need.
template <class Config>
void share_slices(Config& c, const Config& shared) {
  const i64 share = shared.schedule.n_slices * c.n_tiles() * c.num_accumulators() /
                    (shared.n_tiles() * shared.num_accumulators());
  const i64 least = ceil_div(c.n_tiles(), shared.runs() / c.num_accumulators());
  c.schedule.n_slices = std::clamp(share, least, c.n_tiles());
  c.tile.row_tiles = static_cast<i32>(ceil_div(c.n_tiles(), c.schedule.n_slices));
}

}  // namespace catenary
