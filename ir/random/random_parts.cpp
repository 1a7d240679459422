// SPDX-License-Identifier: Apache-2.0
#include "ir/random/random_parts.h"

#include <algorithm>
#include <cmath>

#include "ir/default_strides.h"

namespace catenary {
namespace {

// Parameters are numbered from 0 while the chain grows, ops from here; finish() joins them.
constexpr ValueId kFirstOp = 1 << 16;

constexpr double kLargestExact = 0x1p24;

constexpr i64 kSizes[] = {1,  2,  3,  4,  5,  7,  8,  9,  13, 15, 16,  17,  24,  31,
                          32, 33, 40, 48, 63, 64, 65, 72, 96, 97, 100, 127, 128, 129};
constexpr DType kFloats[] = {DType::kBF16, DType::kF16, DType::kF32};

i64 product(llvm::ArrayRef<Dim> shape) {
  i64 elements = 1;
  for (const Dim& dim : shape) elements *= std::max<i64>(dim.size, 1);
  return elements;
}

}  // namespace

RandomParts::RandomParts(u64 seed, const RandomChainOptions& options)
    : options_(options),
      random_(seed),
      extra_(seed ^ 0x6b8d3f1a5c27e490ull),
      addends_(seed ^ 0x2f94c16be8073da5ull),
      fp8_(seed ^ 0x51d7348e93c0a6f2ull),
      groups_(seed ^ 0x7ac2e90f4d13b865ull) {
  if (!random_.chance(25)) return;
  const i64 hi = random_.range(1, std::min<i64>(options.small_m ? 16 : 64, options.max_elements));
  symbol_ = Symbol{"M", random_.range(0, 1), hi};
}

RandomParts::Known& RandomParts::known(ValueId id) {
  return id < kFirstOp ? known_parameters_[id] : known_ops_[id - kFirstOp];
}

Value& RandomParts::value(ValueId id) {
  return id < kFirstOp ? parameters_[id] : ops_[id - kFirstOp];
}

bool RandomParts::is_parameter(ValueId id) const { return id < kFirstOp; }

DType RandomParts::float_dtype() {
  const DType dtype = random_.pick<DType>(kFloats);
  if (!options_.fp8 || !fp8_.chance(35)) return dtype;
  return fp8_.chance(70) ? DType::kE4M3 : DType::kE5M2;
}

Dim RandomParts::new_dim() {
  if (symbol_ && !symbol_used_) {
    symbol_used_ = true;
    return {symbol_->hi, true};
  }
  return {random_.range(0, 199) == 0 ? 0 : random_.pick<i64>(kSizes), false};
}

void RandomParts::shuffle(std::string& text) {
  for (size_t i = text.size(); i > 1; --i) std::swap(text[i - 1], text[random_.range(0, i - 1)]);
}

llvm::SmallVector<i64, 4> RandomParts::random_strides(llvm::ArrayRef<Dim> shape, bool may_overlap) {
  llvm::SmallVector<i64, 4> strides;
  // Contiguous strides must not depend on the symbol.
  if (inner_symbolic_dim(shape) < 0 && random_.chance(60)) return strides;
  std::string dims;  // from the innermost out
  for (size_t d = shape.size(); d-- > 0;) dims += static_cast<char>(d);
  if (random_.chance(40)) shuffle(dims);
  constexpr i64 kPads[] = {0, 0, 0, 1, 3, 8, 16};
  strides.resize(shape.size());
  i64 step = random_.chance(8) ? 2 : 1;
  for (char d : dims) {
    strides[d] = step;
    step = step * std::max<i64>(shape[d].size, 1) + random_.pick<i64>(kPads);
  }
  if (may_overlap && !dims.empty() && random_.chance(4)) strides[dims.back()] = 0;
  return strides;
}

i64 RandomParts::random_align(DType dtype) {
  constexpr i64 kAligns[] = {2, 4, 8, 16, 16, 16};
  return std::max<i64>(random_.pick<i64>(kAligns), dtype_bytes(dtype));
}

ValueId RandomParts::parameter(Role role, DType dtype, llvm::ArrayRef<Dim> shape) {
  Value value;
  const auto id = static_cast<ValueId>(parameters_.size());
  const char* prefix = role == Role::kScalar ? "s" : role == Role::kWeight ? "w" : "x";
  value.name = fmt::format("{}{}", prefix, id);
  value.role = role;
  value.type.dtype = dtype;
  value.type.shape.assign(shape.begin(), shape.end());
  if (role != Role::kScalar) {
    value.type.strides = random_strides(shape, /*may_overlap=*/true);
    value.type.align = random_align(dtype);
  }
  Known known;
  known.shape = value.type.shape;
  known.dtype = dtype;
  parameters_.push_back(std::move(value));
  known_parameters_.push_back(std::move(known));
  return id;
}

ValueId RandomParts::append(Value value, Known facts) {
  const auto id = static_cast<ValueId>(kFirstOp + ops_.size());
  if (value.name.empty()) value.name = fmt::format("v{}", ops_.size());
  for (const Use& use : value.operands) known(use.value).used = true;
  ops_.push_back(std::move(value));
  known_ops_.push_back(std::move(facts));
  return id;
}

ValueId RandomParts::constant(double number) {
  Value value;
  value.op = Op::kConstant;
  value.attributes[0] = number;
  Known facts;
  facts.magnitude = std::fabs(number);
  return append(std::move(value), std::move(facts));
}

ValueId RandomParts::tensor_value() {
  llvm::SmallVector<Dim, 4> shape;
  const i64 rank = random_.range(1, 4);
  while (static_cast<i64>(shape.size()) < rank) {
    Dim dim = new_dim();
    while (!dim.symbolic && dim.size > 1 && product(shape) * dim.size > options_.max_elements) {
      dim.size /= 2;
    }
    shape.push_back(dim);
  }
  return parameter(random_.chance(80) ? Role::kInput : Role::kWeight, float_dtype(), shape);
}

// Shape and labels by the rules of verify_elementwise.
ValueId RandomParts::elementwise(Op op, llvm::ArrayRef<Use> uses, llvm::ArrayRef<double> attributes,
                                 double magnitude) {
  Known facts;
  facts.magnitude = magnitude;
  size_t rank = 0;
  for (const Use& use : uses) rank = std::max(rank, known(use.value).shape.size());
  for (const Use& use : uses) {
    const Known& operand = known(use.value);
    if (operand.shape.size() != rank || !facts.labels.empty()) continue;
    facts.labels = use.labels.empty() ? operand.labels : use.labels;
  }
  facts.shape.assign(rank, Dim{1, false});
  for (const Use& use : uses) {
    const auto& shape = known(use.value).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const size_t at =
          use.labels.empty() ? rank - shape.size() + d : facts.labels.find(use.labels[d]);
      if (shape[d] != Dim{1, false}) facts.shape[at] = shape[d];
    }
  }
  Value value;
  value.op = op;
  value.operands.assign(uses.begin(), uses.end());
  for (size_t i = 0; i < attributes.size(); ++i) value.attributes[i] = attributes[i];
  return append(std::move(value), std::move(facts));
}

