// SPDX-License-Identifier: Apache-2.0
// The parts of random chains: tensors with random layouts, contractions, elementwise ops, sums.
// Tracks the shape and labels of every value by the rules of verify(). Private to random_chain.
#pragma once

#include <optional>

#include "ir/random/random.h"
#include "ir/random/random_chain.h"

namespace catenary {

class RandomParts {
 public:
  RandomParts(u64 seed, const RandomChainOptions& options);
  Random& random() { return random_; }
  DType float_dtype();

  // A parameter with dimensions, to start a pointwise chain from.
  ValueId tensor_value();

  // `value` after `fewest` to `most` elementwise ops.
  ValueId steps(ValueId value, int fewest, int most);

  ValueId cast(ValueId value, DType dtype);
  ValueId reduce(ValueId value);  // a sum, or a maximum

  // `value` combined with its sum or maximum over its last dimensions, if it has rows.
  ValueId with_reduced_rows(ValueId value);

  // `value` as an operand of a contraction: rank 1 or more, most often cast.
  ValueId operand_from(ValueId value);

  // A contraction of two new parameters, or of `existing` and a new one.
  ValueId contraction(std::optional<ValueId> existing);

  // The same contraction as `first` (its two operands are parameters), one operand replaced.
  ValueId twin(ValueId first);

  // `first`, a contraction of two parameters, only sometimes added to others of its result, each
  // with its own summed sizes.
  ValueId add_products(ValueId first);

  // `contraction`, if it is M-grouped and only sometimes, with an operand that is taken by the
  // group of a row. Its kernel's epilogue is the only place for one: call it before any other op.
  ValueId group_operand(ValueId contraction);

  // `value`, only sometimes, with an operand that is taken by the group of a row, or summed by the
  // group of a row; one of its dimensions is divided into groups for that.
  ValueId by_group(ValueId value);

  // `value`, only sometimes added to a new input, which the chain's result then overwrites.
  ValueId accumulate(ValueId value);

  // Two values that broadcast together, multiplied or added.
  ValueId join(ValueId left, ValueId right);

  // The chain: returns all values that no op reads, and some of the others.
  Chain finish();

 private:
  struct Known {
    llvm::SmallVector<Dim, 4> shape;
    std::string labels;
    DType dtype = DType::kF32;
    double magnitude = 2;  // bound of exact integers
    bool used = false;
  };
  struct Label {
    char name = 0;
    Dim size;
    bool left = false;
    bool right = false;
    bool result = false;
    bool fixed = false;  // the size is that of an existing value
  };
  using Labels = llvm::SmallVector<Label, 8>;

  Known& known(ValueId id);
  Value& value(ValueId id);
  bool is_parameter(ValueId id) const;

  Dim new_dim();
  void shuffle(std::string& text);
  llvm::SmallVector<i64, 4> random_strides(llvm::ArrayRef<Dim> shape, bool may_overlap);
  i64 random_align(DType dtype);
  ValueId parameter(Role role, DType dtype, llvm::ArrayRef<Dim> shape);
  ValueId constant(double number);
  ValueId append(Value value, Known known);
  ValueId elementwise(Op op, llvm::ArrayRef<Use> uses, llvm::ArrayRef<double> attributes,
                      double magnitude);

  Use use_of(ValueId id);
  Use second_operand(ValueId main, const Use& main_use, double& magnitude);
  ValueId unary_step(ValueId id);
  ValueId binary_step(ValueId id);
  ValueId select_step(ValueId id);
  double result_magnitude(Op op, double a, double b) const;
  bool allowed(Op op, double magnitude) const;

  void new_labels(Labels& labels);
  void few_row_labels(Labels& labels, DType dtype);
  ValueId operand(Role role, DType dtype, llvm::ArrayRef<Dim> shape);
  void whole_terms(Labels& labels);
  bool draws_dequant(DType dtype);
  ScaleBlock scale_block(llvm::ArrayRef<Dim> shape);
  ValueId dequantised(Role role, llvm::ArrayRef<Dim> shape);
  ValueId dequantised_like(ValueId id);
  ValueId perhaps_rounded(ValueId weight, DType dtype);
  bool draws_rounded_weights();
  bool draws_scaled(DType dtype, const Labels& labels);
  ValueId scaled(Role role, DType dtype, llvm::ArrayRef<Dim> shape, bool left);
  void existing_labels(Labels& labels, ValueId existing, bool on_left);
  void fit(Labels& labels);
  std::string order(const Labels& labels, bool Label::*member);
  ValueId addend(ValueId first);
  void make_ragged(Labels& labels, Value& contract);
  ValueId operand_by_group(ValueId value, const RaggedLabel& ragged, const std::string& labels);
  ValueId sum_by_group(ValueId value, const RaggedLabel& ragged, const std::string& labels);

  const RandomChainOptions& options_;
  Random random_;
  Random extra_, addends_, fp8_,
      groups_;  // of choices that leave the other chains of a seed as they are
  std::optional<Symbol> symbol_;
  bool symbol_used_ = false;
  std::vector<Value> parameters_, ops_;
  std::vector<Known> known_parameters_, known_ops_;
  std::optional<std::pair<ValueId, ValueId>> in_place_;  // a returned value, and its input
};

}  // namespace catenary
