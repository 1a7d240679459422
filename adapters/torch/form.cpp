// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/form.h"

#include <algorithm>
#include <numeric>

#include "ir/names.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/SHA256.h"
#include "runtime/record/canonical.h"

namespace catenary::torch_adapter {
namespace {

constexpr char kSchema[] = "catenary.form.1";

i64 form_key(LayoutRule rule, bool allow_pdl, const std::string& canonical) {
  llvm::SHA256 hash;
  hash.update(kSchema);
  hash.update(rule == LayoutRule::kExact ? " exact " : " from tensors ");
  if (allow_pdl) hash.update("pdl ");
  hash.update(canonical);
  const u64 bits = llvm::support::endian::read64le(hash.final().data());
  return static_cast<i64>(std::max<u64>(bits >> 1, 1));
}

// The source of every dimension of every value: parameters are their own, each op passes on those
// of an operand that it does not broadcast.
class SizeSources {
 public:
  SizeSources(const VerifiedChain& chain, const std::vector<int>& tensor_of)
      : chain_(chain), tensor_of_(tensor_of) {
    for (ValueId id = 0; id < chain.num_values(); ++id) sources_.push_back(of_value(id));
  }
  const std::vector<SizeSource>& of(ValueId id) const { return sources_[id]; }

 private:
  std::vector<SizeSource> of_value(ValueId id) const {
    const Value& value = chain_.value(id);
    const ValueInfo& info = chain_.info(id);
    std::vector<SizeSource> sources(info.type.rank());
    for (int d = 0; d < info.type.rank(); ++d) sources[d].size = info.type.shape[d].size;
    if (value.op == Op::kParameter) {
      if (bytes_layout(info.type)) {
        for (SizeSource& source : sources) source.fixed = true;
        return sources;
      }
      for (int d = 0; d < info.type.rank(); ++d) sources[d] = {tensor_of_[id], d, 1};
    } else if (value.op == Op::kDequant) {
      return sources_[value.operands[0].value];
    } else if (info.contraction) {
      add_contraction(value, *info.contraction, sources);
    } else {
      add_elementwise(value, info, sources);
    }
    return sources;
  }

  void add_contraction(const Value& value, const Contraction& labels,
                       std::vector<SizeSource>& sources) const {
    const auto add = [&](const ContractionLabel& label) {
      if (label.result < 0) return;
      const bool left = label.left >= 0;
      const ValueId operand = value.operands[left ? 0 : 1].value;
      sources[label.result] = sources_[operand][left ? label.left : label.right];
    };
    for (const auto* labels_of : {&labels.batch, &labels.m, &labels.n}) {
      for (const ContractionLabel& label : *labels_of) add(label);
    }
    if (!labels.ragged_group) return;
    const ContractionLabel& group = *labels.ragged_group;
    // K-grouped: the groups of the result are those of the ends.
    if (group.result >= 0 && value.ragged) {
      sources[group.result] = sources_[value.ragged->ends][0];
    }
  }

  void add_elementwise(const Value& value, const ValueInfo& info,
                       std::vector<SizeSource>& sources) const {
    for (size_t o = 0; o < info.operand_dims.size(); ++o) {
      const ValueId operand = value.operands[o].value;
      for (size_t d = 0; d < sources.size(); ++d) {
        const int dim = info.operand_dims[o][d];
        if (dim < 0 || sources[d].parameter >= 0) continue;
        if (chain_.info(operand).type.shape[dim] != info.type.shape[d]) continue;  // of size 1
        sources[d] = sources_[operand][dim];
      }
    }
    // A sum by group: the groups of the result are those of the ends.
    if (info.grouped_terms)
      sources[info.grouped_terms->group] = sources_[info.grouped_terms->ends][0];
  }

  const VerifiedChain& chain_;
  const std::vector<int>& tensor_of_;
  std::vector<std::vector<SizeSource>> sources_;
};

std::vector<int> memory_order(const TensorType& type) {
  std::vector<int> order(type.rank());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return type.strides[a] > type.strides[b]; });
  return order;
}

FormOutput form_output(const Form& form, int i, const SizeSources& sources,
                       const std::vector<int>& tensor_of) {
  const Output& output = form.chain.chain().outputs[i];
  const TensorType& type = form.chain.output_type(i);
  FormOutput result;
  result.dtype = type.dtype;
  result.sizes = sources.of(output.value);
  result.order = memory_order(type);
  if (output.in_place >= 0) result.in_place = tensor_of[output.in_place];
  // Without an argument that has leading dimensions, the symbol is the size of one dimension.
  const bool known = llvm::any_of(form.tensors, [](const FormTensor& t) { return t.leading; });
  result.leading = known && type.rank() > 0 && type.shape[0].symbolic && result.order[0] == 0;
  return result;
}

Error no_size(const Form& form, int output) {
  return make_error(ErrorCode::kUnsupported,
                    "output {} of chain {} has a size that no parameter has: declare the chain for "
                    "exact layouts",
                    output, quoted(form.chain.chain().name));
}

}  // namespace

std::optional<TensorLayout> bytes_layout(const TensorType& type) {
  if (!type.packed && dtype_info(type.dtype).bits >= 8) return std::nullopt;
  TensorLayout layout{DType::kI8, {}, {}, type.align};
  if (type.packed || type.rank() == 0) {
    layout.sizes = {span_bytes(type)};
    layout.strides = {1};
    return layout;
  }
  for (int d = 0; d < type.rank(); ++d) {  // verify(): all strides but the last one's are even
    const bool last = d + 1 == type.rank();
    layout.sizes.push_back(last ? (type.shape[d].size + 1) / 2 : type.shape[d].size);
    layout.strides.push_back(last ? 1 : type.strides[d] / 2);
  }
  return layout;
}

const std::string& tensor_name(const Form& form, size_t i) {
  return form.chain.value(form.tensors[i].value).name;
}

Expected<Form> make_form(VerifiedChain chain, LayoutRule rule, bool allow_pdl) {
  std::string canonical = canonical_text(chain);
  const i64 key = form_key(rule, allow_pdl, canonical);
  Form form{std::move(chain), rule, std::move(canonical), allow_pdl, key, {}, {}, 0};
  std::vector<int> tensor_of(form.chain.num_values(), -1);
  for (ValueId id : form.chain.parameters()) {
    if (form.chain.value(id).role == Role::kScalar) {
      ++form.num_scalars;
      continue;
    }
    const TensorType& type = form.chain.info(id).type;
    tensor_of[id] = static_cast<int>(form.tensors.size());
    form.tensors.push_back({id, -1,
                            rule == LayoutRule::kFromTensors && type.rank() > 0 &&
                                type.shape[0].symbolic && !bytes_layout(type)});
  }
  const SizeSources sources(form.chain, tensor_of);
  for (int i = 0; i < static_cast<int>(form.chain.chain().outputs.size()); ++i) {
    form.outputs.push_back(form_output(form, i, sources, tensor_of));
    const FormOutput& output = form.outputs.back();
    if (output.in_place >= 0) form.tensors[output.in_place].overwritten_by = i;
    if (rule == LayoutRule::kExact) continue;
    for (const SizeSource& source : output.sizes) {
      if (source.parameter < 0 && source.size != 1 && !source.fixed) return no_size(form, i);
    }
  }
  return form;
}

}  // namespace catenary::torch_adapter