ValueId RandomParts::cast(ValueId id, DType dtype) {
  Known facts = known(id);
  facts.used = false;
  facts.dtype = dtype;
  Value value;
  value.op = Op::kCast;
  value.operands = {Use{id, ""}};
  value.type.dtype = dtype;
  return append(std::move(value), std::move(facts));
}

ValueId RandomParts::reduce(ValueId id) {
  const Known operand = known(id);
  if (operand.shape.empty()) return id;
  std::string labels;
  while (labels.size() < operand.shape.size()) labels += static_cast<char>('a' + labels.size());
  shuffle(labels);
  const Op op = random_.chance(35) ? Op::kReduceMax : Op::kSum;
  Known facts;
  facts.magnitude = operand.magnitude;
  const size_t dropped = random_.range(0, labels.size() - 1);
  for (size_t d = 0; d < labels.size(); ++d) {
    if (d == dropped || random_.chance(40)) {
      if (op == Op::kReduceMax) continue;
      facts.magnitude *= static_cast<double>(std::max<i64>(operand.shape[d].size, 1));
    } else {
      facts.labels += labels[d];
    }
  }
  if (!allowed(op, facts.magnitude)) return id;
  if (random_.chance(30)) shuffle(facts.labels);
  for (char label : facts.labels) facts.shape.push_back(operand.shape[labels.find(label)]);
  Value value;
  value.op = op;
  value.operands = {Use{id, ""}};
  value.equation = labels + "->" + facts.labels;
  return append(std::move(value), std::move(facts));
}

