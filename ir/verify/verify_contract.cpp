// SPDX-License-Identifier: Apache-2.0
// Rules of contract and reductions: equation, labels and their classes, sizes, dtypes, ragged
// labels.
#include "ir/counted.h"
#include "ir/names.h"
#include "ir/verify/verify_parts.h"

namespace catenary {
namespace {

// Every CTA reads the ends of the groups before its own.
constexpr i64 kMaxGroups = i64{1} << 20;

// "mk,nk->mn" split into the labels of each operand and of the result.
struct Equation {
  llvm::SmallVector<std::string_view, 2> operands;
  std::string_view result;
};

Expected<Equation> parse_equation(const Value& value, size_t num_operands) {
  const std::string_view text = value.equation;
  const auto fail = [&](std::string_view why) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "equation {} of {} {}: write letters as in \"{}\"", quoted(text),
                         quoted(value.name), why, num_operands == 1 ? "mn->n" : "mk,nk->mn");
  };
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) return fail("has no '->'");
  Equation equation;
  equation.result = text.substr(arrow + 2);
  std::string_view rest = text.substr(0, arrow);
  for (size_t comma = rest.find(','); comma != std::string_view::npos; comma = rest.find(',')) {
    equation.operands.push_back(rest.substr(0, comma));
    rest.remove_prefix(comma + 1);
  }
  equation.operands.push_back(rest);
  if (equation.operands.size() != num_operands) {
    return fail(fmt::format("has {} and needs {}", counted(equation.operands.size(), "operand"),
                            num_operands));
  }
  for (std::string_view labels :
       {equation.operands.front(), equation.operands.back(), equation.result}) {
    if (!llvm::all_of(labels, is_letter)) return fail("has a label that is not a letter");
  }
  for (std::string_view labels : equation.operands) {
    if (labels.empty()) return fail("has an operand without labels");
  }
  for (size_t i = 0; i < equation.result.size(); ++i) {
    if (label_index(equation.result.substr(0, i), equation.result[i]) >= 0) {
      return fail(fmt::format("repeats label '{}' in the result", equation.result[i]));
    }
  }
  return equation;
}

Error check_operands(const VerifyContext& context, const Value& value, const Equation& equation) {
  const std::string where = fmt::format("equation \"{}\"", value.equation);
  for (size_t i = 0; i < value.operands.size(); ++i) {
    const Use& use = value.operands[i];
    if (!use.labels.empty()) {
      return make_error_at(value.at, ErrorCode::kInvalidChain,
                           "operand {} of {} has labels: remove '@', the equation "
                           "names its dimensions",
                           quoted(context.name(use.value)), quoted(value.name));
    }
    if (Error e = check_labels(context, value, use.value, equation.operands[i], where)) return e;
  }
  return Error::success();
}

bool is_dequantised_fp8(const VerifyContext& context, ValueId id) {
  const Value& value = context.chain.values[id];
  return value.op == Op::kDequant && is_fp8(context.info[value.operands[0].value].type.dtype);
}

// Operands of fp8 with scales per block are multiplied by each other: `scaled` is one.
Error check_fp8_partner(const VerifyContext& context, const Value& value, ValueId scaled,
                        ValueId other) {
  const auto stored = [&](ValueId id) {
    return context.info[context.chain.values[id].operands[0].value].type.dtype;
  };
  const bool alike = is_dequantised_fp8(context, other) && stored(other) == stored(scaled);
  if (!alike) {
    const bool dequantised = context.chain.values[other].op == Op::kDequant;
    return make_error_at(
        value.at, ErrorCode::kInvalidChain,
        "operand {} of {} is {} and {} is {} with scales: that is multiplied by {} with scales, so "
        "dequant both",
        quoted(context.name(other)), quoted(value.name),
        dequantised ? dtype_text(stored(other)) : dtype_text(context.info[other].type.dtype),
        quoted(context.name(scaled)), dtype_text(stored(scaled)), dtype_text(stored(scaled)));
  }
  if (value.true_f32 || value.fast_accum) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} asks for {} but its operands have scales per block, which are applied "
                         "to sums of fp8 in f32: remove the word after the equation",
                         quoted(value.name), value.true_f32 ? "f32 products" : "fast accumulation");
  }
  return Error::success();
}

