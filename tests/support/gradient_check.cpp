// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gradient_check.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ir/gradient/gradient_tensors.h"
#include "ir/random/random.h"
#include "ir/reference/reference_program.h"

namespace catenary {
namespace {

using Values = std::vector<std::vector<Interval>>;

Values evaluated(const VerifiedChain& chain, const ReferenceInputs& inputs) {
  auto reference = Reference::create(chain, inputs);
  if (!reference) FAIL(take_report(reference.takeError()).message);
  return reference->evaluate(1);
}

// A value that the reference knows; with an error that is not bounded it gives 0 for the next ops.
double known_value(const Interval& x) {
  return std::isfinite(x.error) ? x.value : std::numeric_limits<double>::quiet_NaN();
}

// The offset of each element in row-major order.
std::vector<i64> offsets_of(const TensorType& type) {
  std::vector<i64> offsets;
  llvm::SmallVector<i64, 4> at(type.rank(), 0);
  for (i64 i = 0; i < num_elements(type); ++i) {
    i64 offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * type.strides[d];
    offsets.push_back(offset);
    advance(type.shape, at);
  }
  return offsets;
}

// In [-1, 1], by the element's place in memory: a broadcast parameter moves as one.
double direction(u64 seed, i64 offset) {
  Random random(seed + mix64(static_cast<u64>(offset) + 1));
  return static_cast<double>(random.range(-1024, 1024)) / 1024;
}

// The gradient of a parameter, by its own row-major index, and how far f32 may be from it.
struct ParameterGradient {
  std::vector<double> values;
  double error = 0;
};

class Checker {
 public:
  Checker(const VerifiedChain& chain, const Gradient& gradient, i64 symbol, u64 seed)
      : chain_(chain),
        gradient_(gradient),
        seed_(seed),
        data_(fill_chain(chain, symbol, FillKind::kNormal, seed)),
        tensors_(gradient, data_, seed + 17) {}

  GradientCheck run() {
    spread_parameters();
    for (size_t i = 0; i < gradient_.chains.size(); ++i) run_chain(i);
    if (unknown_) {
      ++result_.unsettled;
      return result_;
    }
    for (const auto& [parameter, gradient] : gradients_) compare(parameter, gradient);
    return result_;
  }

 private:
  // fill_chain() gives some elements of two parameters the same number: a tie, where a central
  // difference is half of each side's slope.
  void spread_parameters() {
    for (size_t p = 0; p < data_.buffers.size(); ++p) {
      const TensorType& type = data_.inputs.parameters[p].type;
      if (type.dtype == DType::kI32) continue;
      Fill fill;
      fill.seed = mix64(seed_ * 1000 + p);
      fill.scale = 0.5;
      fill_tensor(type, data_.buffers[p], fill);
    }
  }

  void run_chain(size_t i) {
    const GradientChain& part = gradient_.chains[i];
    for (size_t p = 0; p < part.chain.parameters().size(); ++p) {
      if (part.operands[p].kind != GradientKind::kOutputGradient) continue;
      output_gradients_[part.operands[p].index] =
          with_symbol(part.chain.info(part.chain.parameters()[p]).type, data_.inputs.symbol);
    }
    const Values values = evaluated(part.chain, tensors_.inputs(i));
    for (size_t o = 0; o < values.size(); ++o) {
      const GradientOperand& operand = part.operands[part.chain.parameters().size() + o];
      tensors_.keep(i, o, values[o]);
      unknown_ |= llvm::any_of(values[o], [](const Interval& x) { return std::isinf(x.error); });
      if (operand.kind == GradientKind::kInputGradient ||
          operand.kind == GradientKind::kWeightGradient ||
          operand.kind == GradientKind::kScalarGradient) {
        take_gradient(part, static_cast<int>(o), operand, values[o]);
      }
    }
  }

  // Without the accumulator, and by the parameter's indices.
  void take_gradient(const GradientChain& part, int output, const GradientOperand& operand,
                     const std::vector<Interval>& values) {
    TensorType own = with_symbol(part.chain.output_type(output), data_.inputs.symbol);
    const TensorType& type = data_.inputs.parameters[operand.index].type;
    const bool accumulated = llvm::any_of(part.operands, [&](const GradientOperand& other) {
      return other.kind == GradientKind::kAccumulator && other.index == operand.index;
    });
    const std::vector<i64> places = offsets_of(own);
    const auto rows = contiguous_strides(type.shape);
    ParameterGradient& gradient = gradients_[operand.index];
    gradient.values.assign(num_elements(type), 0);
    llvm::SmallVector<i64, 4> at(own.rank(), 0);
    for (size_t e = 0; e < values.size(); ++e) {
      i64 index = 0;
      for (size_t d = 0; d < at.size(); ++d) index += at[d] * rows[operand.dims[d]];
      double value = known_value(values[e]);
      if (accumulated) {
        value -= load_element(
            own.dtype, tensors_.bytes(GradientKind::kAccumulator, operand.index).data(), places[e]);
      }
      gradient.values[index] = value;
      advance(own.shape, at);
    }
    if (values.size() != gradient.values.size()) {
      result_.wrong =
          fmt::format("the gradient of {} has {} elements and must have {}",
                      part.operands[operand.index].name, values.size(), gradient.values.size());
    }
  }

