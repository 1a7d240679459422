// SPDX-License-Identifier: Apache-2.0
#include "ir/row_products.h"

namespace catenary {

int summed_dim_of_rows(const VerifiedChain& chain, ValueId contraction, ValueId operand) {
  const Value& value = chain.value(contraction);
  if (value.op != Op::kContract || value.ragged) return -1;
  const Contraction& c = *chain.info(contraction).contraction;
  const bool left = value.operands[0].value == operand;
  if (left == (value.operands[1].value == operand)) return -1;
  const bool are_rows = (left ? c.m : c.n).size() == 1 && !(left ? c.n : c.m).empty();
  if (!c.batch.empty() || c.k.size() != 1 || !are_rows) return -1;
  return left ? c.k[0].left : c.k[0].right;
}

}  // namespace catenary