// A dequantised weight is multiplied by a 16-bit operand.
Error check_dequant_partner(const VerifyContext& context, const Value& value, ValueId weight,
                            ValueId other) {
  const DType dtype = context.info[other].type.dtype;
  const bool two = context.chain.values[other].op == Op::kDequant;
  if (two || (dtype != DType::kBF16 && dtype != DType::kF16)) {
    return make_error_at(
        value.at, ErrorCode::kInvalidChain,
        "operand {} of {} is {} and {} is a dequantised weight: that is multiplied "
        "by bf16 or f16, so {}",
        quoted(context.name(other)), quoted(value.name), two ? "one, too," : dtype_text(dtype),
        quoted(context.name(weight)),
        two ? "keep one operand in bf16" : "cast the other operand first");
  }
  if (value.true_f32 || value.fast_accum) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} asks for {} but {} is a dequantised weight: remove the word after the "
                         "equation",
                         quoted(value.name), value.true_f32 ? "f32 products" : "fast accumulation",
                         quoted(context.name(weight)));
  }
  return Error::success();
}

// The cast that makes operands of two dtypes one, and loses nothing that was computed from them: to
// the wider dtype, or both to one that has the values of each. A computed value is f32 until it is
// cast, so it is rounded to the other's 16 bits.
std::string missing_cast(const VerifyContext& context, const ValueId (&ids)[2]) {
  const auto of = [&](int side) { return context.info[ids[side]].type.dtype; };
  const int wider = dtype_bytes(of(1)) > dtype_bytes(of(0)) ? 1 : 0;
  const int narrower = 1 - wider;
  if (dtype_bytes(of(0)) == dtype_bytes(of(1)))
    return fmt::format("both to {}", dtype_text(is_fp8(of(0)) ? DType::kBF16 : DType::kF32));
  const Value& value = context.chain.values[ids[wider]];
  const bool computed = value.op != Op::kParameter && value.op != Op::kCast;
  const bool cast_wider = computed && of(wider) == DType::kF32;
  if (cast_wider && is_fp8(of(narrower))) return "both to bf16";
  return fmt::format("{} to {}", quoted(context.name(ids[cast_wider ? wider : narrower])),
                     dtype_text(of(cast_wider ? narrower : wider)));
}

// Both operands must have the same dtype; the message names the cast that is missing.
Error check_contract_dtypes(const VerifyContext& context, const Value& value) {
  const ValueId ids[] = {value.operands[0].value, value.operands[1].value};
  for (const int side : {0, 1}) {
    if (is_dequantised_fp8(context, ids[side]))
      return check_fp8_partner(context, value, ids[side], ids[1 - side]);
  }
  for (const int side : {0, 1}) {
    if (context.chain.values[ids[side]].op == Op::kDequant)
      return check_dequant_partner(context, value, ids[side], ids[1 - side]);
  }
  const DType left = context.info[ids[0]].type.dtype;
  const DType right = context.info[ids[1]].type.dtype;
  if (left != right) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "operands of {} differ in dtype, {} is {} and {} is {}: cast {} first",
                         quoted(value.name), quoted(context.name(ids[0])), dtype_text(left),
                         quoted(context.name(ids[1])), dtype_text(right),
                         missing_cast(context, ids));
  }
  if (value.true_f32 && left != DType::kF32) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} asks for f32 products but its operands are {}: remove the f32 mark or "
                         "cast both operands to f32",
                         quoted(value.name), dtype_text(left));
  }
  if (value.fast_accum && !is_fp8(left)) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} asks for fast accumulation but its operands are {}, whose sums are "
                         "f32 anyway: remove 'fast_accum' or use operands of e4m3 or e5m2",
                         quoted(value.name), dtype_text(left));
  }
  return Error::success();
}

