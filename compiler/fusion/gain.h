// SPDX-License-Identifier: Apache-2.0
// The gain inside: an operand that is x times a vector along K, rounded to the dtype of both, is
// formed by the contractions as they load x. Taken from plain IR:
//
//   xg = cast(mul(x @ "mk", g @ "k"), bf16);  y = contract "mk,nk->mn"(xg, w)
//
// Only where those contractions alone read xg: it is then not stored, but x is. Knows no family.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Moves each such operand into the contractions that read it. Returns whether there was one.
// `but_norms`: not where x depends on sums, which formed.h takes. The
// plan is complete but for norms inside, sums of rows and copies.
bool move_gains_inside(const VerifiedChain& chain, FusionPlan& plan, bool but_norms);

}  // namespace catenary
