// SPDX-License-Identifier: Apache-2.0
#include "ir/gradient/chain_writer.h"

#include <algorithm>

#include "ir/default_strides.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary::gradient {
namespace {

// Row-major strides, with a symbolic dimension outermost: no stride depends on the symbol.
llvm::SmallVector<i64, 4> plain_strides(llvm::ArrayRef<Dim> shape) {
  llvm::SmallVector<i64, 4> strides(shape.size());
  i64 step = 1;
  for (const bool symbolic : {false, true}) {
    for (size_t d = shape.size(); d-- > 0;) {
      if (shape[d].symbolic != symbolic) continue;
      strides[d] = step;
      step *= std::max<i64>(shape[d].size, 1);
    }
  }
  return strides;
}

// Nothing where contiguous strides say the same and may be left out.
llvm::SmallVector<i64, 4> written_strides(llvm::ArrayRef<Dim> shape, llvm::ArrayRef<i64> strides) {
  if (inner_symbolic_dim(shape) < 0 && strides == llvm::makeArrayRef(contiguous_strides(shape)))
    return {};
  return {strides.begin(), strides.end()};
}

bool overlaps_itself(const TensorType& type) {
  llvm::SmallVector<int, 8> order;
  for (int d = 0; d < type.rank(); ++d) {
    if (type.shape[d].size > 1) order.push_back(d);
  }
  llvm::stable_sort(order, [&](int a, int b) { return type.strides[a] < type.strides[b]; });
  i64 span = 1;
  for (int d : order) {
    if (type.strides[d] < span) return true;
    span += (type.shape[d].size - 1) * type.strides[d];
  }
  return false;
}

GradientKind parameter_kind(Role role) {
  switch (role) {
    case Role::kInput:
      return GradientKind::kInput;
    case Role::kWeight:
      return GradientKind::kWeight;
    case Role::kScalar:
      return GradientKind::kScalar;
  }
  return GradientKind::kInput;
}

GradientKind gradient_kind(Role role) {
  switch (role) {
    case Role::kInput:
      return GradientKind::kInputGradient;
    case Role::kWeight:
      return GradientKind::kWeightGradient;
    case Role::kScalar:
      return GradientKind::kScalarGradient;
  }
  return GradientKind::kInputGradient;
}

}  // namespace

// A chain under construction.
struct ChainWriter::Draft {
  Chain chain;
  GradientPass pass = GradientPass::kBackward;
  std::vector<GradientOperand> operands;
  std::vector<GradientOperand> outputs;
  std::vector<ValueId> id;    // per value of the graph: its number in the chain, or -1
  std::vector<DType> dtypes;  // per value of the chain
  std::vector<std::pair<ValueId, ValueId>> accumulators;  // forward parameter, value of the chain

  ValueId append(Value value, DType dtype) {
    dtypes.push_back(dtype);
    return chain.append(std::move(value));
  }
};

ChainWriter::ChainWriter(const JointGraph& graph, const Reversed& reversed, const SavePlan& saves,
                         const GradientOptions& options)
    : graph_(graph),
      reversed_(reversed),
      saves_(saves),
      options_(options),
      names_(graph.size()),
      gradient_names_(graph.num_forward()),
      parameter_number_(graph.num_forward(), -1) {
  const Chain& chain = graph.forward().chain();
  if (chain.symbol) taken_.insert(chain.symbol->name);
  int number = 0;
  for (ValueId id = 0; id < graph.num_forward(); ++id) {
    names_[id] = chain.values[id].name;
    taken_.insert(names_[id]);
    if (graph.is_parameter(id)) parameter_number_[id] = number++;
  }
  for (const auto& [parameter, gradient] : reversed.gradients) {
    gradient_names_[parameter] = unique("d_" + names_[parameter]);
    std::string& name = names_[gradient.id];
    const bool own = !graph.is_forward(gradient.id) && !graph.is_parameter(gradient.id);
    if (own && name.empty() && !accumulates(parameter)) name = gradient_names_[parameter];
  }
  int unnamed = 0;
  for (ValueId id = graph.num_forward(); id < graph.size(); ++id) {
    if (!names_[id].empty()) continue;
    const std::string& wanted = graph.node(id).value.name;
    if (!wanted.empty()) {
      names_[id] = unique(wanted);
      continue;
    }
    while (taken_.count(fmt::format("t{}", unnamed)) != 0) ++unnamed;
    names_[id] = unique(fmt::format("t{}", unnamed));
  }
}