// The group label of a ragged label: only in the right operand (M-grouped) or only in the result
// (K-grouped).
Expected<ContractionLabel> check_ragged(const VerifyContext& context, const Value& value,
                                        const Equation& equation) {
  if (Error e = check_ends(context, value)) return e;
  const RaggedLabel& ragged = *value.ragged;
  const Value& ends = context.chain.values[ragged.ends];
  const char label = ragged.label;
  ContractionLabel group;
  group.label = ragged.group;
  group.left = label_index(equation.operands[0], ragged.group);
  group.right = label_index(equation.operands[1], ragged.group);
  group.result = label_index(equation.result, ragged.group);
  const bool in_left = label_index(equation.operands[0], label) >= 0;
  const bool in_right = label_index(equation.operands[1], label) >= 0;
  const bool in_result = label_index(equation.result, label) >= 0;
  const bool rows =
      in_left && !in_right && in_result && group.left < 0 && group.right >= 0 && group.result < 0;
  const bool terms =
      in_left && in_right && !in_result && group.left < 0 && group.right < 0 && group.result >= 0;
  if (!rows && !terms) {
    return make_error_at(
        value.at, ErrorCode::kInvalidChain,
        "ragged label {} over {} does not fit equation \"{}\" of {}: an M label needs "
        "the group only in the right operand (\"mk,enk->mn\"), a K label only in the result "
        "(\"mn,mk->enk\")",
        quoted({&label, 1}), quoted({&ragged.group, 1}), value.equation, quoted(value.name));
  }
  const Dim groups = ends.type.shape[0];
  if (rows) {
    const ValueId weight = value.operands[1].value;
    const Dim& size = context.info[weight].type.shape[group.right];
    if (size != groups) {
      return make_error_at(value.at, ErrorCode::kInvalidChain,
                           "group {} of {} has size {} in {} but {} holds {} ends: make them equal",
                           quoted({&ragged.group, 1}), quoted(value.name),
                           size_text(context.chain, size), quoted(context.name(weight)),
                           quoted(ends.name), groups.size);
    }
  }
  group.size = groups;
  return group;
}

// One label of the operands -> its class; its size must agree in both operands.
Error classify(const VerifyContext& context, const Value& value, const Equation& equation,
               char label, Contraction& contraction) {
  const ValueId left = value.operands[0].value;
  const ValueId right = value.operands[1].value;
  ContractionLabel entry;
  entry.label = label;
  entry.left = label_index(equation.operands[0], label);
  entry.right = label_index(equation.operands[1], label);
  entry.result = label_index(equation.result, label);
  const bool both = entry.left >= 0 && entry.right >= 0;
  if (!both && entry.result < 0) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "label '{}' of {} appears once in \"{}\": put it into the result, or sum "
                         "{} over it first",
                         label, quoted(value.name), value.equation,
                         quoted(context.name(entry.left >= 0 ? left : right)));
  }
  entry.size = entry.left >= 0 ? context.info[left].type.shape[entry.left]
                               : context.info[right].type.shape[entry.right];
  if (both && entry.size != context.info[right].type.shape[entry.right]) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "label '{}' of {} has size {} in {} and {} in {}: make them equal", label,
                         quoted(value.name), size_text(context.chain, entry.size),
                         quoted(context.name(left)),
                         size_text(context.chain, context.info[right].type.shape[entry.right]),
                         quoted(context.name(right)));
  }
  auto& list = entry.result < 0  ? contraction.k
               : both            ? contraction.batch
               : entry.left >= 0 ? contraction.m
                                 : contraction.n;
  list.push_back(entry);
  return Error::success();
}

