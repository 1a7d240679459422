// SPDX-License-Identifier: Apache-2.0
// What a chain may ask of its plan, by words after its name. A further word is a member and a row.
#pragma once

#include <string_view>

#include "ir/error.h"

namespace catenary {

struct ChainWords {
  // The bits of a row depend neither on the number of rows nor on other rows.
  bool batch_invariant = false;
  // Norms before contractions may take their algebraic form (algebraic_norms.h).
  bool algebraic_norms = false;
  // Dequantised weights may be rounded to the dtype of the operand that they are multiplied with
  // (rounded_weights.h).
  bool rounded_weights = false;

  bool operator==(const ChainWords&) const = default;
};

struct ChainWord {
  std::string_view name;
  bool ChainWords::*member;
  std::string_view summary;  // of a chain that has it, in `explain`
};

inline constexpr ChainWord kChainWords[] = {
    {"batch_invariant", &ChainWords::batch_invariant, "batch-invariant"},
    {"algebraic_norms", &ChainWords::algebraic_norms, "algebraic norms"},
    {"rounded_weights", &ChainWords::rounded_weights, "rounded weights"},
};

// The word of that name. kInvalidArgument: there is none.
Expected<const ChainWord*> find_word(std::string_view name);

}  // namespace catenary
