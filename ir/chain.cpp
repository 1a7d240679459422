// SPDX-License-Identifier: Apache-2.0
#include "ir/chain.h"

namespace catenary {

bool Value::operator==(const Value& o) const {
  return name == o.name && op == o.op && operands == o.operands &&
         attributes[0] == o.attributes[0] && attributes[1] == o.attributes[1] && role == o.role &&
         type == o.type && equation == o.equation && true_f32 == o.true_f32 &&
         fast_accum == o.fast_accum && ragged == o.ragged && block == o.block;
}

bool Output::operator==(const Output& o) const {
  return value == o.value && dtype == o.dtype && strides == o.strides && align == o.align &&
         in_place == o.in_place;
}

ValueId Chain::append(Value value) {
  const ValueId id = static_cast<ValueId>(values.size());
  if (value.name.empty()) value.name = fmt::format("t{}", id);
  values.push_back(std::move(value));
  return id;
}

ValueId Chain::parameter(Role role, std::string name, TensorType type) {
  Value value;
  value.name = std::move(name);
  value.role = role;
  value.type = std::move(type);
  return append(std::move(value));
}

ValueId Chain::constant(double number, std::string name) {
  Value value;
  value.name = std::move(name);
  value.op = Op::kConstant;
  value.attributes[0] = number;
  return append(std::move(value));
}

ValueId Chain::contract(std::string equation, ValueId left, ValueId right, std::string name) {
  Value value;
  value.name = std::move(name);
  value.op = Op::kContract;
  value.operands = {Use{left, ""}, Use{right, ""}};
  value.equation = std::move(equation);
  return append(std::move(value));
}

ValueId Chain::elementwise(Op op, llvm::ArrayRef<Use> operands, llvm::ArrayRef<double> attributes,
                           std::string name) {
  Value value;
  value.name = std::move(name);
  value.op = op;
  value.operands.assign(operands.begin(), operands.end());
  for (size_t i = 0; i < attributes.size() && i < 2; ++i) value.attributes[i] = attributes[i];
  return append(std::move(value));
}

ValueId Chain::sum(std::string equation, ValueId operand, std::string name) {
  return reduce(Op::kSum, std::move(equation), operand, std::move(name));
}

ValueId Chain::reduce(Op op, std::string equation, ValueId operand, std::string name) {
  Value value;
  value.name = std::move(name);
  value.op = op;
  value.operands = {Use{operand, ""}};
  value.equation = std::move(equation);
  return append(std::move(value));
}

ValueId Chain::dequant(llvm::ArrayRef<ValueId> operands, ScaleBlock block, std::string name) {
  Value value;
  value.name = std::move(name);
  value.op = Op::kDequant;
  for (ValueId id : operands) value.operands.push_back({id, ""});
  value.block = block;
  return append(std::move(value));
}

ValueId Chain::cast(ValueId operand, DType dtype, std::string name) {
  Value value;
  value.name = std::move(name);
  value.op = Op::kCast;
  value.operands = {Use{operand, ""}};
  value.type.dtype = dtype;
  return append(std::move(value));
}

void Chain::returns(ValueId value, DType dtype) {
  Output output;
  output.value = value;
  output.dtype = dtype;
  outputs.push_back(std::move(output));
}

}  // namespace catenary