  // The sum of all outputs times their gradients, at `inputs`.
  double loss(const ReferenceInputs& inputs) const {
    const Values values = evaluated(chain_, inputs);
    double sum = 0;
    for (const auto& [output, type] : output_gradients_) {
      const std::vector<i64> places = offsets_of(type);
      const auto bytes = tensors_.bytes(GradientKind::kOutputGradient, output);
      for (size_t e = 0; e < places.size(); ++e) {
        sum += known_value(values[output][e]) * load_element(type.dtype, bytes.data(), places[e]);
      }
    }
    return sum;
  }

  void compare(int parameter, const ParameterGradient& gradient) {
    const HostTensor& tensor = data_.inputs.parameters[parameter];
    const std::vector<i64> places = offsets_of(tensor.type);
    std::string tried;
    for (const double step : {0x1p-12, 0x1p-15, 0x1p-18, 0x1p-21}) {
      std::vector<std::byte> moved[2];
      double change[2] = {0, 0};
      for (int side = 0; side < 2; ++side) {
        moved[side] = data_.buffers[parameter];
        for (i64 place : places) {
          const double base = load_element(DType::kF32, data_.buffers[parameter].data(), place);
          store_element(DType::kF32, moved[side].data(), place,
                        base + (side == 0 ? 1 : -1) * step * direction(seed_, place));
        }
        ReferenceInputs inputs = data_.inputs;
        inputs.parameters[parameter].data = moved[side].data();
        change[side] = loss(inputs);
      }
      // The direction is what f32 made of it.
      double want = 0, magnitude = 0;
      for (size_t e = 0; e < places.size(); ++e) {
        const double move = (load_element(DType::kF32, moved[0].data(), places[e]) -
                             load_element(DType::kF32, moved[1].data(), places[e])) /
                            (2 * step);
        want += gradient.values[e] * move;
        magnitude += std::fabs(gradient.values[e] * move);
      }
      const double got = (change[0] - change[1]) / (2 * step);
      if (!std::isfinite(want) || !std::isfinite(got)) {
        ++result_.unsettled;
        return;
      }
      const double noise = 1e-15 * (std::fabs(change[0]) + 1) / step;
      if (std::fabs(got - want) <= 1e-4 * magnitude + 1e-5 * std::fabs(got) + 100 * noise) {
        ++result_.checked;
        return;
      }
      tried += fmt::format(" {:.9g} with step {:g} (gradient {:.9g}, magnitude {:.3g})", got, step,
                           want, magnitude);
    }
    const std::string& name = chain_.value(chain_.parameters()[parameter]).name;
    if (!result_.wrong) result_.wrong = fmt::format("parameter {}:{}", name, tried);
  }

  const VerifiedChain& chain_;
  const Gradient& gradient_;
  u64 seed_;
  ChainData data_;
  GradientTensors tensors_;
  std::map<int, ParameterGradient> gradients_;
  std::map<int, TensorType> output_gradients_;  // by output
  bool unknown_ = false;  // the reference does not know a value that a chain writes
  GradientCheck result_;
};

bool needs_positive(const Value& value, size_t i) {
  switch (value.op) {
    case Op::kDiv:
      return i == 1;
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kRecip:
    case Op::kLog:
      return true;
    case Op::kPow:
      return value.attributes[0] < 0;
    default:
      return false;
  }
}

}  // namespace

Chain f32_chain(const Chain& chain) {
  Chain result = chain;
  for (Value& value : result.values) {
    if (value.op == Op::kParameter && value.type.dtype != DType::kI32) {
      value.type.dtype = DType::kF32;
      value.type.align = std::max<i64>(value.type.align, 4);
    }
    if (value.op == Op::kCast) value.type.dtype = DType::kF32;
    value.true_f32 = value.op == Op::kContract;
  }
  for (Output& output : result.outputs) {
    output.dtype = DType::kF32;
    output.align = std::max<i64>(output.align, 4);
    if (output.in_place >= 0) output.strides = result.values[output.in_place].type.strides;
    output.in_place = -1;
  }
  return result;
}

Chain smooth_chain(const Chain& chain) {
  const Chain f32 = f32_chain(chain);
  Chain result;
  result.name = f32.name;
  result.symbol = f32.symbol;
  std::vector<ValueId> new_id(f32.values.size());
  for (size_t id = 0; id < f32.values.size(); ++id) {
    Value value = f32.values[id];
    if (value.op == Op::kCast) value.op = Op::kNeg;  // the reference rounds casts to f32 too
    for (size_t i = 0; i < value.operands.size(); ++i) {
      Use& use = value.operands[i];
      use.value = new_id[use.value];
      if (!needs_positive(value, i)) continue;
      const ValueId half = result.constant(0.5, fmt::format("half_{}_{}", id, i));
      const ValueId soft = result.elementwise(Op::kSoftplus, {Use{use.value, ""}}, {},
                                              fmt::format("soft_{}_{}", id, i));
      use.value = result.elementwise(Op::kAdd, {Use{soft, ""}, Use{half, ""}}, {},
                                     fmt::format("above_{}_{}", id, i));
    }
    if (value.ragged) value.ragged->ends = new_id[value.ragged->ends];
    new_id[id] = result.append(std::move(value));
  }
  result.outputs = f32.outputs;
  for (Output& output : result.outputs) output.value = new_id[output.value];
  return result;
}

GradientCheck check_gradient(const VerifiedChain& chain, const Gradient& gradient, i64 symbol,
                             u64 seed) {
  return Checker(chain, gradient, symbol, seed).run();
}

}  // namespace catenary