ValueId RandomParts::with_reduced_rows(ValueId id) {
  const Known operand = known(id);
  const size_t rank = operand.shape.size();
  if (rank < 2) return id;
  std::string labels = operand.labels;
  while (labels.size() < rank) labels += static_cast<char>('a' + labels.size());
  const size_t kept = random_.range(1, static_cast<i64>(rank) - 1);
  const Op op = random_.chance(60) ? Op::kReduceMax : Op::kSum;
  Known facts;
  facts.magnitude = operand.magnitude;
  facts.labels = labels.substr(0, kept);
  facts.shape.assign(operand.shape.begin(), operand.shape.begin() + kept);
  for (size_t d = kept; d < rank && op == Op::kSum; ++d)
    facts.magnitude *= static_cast<double>(std::max<i64>(operand.shape[d].size, 1));
  const Op combine = random_.pick<Op>({Op::kSub, Op::kAdd, Op::kMax, Op::kMin});
  const double after = result_magnitude(combine, operand.magnitude, facts.magnitude);
  if (!allowed(op, facts.magnitude) || !allowed(combine, after)) return id;
  Value value;
  value.op = op;
  value.operands = {Use{id, ""}};
  value.equation = labels + "->" + facts.labels;
  const std::string kept_labels = facts.labels;
  const ValueId reduced = append(std::move(value), std::move(facts));
  return elementwise(combine, {Use{id, labels}, Use{reduced, kept_labels}}, {}, after);
}

double RandomParts::result_magnitude(Op op, double a, double b) const {
  if (op == Op::kAdd || op == Op::kSub) return a + b;
  if (op == Op::kMul || op == Op::kScale) return a * b;
  if (op == Op::kRelu2 || op == Op::kSquare) return a * a;
  if (op == Op::kPow) return a * a * a;
  return std::max(a, b);
}

bool RandomParts::allowed(Op op, double magnitude) const {
  return !options_.exact_only || (op_info(op).exact && magnitude <= kLargestExact);
}

// A parameter's use may name its dimensions, so that other operands can be placed by them.
Use RandomParts::use_of(ValueId id) {
  Use use{id, ""};
  const Known& facts = known(id);
  if (!is_parameter(id) || facts.shape.empty() || random_.chance(40)) return use;
  while (use.labels.size() < facts.shape.size())
    use.labels += static_cast<char>('p' + use.labels.size());
  shuffle(use.labels);
  return use;
}

ValueId RandomParts::unary_step(ValueId id) {
  llvm::SmallVector<Op, 16> ops;
  const double before = known(id).magnitude;
  for (Op op : all_ops()) {
    if (!is_elementwise(op) || op_info(op).arity != 1) continue;
    if (allowed(op, result_magnitude(op, before, 0))) ops.push_back(op);
  }
  const Op op = random_.pick<Op>(ops);
  const bool exact_only = options_.exact_only;
  double attributes[2] = {0, 0};
  double after = result_magnitude(op, before, 0);
  if (op == Op::kClamp) {
    const double scale = exact_only ? 1 : 0.25;
    attributes[0] = scale * static_cast<double>(random_.range(-16, 4));
    attributes[1] = scale * static_cast<double>(random_.range(4, 16));
    after = 16;
  }
  if (op == Op::kLeakyRelu) attributes[0] = static_cast<double>(random_.range(-3, 12)) / 8;
  if (op == Op::kPow) attributes[0] = static_cast<double>(random_.range(exact_only ? 1 : -2, 3));
  ValueId operand = id;
  if ((op == Op::kExp || op == Op::kExp2) && random_.chance(80)) {
    operand = elementwise(Op::kClamp, use_of(id), {-8, 4}, 16);  // avoids overflow
  }
  if ((op == Op::kSqrt || op == Op::kRsqrt || op == Op::kLog) && random_.chance(80)) {
    operand = elementwise(Op::kAbs, use_of(id), {}, before);  // avoids NaN
  }
  return elementwise(op, use_of(operand), attributes, after);
}