// Fills the classes: result labels in the result's order, then K in the left operand's order.
Expected<Contraction> classify_all(const VerifyContext& context, const Value& value,
                                   const Equation& equation) {
  Contraction contraction;
  if (value.ragged) {
    auto group = check_ragged(context, value, equation);
    if (!group) return group.takeError();
    contraction.ragged_group = *group;
  }
  std::string order(equation.result);
  for (std::string_view labels : equation.operands) {
    for (char label : labels) {
      if (label_index(order, label) < 0) order += label;
    }
  }
  for (char label : order) {
    if (value.ragged && label == value.ragged->group) continue;
    if (label_index(equation.operands[0], label) < 0 &&
        label_index(equation.operands[1], label) < 0) {
      return make_error_at(value.at, ErrorCode::kInvalidChain,
                           "label '{}' in the result of {} is in neither operand of \"{}\": remove "
                           "it, or add it to an operand",
                           label, quoted(value.name), value.equation);
    }
    if (Error e = classify(context, value, equation, label, contraction)) return e;
  }
  return contraction;
}

}  // namespace

Error check_labels(const VerifyContext& context, const Value& value, ValueId tensor,
                   std::string_view labels, std::string_view where) {
  const auto fail = [&](std::string_view why, std::string_view fix) {
    return make_error_at(value.at, ErrorCode::kInvalidChain, "{} of {} {} {}: {}", where,
                         quoted(value.name), why, quoted(context.name(tensor)), fix);
  };
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!is_letter(labels[i]))
      return fail("has a label that is not a letter for", "use a-z or A-Z");
    if (label_index(labels.substr(0, i), labels[i]) >= 0) {
      return fail(fmt::format("repeats label '{}' for", labels[i]),
                  "give each dimension a different letter");
    }
  }
  const int rank = context.info[tensor].type.rank();
  if (static_cast<int>(labels.size()) != rank) {
    return fail(fmt::format("has {} for", counted(labels.size(), "label")),
                fmt::format("it has {}, so name each once", counted(rank, "dimension")));
  }
  return Error::success();
}

namespace {

// The static size of dimension `dim`; 0: there is none.
i64 static_size(const TensorType& type, int dim) {
  return dim >= 0 && dim < type.rank() && !type.shape[dim].symbolic ? type.shape[dim].size : 0;
}

// The size of the value's group label in an operand; 0: no operand has it.
i64 group_size(const VerifyContext& context, const Value& value) {
  std::string_view rest = value.equation;
  rest = rest.substr(0, rest.find("->"));
  for (const Use& use : value.operands) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::string_view labels = value.equation.empty() ? use.labels : part;
    const int dim = label_index(labels, value.ragged->group);
    if (const i64 size = static_size(context.info[use.value].type, dim)) return size;
  }
  return 0;
}

// How to declare the ends of the value's ragged label. A parameter that may be them keeps its name.
std::string declared_ends(const VerifyContext& context, const Value& value) {
  const Value& ends = context.chain.values[value.ragged->ends];
  const TensorType& type = ends.type;
  const bool named = ends.op == Op::kParameter && (type.rank() == 1 || type.dtype == DType::kI32);
  i64 groups = group_size(context, value);
  if (groups == 0 && named) groups = static_size(type, 0);
  return fmt::format("{} '{} {}: i32[{}]'", named ? "declare it" : "name one, such as",
                     named && ends.role == Role::kWeight ? "weight" : "input",
                     named ? ends.name : "ends", groups > 0 ? fmt::to_string(groups) : "groups");
}

}  // namespace

Error check_ends(const VerifyContext& context, const Value& value) {
  const RaggedLabel& ragged = *value.ragged;
  const Value& ends = context.chain.values[ragged.ends];
  const TensorType& type = ends.type;
  if (ends.op != Op::kParameter || ends.role == Role::kScalar || type.dtype != DType::kI32 ||
      type.rank() != 1 || type.shape[0].symbolic || type.shape[0].size < 1 ||
      context.info[ragged.ends].type.strides[0] != 1) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "ends {} of {} must be a parameter i32[groups] (static, contiguous, one "
                         "group or more): {}",
                         quoted(ends.name), quoted(value.name), declared_ends(context, value));
  }
  if (type.shape[0].size > kMaxGroups) {
    return make_error_at(value.at, ErrorCode::kResourceLimit,
                         "ends {} of {} hold {} groups: use at most {}", quoted(ends.name),
                         quoted(value.name), type.shape[0].size, kMaxGroups);
  }
  return Error::success();
}

