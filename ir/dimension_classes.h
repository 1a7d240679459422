// SPDX-License-Identifier: Apache-2.0
// Which dimensions of a chain's values have one index: an operation sets them equal.
#pragma once

#include <vector>

#include "ir/verify/verify.h"

namespace catenary {

// Classes of dimensions. A dimension of size 1 that is broadcast is in none of those it is aligned
// with.
class DimensionClasses {
 public:
  explicit DimensionClasses(const VerifiedChain& chain);

  // The class of dimension `dim` of a value: a number from 0 to size() - 1, not all of them used.
  int of(ValueId id, int dim) const;
  int size() const { return static_cast<int>(parent_.size()); }

 private:
  void join(ValueId a, int dim_a, ValueId b, int dim_b);
  void join_label(ValueId id, const Value& value, const ContractionLabel& label);
  void join_operands(const VerifiedChain& chain, ValueId id);

  std::vector<int> first_;   // the node of dimension 0, by value
  std::vector<int> parent_;  // of each node; a root is a class
};

// Per class: whether its indices belong together. It is divided into the rows of groups, counts
// groups, or is a dimension of a quantised matrix, whose blocks share a scale and whose elements
// share bytes.
std::vector<bool> grouped_classes(const VerifiedChain& chain, const DimensionClasses& classes);

}  // namespace catenary