// A constant, a scalar, a tensor over some dimensions of `main` (aligned by labels or trailing), or
// a computed value of its shape.
Use RandomParts::second_operand(ValueId main, const Use& main_use, double& magnitude) {
  magnitude = 2;
  const i64 kind = random_.range(0, 99);
  if (kind < 12) {
    magnitude = static_cast<double>(random_.range(1, 3));
    const double number = options_.exact_only ? magnitude : magnitude * 0.375;
    return {constant(random_.chance(50) ? number : -number), ""};
  }
  if (kind < 22) return {parameter(Role::kScalar, DType::kF32, {}), ""};
  const Known facts = known(main);
  const std::string labels = main_use.labels.empty() ? facts.labels : main_use.labels;
  const size_t rank = facts.shape.size();
  std::string dims;  // of `main`, in the operand's order
  const bool by_label = !labels.empty() && random_.chance(60);
  const size_t first = kind < 60 && rank > 0 ? random_.range(0, rank - 1) : 0;
  for (size_t d = 0; d < rank; ++d) {
    if (by_label ? kind >= 60 || random_.chance(50) : d >= first) dims += static_cast<char>(d);
  }
  if (by_label && random_.chance(50)) shuffle(dims);
  Use use;
  llvm::SmallVector<Dim, 4> shape;
  for (char d : dims) {
    shape.push_back(random_.chance(8) ? Dim{1, false} : facts.shape[d]);
    if (by_label) use.labels += labels[d];
  }
  use.value = parameter(random_.chance(60) ? Role::kWeight : Role::kInput, float_dtype(), shape);
  return use;
}

ValueId RandomParts::binary_step(ValueId id) {
  constexpr Op kOps[] = {Op::kAdd, Op::kAdd, Op::kAdd, Op::kAdd,   Op::kAdd, Op::kSub, Op::kSub,
                         Op::kMul, Op::kMul, Op::kMul, Op::kMul,   Op::kDiv, Op::kDiv, Op::kMin,
                         Op::kMax, Op::kMin, Op::kMax, Op::kScale, Op::kLt,  Op::kLe,  Op::kScale,
                         Op::kGt,  Op::kGe,  Op::kEq,  Op::kNe};
  const double before = known(id).magnitude;
  Op op = random_.pick<Op>(kOps);
  if (!allowed(op, result_magnitude(op, before, 3))) op = Op::kMin;
  const Use main = use_of(id);
  if (random_.chance(5) && allowed(op, result_magnitude(op, before, before)) && op != Op::kScale &&
      op != Op::kDiv) {
    return elementwise(op, {main, main}, {}, result_magnitude(op, before, before));
  }
  double magnitude = 2;
  if (op == Op::kScale) {
    const bool scalar = random_.chance(70);
    const ValueId factor = scalar ? parameter(Role::kScalar, DType::kF32, {})
                                  : constant(options_.exact_only ? 2 : 0.125);
    return elementwise(op, {main, Use{factor, ""}}, {}, result_magnitude(op, before, 2));
  }
  const Use other = second_operand(id, main, magnitude);
  const double after = result_magnitude(op, before, magnitude);
  if (random_.chance(30) && op != Op::kDiv) {
    // The result has the labels of the first operand of full rank: the other needs labels as well.
    Use placed = main;
    if (!other.labels.empty() && placed.labels.empty()) placed.labels = known(id).labels;
    return elementwise(op, {other, placed}, {}, after);
  }
  return elementwise(op, {main, other}, {}, after);
}

// Chooses between `id` and a second operand by a comparison of the two, or by `id` itself.
ValueId RandomParts::select_step(ValueId id) {
  constexpr Op kOps[] = {Op::kLt, Op::kLe, Op::kGt, Op::kGe, Op::kEq, Op::kNe};
  const double before = known(id).magnitude;
  double magnitude = 2;
  const Use main = use_of(id);
  const Use other = second_operand(id, main, magnitude);
  Use condition = main;
  if (random_.chance(70)) {
    condition = {elementwise(random_.pick<Op>(kOps), {main, other}, {}, 1), ""};
  }
  const bool swapped = random_.chance(50);
  return elementwise(Op::kSelect, {condition, swapped ? other : main, swapped ? main : other}, {},
                     std::max(before, magnitude));
}

