// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/describe.h"

#include "ir/json.h"
#include "ir/text/text.h"

namespace catenary::torch_adapter {
namespace {

llvm::json::Array sizes_of(const TensorType& type) {
  llvm::json::Array sizes;
  for (const Dim& dim : type.shape) {
    sizes.push_back(dim.symbolic ? llvm::json::Value(nullptr) : llvm::json::Value(dim.size));
  }
  return sizes;
}

template <typename Numbers>
llvm::json::Array array_of(const Numbers& numbers) {
  llvm::json::Array array;
  for (const i64 number : numbers) array.push_back(number);
  return array;
}

llvm::json::Object input_row(const Form& form, size_t i) {
  const Value& value = form.chain.value(form.tensors[i].value);
  const TensorType& type = form.chain.info(form.tensors[i].value).type;
  llvm::json::Object row;
  row["name"] = value.name;
  row["dtype"] = std::string(dtype_text(type.dtype));
  row["role"] = std::string(role_text(value.role));
  const auto bytes = bytes_layout(type);
  row["bytes"] = bytes.has_value();
  row["sizes"] = bytes ? array_of(bytes->sizes) : sizes_of(type);
  row["strides"] = array_of(bytes ? bytes->strides : type.strides);
  row["leading"] = form.tensors[i].leading;
  row["overwritten_by"] = form.tensors[i].overwritten_by;
  return row;
}

llvm::json::Object output_row(const Form& form, size_t i) {
  const FormOutput& output = form.outputs[i];
  const TensorType& type = form.chain.output_type(static_cast<int>(i));
  llvm::json::Array sources;
  for (const SizeSource& source : output.sizes) {
    if (source.parameter < 0) {
      sources.push_back(source.size);
    } else {
      sources.push_back(llvm::json::Array{source.parameter, source.dim});
    }
  }
  llvm::json::Object row;
  row["dtype"] = std::string(dtype_text(output.dtype));
  row["sizes"] = sizes_of(type);
  row["strides"] = array_of(type.strides);
  row["sources"] = std::move(sources);
  row["order"] = array_of(output.order);
  row["leading"] = output.leading;
  row["in_place"] = output.in_place;
  return row;
}

}  // namespace

std::string describe(const Form& form) {
  llvm::json::Object root;
  root["key"] = form.key;
  root["name"] = form.chain.chain().name;
  root["exact"] = form.rule == LayoutRule::kExact;
  root["allow_pdl"] = form.allow_pdl;
  root["text"] = print(form.chain.chain());
  root["scalars"] = static_cast<i64>(form.num_scalars);
  if (const auto& symbol = form.chain.chain().symbol) {
    root["symbol"] = llvm::json::Array{symbol->lo, symbol->hi};
  }
  llvm::json::Array inputs;
  for (size_t i = 0; i < form.tensors.size(); ++i) inputs.push_back(input_row(form, i));
  root["inputs"] = std::move(inputs);
  llvm::json::Array outputs;
  for (size_t i = 0; i < form.outputs.size(); ++i) outputs.push_back(output_row(form, i));
  root["outputs"] = std::move(outputs);
  return json_text(std::move(root), 0);
}

}  // namespace catenary::torch_adapter
