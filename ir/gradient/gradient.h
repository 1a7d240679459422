// SPDX-License-Identifier: Apache-2.0
// Reverse mode: a verified chain -> a set of chains. Chain 0 is the forward, with what the backward
// needs as further outputs; the others are its gradient. Each is an ordinary chain. The rules are
// in docs/gradients.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/verify/verify.h"

namespace catenary {

// What the forward saves. Values are part of the C ABI (ctn_recompute).
enum class Recompute : int {
  kNone = 0,    // the fewest bytes from which no contraction or sum is computed again
  kAll = 1,     // nothing: contractions and sums are computed again from the parameters
  kBudget = 2,  // at most save_budget bytes: computes again what frees the most bytes per operation
  // As kNone, and values that the forward stores for its own contractions and the backward reads:
  // they are stored once, not twice.
  kUnstored = 3,
};

struct GradientOptions {
  std::vector<std::string> wanted;   // parameters; empty: every float input and weight
  std::vector<std::string> outputs;  // those that the loss depends on; empty: all
  Recompute recompute = Recompute::kNone;
  i64 save_budget = 0;       // bytes, for kBudget; at the symbol's upper bound
  bool save_f32 = false;     // saves f32 values as f32, not in the dtype of the operands
  bool f32_weights = false;  // gradients of weights are f32, not of the weight's dtype
  bool accumulate = false;   // gradients of weights are added to tensors of the caller
};

// What an operand of a chain is. Values are part of the C ABI (ctn_gradient_kind).
enum class GradientKind : int {
  kInput = 0,           // of the forward; index: its parameter
  kWeight = 1,          //
  kScalar = 2,          //
  kOutput = 3,          // of the forward; index: its output. In a backward chain, its result
  kSaved = 4,           // index: counts the saved values from 0
  kOutputGradient = 5,  // index: the output
  kInputGradient = 6,   // index: the parameter
  kWeightGradient = 7,  //
  kScalarGradient = 8,  //
  kIntermediate = 9,    // from one backward chain to a later one; index: counts from 0
  kAccumulator = 10,    // the weight gradient so far; index: the parameter
};
std::string_view gradient_kind_text(GradientKind kind);

// One operand of a chain.
struct GradientOperand {
  GradientKind kind = GradientKind::kInput;
  int index = 0;
  std::string name;  // of the parameter, or of the value that the output is
  // A gradient of a parameter, and its accumulator, have the memory layout of the parameter, but
  // may lack its dimensions of size 1 and have the others in another order: per dimension, the
  // parameter's.
  llvm::SmallVector<int, 4> dims;
};

enum class GradientPass : int { kForward = 0, kBackward = 1, kDgrad = 2, kWgrad = 3 };
std::string_view gradient_pass_text(GradientPass pass);

struct GradientChain {
  VerifiedChain chain;
  GradientPass pass = GradientPass::kForward;
  std::vector<GradientOperand> operands;  // the parameters in order, then the outputs
};

struct Gradient {
  std::vector<GradientChain> chains;  // launched in this order
  i64 saved_bytes = 0;                // of saved values, at the symbol's upper bound
};

// The gradient of `forward`. Where both inputs and weights have gradients, kDgrad has those of the
// inputs, and of weights that need no contraction more; kWgrad, which may be launched later, has
// the rest. Otherwise there is one kBackward. kInvalidArgument: an option is wrong, or no gradient
// is left. kUnsupported: an output in place, a dequantised weight, contractions of fp8 and casts
// to it, an operand by a row and its group. kResourceLimit: a chain would exceed a limit of the IR.
Expected<Gradient> make_gradient(const VerifiedChain& forward, const GradientOptions& options = {});

// The chains in text form, each after comments with its table of operands.
std::string gradient_text(const Gradient& gradient);

}  // namespace catenary
