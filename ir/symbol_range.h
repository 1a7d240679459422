// SPDX-License-Identifier: Apache-2.0
// A chain with a symbol -> the same chain for another range of it, or for one size.
#pragma once

#include "ir/verify/verify.h"

namespace catenary {

// The same chain for the sizes lo to hi; with lo == hi it has no symbol, and that size in its
// place. A chain without a symbol stays as it is. Explicit strides stay, contiguous ones follow the
// range. Errors are those of verify().
Expected<VerifiedChain> with_symbol_range(const VerifiedChain& chain, i64 lo, i64 hi);

}  // namespace catenary