// `name`, or with a number if it is taken or too long.
std::string ChainWriter::unique(std::string name) {
  constexpr size_t kLongest = kMaxNameBytes - 8;
  name.resize(std::min(name.size(), kLongest));
  std::string result = name;
  for (int i = 2; !taken_.insert(result).second; ++i) result = fmt::format("{}_{}", name, i);
  return result;
}

bool ChainWriter::accumulates(ValueId parameter) const {
  return options_.accumulate && graph_.node(parameter).value.role == Role::kWeight;
}

DType ChainWriter::stored_dtype(ValueId id) const {
  return graph_.is_forward(id) ? saves_.dtype[id] : graph_.node(id).dtype;
}

// The type of a saved value, or of the forward's output that it is.
TensorType ChainWriter::saved_type(ValueId id) const {
  const int output = graph_.is_forward(id) && saves_.saved[id]
                         ? output_of(graph_.forward(), id, saves_.dtype[id])
                         : -1;
  TensorType type;
  if (output >= 0) {
    type = graph_.forward().output_type(output);
    type.strides = graph_.forward().chain().outputs[output].strides;
    return type;
  }
  type.dtype = stored_dtype(id);
  type.shape = graph_.node(id).shape;
  type.strides = written_strides(type.shape, plain_strides(type.shape));
  return type;
}

Expected<GradientChain> ChainWriter::forward() const {
  Draft draft;
  draft.pass = GradientPass::kForward;
  draft.chain = graph_.forward().chain();
  for (Value& value : draft.chain.values) value.at = {};
  for (ValueId id : graph_.forward().parameters()) {
    draft.operands.push_back(
        {parameter_kind(graph_.node(id).value.role), parameter_number_[id], names_[id], {}});
  }
  for (size_t i = 0; i < draft.chain.outputs.size(); ++i) {
    draft.chain.outputs[i].at = {};
    draft.outputs.push_back(
        {GradientKind::kOutput, static_cast<int>(i), names_[draft.chain.outputs[i].value], {}});
  }
  int number = 0;
  for (ValueId id = 0; id < graph_.num_forward(); ++id) {
    if (!saves_.saved[id] || output_of(graph_.forward(), id, saves_.dtype[id]) >= 0) continue;
    const TensorType type = saved_type(id);
    draft.chain.outputs.push_back({id, type.dtype, type.strides, type.align, -1, {}});
    draft.outputs.push_back({GradientKind::kSaved, number++, names_[id], {}});
  }
  return finish(std::move(draft));
}

Expected<GradientChain> ChainWriter::backward(const BackwardPart& part) {
  Draft draft;
  draft.pass = part.pass;
  draft.chain.name =
      fmt::format("{}_{}", graph_.forward().chain().name.substr(0, kMaxNameBytes - 16),
                  gradient_pass_text(part.pass));
  draft.id.assign(graph_.size(), -1);
  add_parameters(part, draft);
  add_values(part, draft);
  for (const auto& [parameter, gradient] : part.gradients) add_gradient(parameter, gradient, draft);
  for (ValueId id : part.intermediates) {
    const TensorType type = saved_type(id);
    draft.chain.outputs.push_back({draft.id[id], type.dtype, type.strides, type.align, -1, {}});
    draft.outputs.push_back(
        {GradientKind::kIntermediate, static_cast<int>(intermediates_.size()), names_[id], {}});
    intermediates_.push_back(id);
  }
  return finish(std::move(draft));
}

