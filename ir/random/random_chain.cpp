// SPDX-License-Identifier: Apache-2.0
// random_chain(): draws the kind of chain and combines the parts of random_parts.
#include "ir/random/random_chain.h"

#include "ir/random/random_parts.h"

namespace catenary {
namespace {

class ChainMaker {
 public:
  ChainMaker(u64 seed, const RandomChainOptions& options)
      : options_(options),
        reduces_rows_(Random(~seed).chance(15)),
        parts_(seed, options),
        contractions_left_(options.max_contractions) {}

  Chain make() {
    Random& random = parts_.random();
    const bool pointwise = contractions_left_ == 0 || (!options_.small_m && random.chance(25));
    ValueId value = pointwise ? parts_.tensor_value() : anchor();
    value = parts_.steps(value, pointwise ? 1 : 0, 5);
    value = parts_.by_group(value);
    if (reduces_rows_) value = parts_.steps(parts_.with_reduced_rows(value), 0, 2);
    if (random.chance(15)) value = parts_.steps(parts_.reduce(value), 0, 2);
    if (!options_.exact_only && contractions_left_ > 0 && random.chance(50)) {
      --contractions_left_;
      value = parts_.contraction(parts_.operand_from(value));
      value = parts_.steps(value, 0, 3);
      if (random.chance(15)) value = parts_.reduce(value);
    }
    if (random.chance(15)) value = parts_.cast(value, parts_.float_dtype());
    parts_.accumulate(value);
    return parts_.finish();
  }

 private:
  // One contraction, or two that share an operand and are multiplied.
  ValueId anchor() {
    --contractions_left_;
    const ValueId first = parts_.contraction(std::nullopt);
    if (contractions_left_ == 0 || !parts_.random().chance(30))
      return parts_.group_operand(parts_.add_products(first));
    --contractions_left_;
    const ValueId second = parts_.twin(first);
    const ValueId gate = parts_.steps(parts_.group_operand(first), 0, 2);
    const ValueId up = parts_.steps(parts_.group_operand(second), 0, 1);
    return parts_.join(gate, up);
  }

  const RandomChainOptions& options_;
  bool reduces_rows_;  // drawn apart: the parts of other chains do not depend on it
  RandomParts parts_;
  int contractions_left_;
};

}  // namespace

Chain random_chain(u64 seed, const RandomChainOptions& options) {
  return ChainMaker(seed, options).make();
}

}  // namespace catenary
