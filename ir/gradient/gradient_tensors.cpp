// SPDX-License-Identifier: Apache-2.0
#include "ir/gradient/gradient_tensors.h"

#include "ir/random/random.h"
#include "ir/reference/reference_program.h"

namespace catenary {
namespace {

size_t bytes_of(const TensorType& type) { return static_cast<size_t>(span_bytes(type)); }

bool is_of_forward(GradientKind kind) {
  return kind == GradientKind::kInput || kind == GradientKind::kWeight ||
         kind == GradientKind::kScalar;
}

}  // namespace

GradientTensors::GradientTensors(const Gradient& gradient, const ChainData& data, u64 seed)
    : gradient_(gradient), data_(data) {
  for (const GradientChain& part : gradient.chains) {
    for (size_t p = 0; p < part.chain.parameters().size(); ++p) {
      const GradientOperand& operand = part.operands[p];
      if (operand.kind != GradientKind::kOutputGradient &&
          operand.kind != GradientKind::kAccumulator) {
        continue;
      }
      const TensorType type =
          with_symbol(part.chain.info(part.chain.parameters()[p]).type, data.inputs.symbol);
      Fill fill;
      fill.seed =
          seed + mix64(static_cast<u64>(operand.kind) * 1024 + static_cast<u64>(operand.index));
      std::vector<std::byte> bytes(bytes_of(type));
      fill_tensor(type, bytes, fill);
      tensors_[{operand.kind, operand.index}] = std::move(bytes);
    }
  }
}

ReferenceInputs GradientTensors::inputs(size_t i) const {
  const GradientChain& part = gradient_.chains[i];
  ReferenceInputs inputs;
  if (part.chain.chain().symbol) inputs.symbol = data_.inputs.symbol;
  for (size_t p = 0; p < part.chain.parameters().size(); ++p) {
    const GradientOperand& operand = part.operands[p];
    HostTensor tensor;
    tensor.type = with_symbol(part.chain.info(part.chain.parameters()[p]).type, inputs.symbol);
    tensor.data = is_of_forward(operand.kind) ? data_.inputs.parameters[operand.index].data
                                              : tensors_.at({operand.kind, operand.index}).data();
    inputs.parameters.push_back(std::move(tensor));
  }
  return inputs;
}

void GradientTensors::keep(size_t i, size_t output, std::vector<std::byte> bytes) {
  const GradientChain& part = gradient_.chains[i];
  const GradientOperand& operand = part.operands[part.chain.parameters().size() + output];
  tensors_[{operand.kind, operand.index}] = std::move(bytes);
}

void GradientTensors::keep(size_t i, size_t output, llvm::ArrayRef<Interval> values) {
  const TensorType type = with_symbol(
      gradient_.chains[i].chain.output_type(static_cast<int>(output)), data_.inputs.symbol);
  std::vector<std::byte> bytes(bytes_of(type));
  llvm::SmallVector<i64, 4> at(type.rank(), 0);
  for (const Interval& value : values) {
    i64 offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * type.strides[d];
    store_element(type.dtype, bytes.data(), offset, value.value);
    advance(type.shape, at);
  }
  keep(i, output, std::move(bytes));
}

}  // namespace catenary
