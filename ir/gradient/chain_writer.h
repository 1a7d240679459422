// SPDX-License-Identifier: Apache-2.0
// Parts of the joint graph as chains: parameters, names, layouts and the table of operands.
#pragma once

#include "ir/gradient/gradient.h"
#include "ir/gradient/reverse.h"
#include "ir/gradient/save.h"
#include "llvm/ADT/StringSet.h"

namespace catenary::gradient {

// What one backward chain computes.
struct BackwardPart {
  GradientPass pass = GradientPass::kBackward;
  std::vector<bool> computed;                         // per value of the graph
  std::vector<std::pair<ValueId, Placed>> gradients;  // parameter, its gradient
  std::vector<ValueId> intermediates;                 // outputs for a later part
};

class ChainWriter {
 public:
  ChainWriter(const JointGraph& graph, const Reversed& reversed, const SavePlan& saves,
              const GradientOptions& options);

  Expected<GradientChain> forward() const;
  Expected<GradientChain> backward(const BackwardPart& part);

  // The dtype in which a value goes from one chain to another.
  DType stored_dtype(ValueId id) const;

 private:
  struct Draft;

  std::string unique(std::string name);
  bool accumulates(ValueId parameter) const;
  void add_parameters(const BackwardPart& part, Draft& draft);
  void add_parameter(ValueId id, GradientKind kind, int index, TensorType type, Draft& draft) const;
  void add_values(const BackwardPart& part, Draft& draft) const;
  ValueId operand_in(ValueId id, DType dtype, Draft& draft) const;
  void add_gradient(ValueId parameter, const Placed& gradient, Draft& draft);
  Output gradient_output(ValueId parameter, const Placed& gradient) const;
  TensorType saved_type(ValueId id) const;
  Expected<GradientChain> finish(Draft draft) const;

  const JointGraph& graph_;
  const Reversed& reversed_;
  const SavePlan& saves_;
  const GradientOptions& options_;
  llvm::StringSet<> taken_;
  std::vector<std::string> names_;           // per value of the graph
  std::vector<std::string> gradient_names_;  // per forward parameter: of its gradient
  std::vector<int> parameter_number_;        // per forward parameter
  std::vector<ValueId> intermediates_;       // of the chains so far
};

}  // namespace catenary::gradient
