// SPDX-License-Identifier: Apache-2.0
#include "ir/dependence.h"

#include "llvm/ADT/STLExtras.h"

namespace catenary {

std::vector<bool> depend_on_reductions(const VerifiedChain& chain) {
  std::vector<bool> depend(chain.num_values(), false);
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    const Value& v = chain.value(id);
    const bool per_element = is_elementwise(v.op) || v.op == Op::kCast;
    depend[id] = is_reduction(v.op) ||
                 (per_element &&
                  llvm::any_of(v.operands, [&](const Use& use) { return depend[use.value]; }));
  }
  return depend;
}

}  // namespace catenary