void ChainWriter::add_parameter(ValueId id, GradientKind kind, int index, TensorType type,
                                Draft& draft) const {
  Value value;
  value.name = names_[id];
  if (graph_.is_forward(id) && graph_.is_parameter(id)) value.role = graph_.node(id).value.role;
  const DType dtype = type.dtype;
  value.type = std::move(type);
  draft.id[id] = draft.append(std::move(value), dtype);
  draft.operands.push_back({kind, index, names_[id], {}});
}

// In this order: parameters of the forward, saved values, intermediates, output gradients,
// accumulators.
void ChainWriter::add_parameters(const BackwardPart& part, Draft& draft) {
  std::vector<bool> read(graph_.size());
  for (ValueId id = 0; id < graph_.size(); ++id) {
    if (!part.computed[id]) continue;
    for (ValueId operand : graph_.operands(id))
      read[operand] = read[operand] || !part.computed[operand];
  }
  for (const auto& gradient : part.gradients) {
    const ValueId id = gradient.second.id;
    read[id] = read[id] || !part.computed[id];
  }
  for (ValueId id : graph_.forward().parameters()) {
    if (!read[id]) continue;
    add_parameter(id, parameter_kind(graph_.node(id).value.role), parameter_number_[id],
                  graph_.node(id).value.type, draft);
  }
  int saved = 0;
  for (ValueId id = 0; id < graph_.num_forward(); ++id) {
    if (!saves_.saved[id]) continue;
    const int output = output_of(graph_.forward(), id, saves_.dtype[id]);
    const int number = output >= 0 ? output : saved++;
    if (!read[id]) continue;
    add_parameter(id, output >= 0 ? GradientKind::kOutput : GradientKind::kSaved, number,
                  saved_type(id), draft);
  }
  for (size_t i = 0; i < intermediates_.size(); ++i) {
    const ValueId id = intermediates_[i];
    if (!read[id] || draft.id[id] >= 0) continue;
    add_parameter(id, GradientKind::kIntermediate, static_cast<int>(i), saved_type(id), draft);
  }
  for (const auto& [output, id] : reversed_.output_gradients) {
    if (read[id])
      add_parameter(id, GradientKind::kOutputGradient, output, graph_.node(id).value.type, draft);
  }
  for (const auto& [parameter, gradient] : part.gradients) {
    if (!accumulates(parameter)) continue;
    const Output output = gradient_output(parameter, gradient);
    Value value;
    value.name = unique("sum_" + names_[parameter]);
    value.type.dtype = output.dtype;
    value.type.shape = graph_.node(gradient.id).shape;
    value.type.strides = output.strides;
    value.type.align = output.align;
    draft.operands.push_back(
        {GradientKind::kAccumulator, parameter_number_[parameter], value.name, gradient.dims});
    draft.accumulators.emplace_back(parameter, draft.append(std::move(value), output.dtype));
  }
}

// The number of graph value `id` in the chain, as `dtype`: what a chain stores may be narrower.
ValueId ChainWriter::operand_in(ValueId id, DType dtype, Draft& draft) const {
  const ValueId in_chain = draft.id[id];
  if (draft.dtypes[in_chain] == dtype) return in_chain;
  Value value;
  value.op = Op::kCast;
  value.name = fmt::format("{}_{}", names_[id].substr(0, kMaxNameBytes - 8), dtype_text(dtype));
  value.operands = {Use{in_chain, ""}};
  value.type.dtype = dtype;
  for (size_t known = 0; known < draft.chain.values.size(); ++known) {
    const Value& other = draft.chain.values[known];
    if (other.op == Op::kCast && other.operands == value.operands && other.type.dtype == dtype) {
      return static_cast<ValueId>(known);
    }
  }
  while (taken_.count(value.name) != 0 ||
         llvm::any_of(draft.chain.values, [&](const Value& v) { return v.name == value.name; }))
    value.name += '_';
  return draft.append(std::move(value), dtype);
}

