// SPDX-License-Identifier: Apache-2.0
// The gradient of a chain for C++20: ctn::gradient(chain) gives the forward chain with its saved
// values and the backward chains, with what each operand is. Header-only over catenary.h.
// Example: examples/gated_mlp_gradient.cpp.
#ifndef CATENARY_GRADIENT_HPP
#define CATENARY_GRADIENT_HPP

#include "catenary/catenary.hpp"

namespace ctn {

// What the forward saves for the backward.
enum class Recompute : ctn_recompute {
  none = CTN_RECOMPUTE_NONE,
  all = CTN_RECOMPUTE_ALL,
  budget = CTN_RECOMPUTE_BUDGET,
  unstored = CTN_RECOMPUTE_UNSTORED
};

// What a gradient is of, and how it is computed.
struct GradientOptions {
  std::vector<std::string> wanted = {};   // parameters; none: every float input and weight
  std::vector<std::string> outputs = {};  // those that the loss depends on; none: all
  Recompute recompute = Recompute::none;  // what is saved
  std::int64_t save_budget = 0;  // bytes at the symbol's upper bound, for Recompute::budget
  bool save_f32 = false;         // f32 values are saved as f32, not in the dtype of the operands
  bool f32_weights = false;      // gradients of weights are f32, not of the weight's dtype
  bool accumulate = false;       // gradients of weights are added to tensors of the caller
};

// What an operand of a gradient is.
enum class GradientKind : ctn_gradient_kind {
  input = CTN_GRADIENT_INPUT,
  weight = CTN_GRADIENT_WEIGHT,
  scalar = CTN_GRADIENT_SCALAR,
  output = CTN_GRADIENT_OUTPUT,
  saved = CTN_GRADIENT_SAVED,
  of_output = CTN_GRADIENT_OF_OUTPUT,
  of_input = CTN_GRADIENT_OF_INPUT,
  of_weight = CTN_GRADIENT_OF_WEIGHT,
  of_scalar = CTN_GRADIENT_OF_SCALAR,
  intermediate = CTN_GRADIENT_INTERMEDIATE,
  accumulator = CTN_GRADIENT_ACCUMULATOR
};

// One operand of a chain: its fields are those of ctn_gradient_operand. Two operands of equal kind
// and index are the same tensor.
struct GradientOperand {
  GradientKind kind = GradientKind::input;  // what it is
  int index = 0;                            // as the kind says
  bool is_output = false;                   // of the chain; else a parameter
  std::string name;                         // in the chain
  DType dtype = DType::f32;                 // of its elements
  std::vector<std::int64_t> dims;           // sizes, or ctn::symbol
  std::vector<std::int64_t> strides;        // elements
  std::int64_t bytes = 0;                   // at the symbol's upper bound
  std::vector<int> parameter_dims;          // of a gradient of a parameter
};

// What a chain of a gradient computes.
enum class Pass : ctn_pass {
  forward = CTN_FORWARD,
  backward = CTN_BACKWARD,
  dgrad = CTN_DGRAD,
  wgrad = CTN_WGRAD
};

// One chain of a gradient.
struct GradientChain {
  Chain chain;                            // to be compiled as any other
  Pass pass;                              // what it computes
  std::vector<GradientOperand> operands;  // the parameters in order, then the outputs
};

// The gradient of a chain.
struct Gradient {
  std::vector<GradientChain> chains;  // in the order of launches; the first is the forward
  std::int64_t saved_bytes = 0;       // of saved values, at the symbol's upper bound
};

namespace detail {

using GradientHandle = std::unique_ptr<ctn_gradient, Destroy<ctn_gradient, ctn_gradient_destroy> >;

inline GradientOperand gradient_operand(const ctn_gradient* gradient, std::size_t chain,
                                        std::size_t number) {
  ctn_gradient_operand facts{};
  facts.struct_size = sizeof facts;
  check(ctn_gradient_binding(gradient, chain, number, &facts));
  GradientOperand operand;
  operand.kind = static_cast<GradientKind>(facts.kind);
  operand.index = facts.index;
  operand.is_output = facts.is_output != 0;
  operand.name = facts.name;
  operand.dtype = static_cast<DType>(facts.dtype);
  operand.dims.assign(facts.dims, facts.dims + facts.rank);
  operand.strides.assign(facts.strides, facts.strides + facts.rank);
  operand.bytes = facts.bytes;
  if (facts.parameter_dims != nullptr) {
    operand.parameter_dims.assign(facts.parameter_dims, facts.parameter_dims + facts.rank);
  }
  return operand;
}

}  // namespace detail

// The chains of the gradient of `chain`; rules and errors are those of ctn_chain_gradient.
inline Gradient gradient(const Chain& chain, const GradientOptions& options = {}) {
  const auto texts = [](const std::vector<std::string>& names) {
    std::vector<const char*> texts;
    for (const std::string& name : names) texts.push_back(detail::c_text(name));
    return texts;
  };
  const std::vector<const char*> wanted = texts(options.wanted);
  const std::vector<const char*> outputs = texts(options.outputs);
  ctn_gradient_options given{};
  given.struct_size = sizeof given;
  given.wanted = wanted.data();
  given.num_wanted = wanted.size();
  given.outputs = outputs.data();
  given.num_outputs = outputs.size();
  given.recompute = static_cast<ctn_recompute>(options.recompute);
  given.save_f32 = options.save_f32 ? 1 : 0;
  given.save_budget = options.save_budget;
  given.f32_weights = options.f32_weights ? 1 : 0;
  given.accumulate = options.accumulate ? 1 : 0;
  ctn_gradient* made = nullptr;
  check(ctn_chain_gradient(chain.get(), &given, &made));
  const detail::GradientHandle handle(made);
  Gradient result;
  check(ctn_gradient_saved_bytes(made, &result.saved_bytes));
  std::size_t count = 0;
  check(ctn_gradient_count(made, &count));
  for (std::size_t i = 0; i < count; ++i) {
    ctn_chain* part = nullptr;
    ctn_pass pass = CTN_FORWARD;
    check(ctn_gradient_chain(made, i, &part, &pass));
    result.chains.push_back({Chain(detail::ChainHandle(part)), static_cast<Pass>(pass), {}});
    std::size_t operands = 0;
    check(ctn_gradient_operand_count(made, i, &operands));
    for (std::size_t n = 0; n < operands; ++n) {
      result.chains.back().operands.push_back(detail::gradient_operand(made, i, n));
    }
  }
  return result;
}

}  // namespace ctn

#endif  // CATENARY_GRADIENT_HPP