ValueId RandomParts::steps(ValueId id, int fewest, int most) {
  const i64 count = random_.range(fewest, most);
  for (i64 i = 0; i < count; ++i) {
    if (!options_.exact_only && random_.chance(8)) {
      id = cast(id, float_dtype());
    } else {
      id = random_.chance(50)   ? unary_step(id)
           : random_.chance(88) ? binary_step(id)
                                : select_step(id);
    }
  }
  return id;
}

ValueId RandomParts::group_operand(ValueId contraction) {
  const Value contract = value(contraction);
  const bool rows = !options_.no_group_operands && contract.ragged &&
                    known(contraction).labels.find(contract.ragged->label) != std::string::npos;
  const double magnitude = known(contraction).magnitude;
  if (!rows || !extra_.chance(60) || !allowed(Op::kAdd, magnitude + 2)) return contraction;
  const Known facts = known(contraction);
  Use use{-1, std::string(1, contract.ragged->group)};
  llvm::SmallVector<Dim, 4> shape = {known(contract.ragged->ends).shape[0]};
  for (size_t d = 0; d < facts.shape.size(); ++d) {
    if (facts.labels[d] == contract.ragged->label || !extra_.chance(70)) continue;
    use.labels += facts.labels[d];
    shape.push_back(facts.shape[d]);
  }
  use.value = parameter(extra_.chance(70) ? Role::kWeight : Role::kInput, float_dtype(), shape);
  Value add;
  add.op = Op::kAdd;
  add.operands = {Use{contraction, ""}, use};
  Known result = facts;
  result.used = false;
  result.magnitude = magnitude + 2;
  return append(std::move(add), std::move(result));
}

ValueId RandomParts::accumulate(ValueId value_id) {
  const Known facts = known(value_id);
  if (options_.no_in_place || (options_.exact_only && value(value_id).op == Op::kCast)) {
    return value_id;
  }
  if (is_parameter(value_id) || !extra_.chance(12) || !allowed(Op::kAdd, facts.magnitude + 2)) {
    return value_id;
  }
  const ValueId input = parameter(Role::kInput, float_dtype(), facts.shape);
  value(input).type.strides = random_strides(facts.shape, /*may_overlap=*/false);
  const ValueId sum =
      elementwise(Op::kAdd, {Use{value_id, ""}, Use{input, ""}}, {}, facts.magnitude + 2);
  in_place_ = {sum, input};
  return sum;
}

ValueId RandomParts::join(ValueId left, ValueId right) {
  const double product = known(left).magnitude * known(right).magnitude;
  const bool multiply = random_.chance(80) && allowed(Op::kMul, product);
  const bool plain = known(left).shape == known(right).shape;
  const double sum = known(left).magnitude + known(right).magnitude;
  if (!plain || !allowed(Op::kAdd, sum)) return left;  // `right` is then returned as it is
  return elementwise(multiply ? Op::kMul : Op::kAdd, {Use{left, ""}, Use{right, ""}}, {},
                     multiply ? product : sum);
}

Chain RandomParts::finish() {
  Chain chain;
  chain.name = "random";
  if (symbol_used_) chain.symbol = symbol_;
  chain.values = parameters_;
  chain.values.insert(chain.values.end(), ops_.begin(), ops_.end());
  const auto renumber = [&](ValueId& id) {
    if (id >= kFirstOp) id = id - kFirstOp + static_cast<ValueId>(parameters_.size());
  };
  for (Value& value : chain.values) {
    for (Use& use : value.operands) renumber(use.value);
    if (value.ragged) renumber(value.ragged->ends);
  }
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (ops_[i].op == Op::kConstant || ops_[i].op == Op::kDequant) continue;
    if (known_ops_[i].used && !random_.chance(6)) continue;
    Output output;
    output.value = static_cast<ValueId>(parameters_.size() + i);
    output.dtype = float_dtype();
    output.strides = random_strides(known_ops_[i].shape, /*may_overlap=*/false);
    output.align = random_align(output.dtype);
    if (in_place_ && in_place_->first == static_cast<ValueId>(kFirstOp + i)) {
      output.in_place = in_place_->second;
      output.dtype = parameters_[output.in_place].type.dtype;
      output.strides.clear();
      output.align = 16;
    }
    chain.outputs.push_back(std::move(output));
  }
  chain.words.rounded_weights = draws_rounded_weights();
  return chain;
}

}  // namespace catenary