void ChainWriter::add_values(const BackwardPart& part, Draft& draft) const {
  for (ValueId id = 0; id < graph_.size(); ++id) {
    if (!part.computed[id]) continue;
    const JointNode& node = graph_.node(id);
    Value value = node.value;
    value.name = names_[id];
    if (value.op == Op::kCast && draft.dtypes[draft.id[value.operands[0].value]] == node.dtype) {
      draft.id[id] = draft.id[value.operands[0].value];  // stored as the cast would round it
      continue;
    }
    for (Use& use : value.operands) {
      use.value = value.op == Op::kContract
                      ? operand_in(use.value, graph_.node(use.value).dtype, draft)
                      : draft.id[use.value];
    }
    if (value.ragged) value.ragged->ends = draft.id[value.ragged->ends];
    draft.id[id] = draft.append(std::move(value), node.dtype);
  }
}

// The dtype and the layout of a gradient: those of its parameter, whose dimensions it may have in
// another order.
Output ChainWriter::gradient_output(ValueId parameter, const Placed& gradient) const {
  const Value& value = graph_.node(parameter).value;
  TensorType type = graph_.forward().info(parameter).type;
  if (overlaps_itself(type)) type.strides = plain_strides(type.shape);
  Output output;
  const bool f32 =
      value.role == Role::kScalar || (value.role == Role::kWeight && options_.f32_weights);
  output.dtype = f32 ? DType::kF32 : type.dtype;
  llvm::SmallVector<i64, 4> strides;
  for (int dim : gradient.dims) strides.push_back(type.strides[dim]);
  output.strides = written_strides(graph_.node(gradient.id).shape, strides);
  output.align = std::max<i64>(std::min<i64>(type.align, 16), dtype_bytes(output.dtype));
  if (value.role == Role::kScalar) output.align = dtype_bytes(output.dtype);
  return output;
}

void ChainWriter::add_gradient(ValueId parameter, const Placed& gradient, Draft& draft) {
  Output output = gradient_output(parameter, gradient);
  output.value = draft.id[gradient.id];
  const std::string& name = gradient_names_[parameter];
  const auto sum =
      llvm::find_if(draft.accumulators, [&](const auto& a) { return a.first == parameter; });
  Value value;
  value.name = name;
  if (sum != draft.accumulators.end()) {
    value.op = Op::kAdd;
    value.operands = {Use{sum->second, ""}, Use{output.value, ""}};
    output.value = draft.append(std::move(value), DType::kF32);
    output.in_place = sum->second;  // and has its layout
    output.strides.clear();
    output.align = 16;
  } else if (draft.chain.values[output.value].name != name) {
    // An output is a computed value, and no other output.
    value.op = Op::kCast;
    value.operands = {Use{output.value, ""}};
    value.type.dtype = DType::kF32;
    output.value = draft.append(std::move(value), DType::kF32);
  }
  draft.chain.outputs.push_back(std::move(output));
  draft.outputs.push_back({gradient_kind(graph_.node(parameter).value.role),
                           parameter_number_[parameter], name, gradient.dims});
}

Expected<GradientChain> ChainWriter::finish(Draft draft) const {
  const bool symbolic = llvm::any_of(draft.chain.values, [](const Value& value) {
    return llvm::any_of(value.type.shape, [](const Dim& dim) { return dim.symbolic; });
  });
  if (symbolic) draft.chain.symbol = graph_.forward().chain().symbol;
  draft.chain.words = graph_.forward().chain().words;
  const std::string name = draft.chain.name;
  Expected<VerifiedChain> verified = verify(std::move(draft.chain));
  if (!verified) {
    // A limit may be exceeded; any other rule is ours to keep.
    ErrorReport report = take_report(verified.takeError());
    const bool limit = report.code == ErrorCode::kResourceLimit;
    return make_error_text(limit ? report.code : ErrorCode::kInternal, std::move(report.message));
  }
  draft.operands.insert(draft.operands.end(), draft.outputs.begin(), draft.outputs.end());
  return GradientChain{std::move(*verified), draft.pass, std::move(draft.operands)};
}

}  // namespace catenary::gradient
