// SPDX-License-Identifier: Apache-2.0
#include "ir/symbol_range.h"

namespace catenary {

Expected<VerifiedChain> with_symbol_range(const VerifiedChain& chain, i64 lo, i64 hi) {
  Chain changed = chain.chain();
  if (!changed.symbol) return chain;
  if (lo == hi) {
    changed.symbol.reset();
    for (Value& value : changed.values) {
      for (Dim& dim : value.type.shape) {
        if (dim.symbolic) dim = {hi, false};
      }
    }
  } else {
    changed.symbol->lo = lo;
    changed.symbol->hi = hi;
  }
  return verify(std::move(changed));
}

}  // namespace catenary