Expected<ValueInfo> check_contract(const VerifyContext& context, const Value& value) {
  auto equation = parse_equation(value, 2);
  if (!equation) return equation.takeError();
  if (Error e = check_operands(context, value, *equation)) return e;
  if (Error e = check_contract_dtypes(context, value)) return e;
  auto contraction = classify_all(context, value, *equation);
  if (!contraction) return contraction.takeError();

  llvm::SmallVector<Dim, 4> shape(equation->result.size());
  for (const auto* labels : {&contraction->batch, &contraction->m, &contraction->n}) {
    for (const ContractionLabel& label : *labels) shape[label.result] = label.size;
  }
  const auto& group = contraction->ragged_group;
  if (group && group->result >= 0) shape[group->result] = group->size;
  auto info = computed_info(context, value, shape, std::string(equation->result));
  if (!info) return info;
  if (group && group->right >= 0) {
    info->rows = GroupedRows{label_index(equation->result, value.ragged->label),
                             value.ragged->group, value.ragged->ends};
  }
  info->contraction = std::move(*contraction);
  return info;
}

// A sum by group: its ragged label is only in the operand, the group only in the result.
Error check_grouped_sum(const VerifyContext& context, const Value& value,
                        const Equation& equation) {
  if (value.op != Op::kSum) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "'{}' of {} is ragged: only a sum is by group, so remove 'ragged'",
                         op_info(value.op).text, quoted(value.name));
  }
  if (Error e = check_ends(context, value)) return e;
  const RaggedLabel& ragged = *value.ragged;
  const std::string_view operand = equation.operands[0];
  const bool fits =
      label_index(operand, ragged.label) >= 0 && label_index(equation.result, ragged.label) < 0 &&
      label_index(operand, ragged.group) < 0 && label_index(equation.result, ragged.group) >= 0;
  if (fits) return Error::success();
  return make_error_at(value.at, ErrorCode::kInvalidChain,
                       "ragged label {} over {} does not fit equation \"{}\" of {}: a sum by group "
                       "has the label only in the operand and the group only in the result "
                       "(\"mn->en\")",
                       quoted({&ragged.label, 1}), quoted({&ragged.group, 1}), value.equation,
                       quoted(value.name));
}

Expected<ValueInfo> check_reduction(const VerifyContext& context, const Value& value) {
  auto equation = parse_equation(value, 1);
  if (!equation) return equation.takeError();
  if (Error e = check_operands(context, value, *equation)) return e;
  std::optional<GroupedTerms> grouped;
  if (value.ragged) {
    if (Error e = check_grouped_sum(context, value, *equation)) return e;
    grouped = GroupedTerms{label_index(equation->operands[0], value.ragged->label),
                           label_index(equation->result, value.ragged->group), value.ragged->ends};
  }
  const std::string_view labels = equation->operands[0];
  const TensorType& operand = context.info[value.operands[0].value].type;
  llvm::SmallVector<Dim, 4> shape;
  llvm::SmallVector<int, 4> map;
  for (char label : equation->result) {
    const int dim = label_index(labels, label);
    const bool is_group = grouped && label == value.ragged->group;
    if (dim < 0 && !is_group) {
      return make_error_at(value.at, ErrorCode::kInvalidChain,
                           "label '{}' in the result of {} is not in the operand of \"{}\": remove "
                           "it",
                           label, quoted(value.name), value.equation);
    }
    map.push_back(dim);
    shape.push_back(is_group ? context.info[grouped->ends].type.shape[0] : operand.shape[dim]);
  }
  if (!grouped && shape.size() == labels.size()) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "equation \"{}\" of {} reduces nothing: leave a label out of the result",
                         value.equation, quoted(value.name));
  }
  auto info = computed_info(context, value, shape, std::string(equation->result));
  if (!info) return info;
  info->operand_dims.push_back(std::move(map));
  for (int i = 0; i < static_cast<int>(labels.size()); ++i) {
    if (label_index(equation->result, labels[i]) < 0) info->summed.push_back(i);
  }
  info->grouped_terms = grouped;
  return info;
}

}  // namespace catenary
