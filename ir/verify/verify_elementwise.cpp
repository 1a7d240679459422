// SPDX-License-Identifier: Apache-2.0
// Rules of elementwise ops and cast: attributes and broadcasting. An operand whose use has labels
// is aligned by them, any other by its trailing dimensions. A size of 1 broadcasts in both cases.
// Where the rows of the result are grouped, by its operands or by a ragged label of its own, one
// label of an operand may be that of the group.
#include <algorithm>
#include <cmath>

#include "ir/names.h"
#include "ir/verify/verify_parts.h"

namespace catenary {
namespace {

Error check_attributes(const Value& value) {
  if (value.op == Op::kClamp && value.attributes[0] > value.attributes[1]) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "clamp {} has lo {} above hi {}: swap them", quoted(value.name),
                         value.attributes[0], value.attributes[1]);
  }
  const double exponent = value.attributes[0];
  if (value.op == Op::kPow && (std::fabs(exponent) > 64 || exponent != std::nearbyint(exponent))) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "pow {} has exponent {}: give a whole number from -64 to 64",
                         quoted(value.name), exponent);
  }
  if (value.op == Op::kCast && dtype_info(value.type.dtype).kind != DTypeKind::kFloat) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "cast {} is to {}: cast to bf16, f16, f32, e4m3 or e5m2",
                         quoted(value.name), dtype_text(value.type.dtype));
  }
  return Error::success();
}

// The labels of `use`: its own, else those of its value.
std::string_view labels_of(const VerifyContext& context, const Use& use) {
  return use.labels.empty() ? context.info[use.value].labels : use.labels;
}

// The label of the group of the result's rows; 0: its rows are of no known group.
char group_label(const VerifyContext& context, const Value& value) {
  if (value.ragged) return value.ragged->group;
  for (const Use& use : value.operands) {
    const auto& rows = context.info[use.value].rows;
    if (rows && label_index(labels_of(context, use), rows->group) < 0) return rows->group;
  }
  return 0;
}

// The dimensions of the operand that are dimensions of the result.
int rank_in_result(const VerifyContext& context, const Use& use, char group) {
  const bool by_group = group != 0 && label_index(use.labels, group) >= 0;
  return context.info[use.value].type.rank() - (by_group ? 1 : 0);
}

// Labels of the result: those of the first operand of full rank that has labels.
std::string result_labels(const VerifyContext& context, const Value& value, int rank, char group) {
  for (const Use& use : value.operands) {
    if (context.info[use.value].type.rank() != rank) continue;
    if (rank_in_result(context, use, group) != rank) continue;
    const std::string_view labels = labels_of(context, use);
    if (!labels.empty()) return std::string(labels);
  }
  return "";
}

// The ragged label of the value itself is one of the result, the group is not.
Error check_ragged(const VerifyContext& context, const Value& value, std::string_view labels) {
  if (Error e = check_ends(context, value)) return e;
  const RaggedLabel& ragged = *value.ragged;
  if (label_index(labels, ragged.label) >= 0 && label_index(labels, ragged.group) < 0)
    return Error::success();
  return make_error_at(value.at, ErrorCode::kInvalidChain,
                       "ragged label {} over {} does not fit the labels \"{}\" of {}: the label is "
                       "one of them, and the group is not (mul(x @ \"mn\", s @ \"e\") ragged m by "
                       "ends over e)",
                       quoted({&ragged.label, 1}), quoted({&ragged.group, 1}), labels,
                       quoted(value.name));
}

// The grouped rows of the result: by its ragged label, else those of its operands of full rank,
// which must agree. An operand that is aligned by labels may have its dimensions in another order.
std::optional<GroupedRows> result_rows(const VerifyContext& context, const Value& value,
                                       std::string_view labels, int rank) {
  if (value.ragged) {
    return GroupedRows{label_index(labels, value.ragged->label), value.ragged->group,
                       value.ragged->ends};
  }
  std::optional<GroupedRows> result;
  for (const Use& use : value.operands) {
    const ValueInfo& operand = context.info[use.value];
    if (operand.type.rank() != rank || !operand.rows) continue;
    GroupedRows rows = *operand.rows;
    if (!use.labels.empty()) rows.dim = label_index(labels, use.labels[rows.dim]);
    if (rows.dim < 0 || (result && *result != rows)) return std::nullopt;
    result = rows;
  }
  return result;
}

// Where an operand is in the result.
struct Placement {
  llvm::SmallVector<int, 4> dims;  // for each dimension of the result, the operand's, or -1
  int group = -1;                  // the operand's dimension that takes the group of the row
};

// The ends hold one end for each index of the operand's dimension `dim`.
Error check_group(const VerifyContext& context, const Value& value, const Use& use, int dim,
                  const GroupedRows& rows) {
  const Dim& size = context.info[use.value].type.shape[dim];
  const Dim& groups = context.info[rows.ends].type.shape[0];
  if (size == groups) return Error::success();
  return make_error_at(value.at, ErrorCode::kInvalidChain,
                       "label '{}' of {} has size {} but {} holds {} ends: give {} one entry for "
                       "each group",
                       rows.group, quoted(context.name(use.value)), size_text(context.chain, size),
                       quoted(context.name(rows.ends)), groups.size,
                       quoted(context.name(use.value)));
}

// `labels` has `rank` letters or none.
Expected<Placement> place_operand(const VerifyContext& context, const Value& value, const Use& use,
                                  std::string_view labels, const std::optional<GroupedRows>& rows,
                                  int rank) {
  const int operand_rank = context.info[use.value].type.rank();
  Placement placement;
  placement.dims.assign(rank, -1);
  if (use.labels.empty()) {
    for (int i = 0; i < operand_rank; ++i) placement.dims[rank - operand_rank + i] = i;
    return placement;
  }
  for (int i = 0; i < operand_rank; ++i) {
    const int dim = label_index(labels, use.labels[i]);
    if (dim < 0 && rows && use.labels[i] == rows->group) {
      if (Error e = check_group(context, value, use, i, *rows)) return e;
      placement.group = i;
      continue;
    }
    if (dim < 0) {
      return make_error_at(value.at, ErrorCode::kInvalidChain,
                           "label '{}' of {} is not among the labels \"{}\" of {}: {}",
                           use.labels[i], quoted(context.name(use.value)), labels,
                           quoted(value.name),
                           labels.empty() ? "name the dimensions of the larger operand with '@' too"
                                          : "use one of them");
    }
    placement.dims[dim] = i;
  }
  return placement;
}

// How operand `id` of one dimension, of `size` elements, can be aligned with another dimension of
// this size; empty where no operand of full rank has one.
std::string alignment_hint(const VerifyContext& context, const Value& value, ValueId id,
                           const Dim& size, std::string_view labels,
                           llvm::ArrayRef<llvm::SmallVector<int, 4>> maps) {
  if (context.info[id].type.rank() != 1) return "";
  for (size_t i = 0; i < maps.size(); ++i) {
    const ValueId other = value.operands[i].value;
    if (other == id || llvm::is_contained(maps[i], -1)) continue;
    for (size_t d = 0; d < maps[i].size(); ++d) {
      if (context.info[other].type.shape[maps[i][d]] != size) continue;
      const std::string name = escaped(context.name(id));
      if (!labels.empty()) return fmt::format(", or align it as in {} @ \"{}\"", name, labels[d]);
      std::string letters;
      for (size_t l = 0; l < maps[i].size(); ++l) letters += static_cast<char>('m' + l);
      return fmt::format(", or align them as in {} @ \"{}\" and {} @ \"{}\"",
                         escaped(context.name(other)), letters, name, letters[d]);
    }
  }
  return "";
}

// The size that all operands agree on in each dimension.
Expected<llvm::SmallVector<Dim, 4>> common_shape(const VerifyContext& context, const Value& value,
                                                 int rank, std::string_view labels,
                                                 llvm::ArrayRef<llvm::SmallVector<int, 4>> maps) {
  const Dim one{1, false};
  llvm::SmallVector<Dim, 4> shape(rank, one);
  llvm::SmallVector<ValueId, 4> source(rank, -1);  // the value that the size is from
  for (size_t i = 0; i < maps.size(); ++i) {
    const ValueId id = value.operands[i].value;
    for (int d = 0; d < rank; ++d) {
      if (maps[i][d] < 0) continue;
      const Dim& size = context.info[id].type.shape[maps[i][d]];
      if (size == one || size == shape[d]) continue;
      if (source[d] >= 0) {
        return make_error_at(value.at, ErrorCode::kInvalidChain,
                             "dimension {} of {} has size {} in {} and {} in {}: make them equal{}",
                             d, quoted(value.name), size_text(context.chain, shape[d]),
                             quoted(context.name(source[d])), size_text(context.chain, size),
                             quoted(context.name(id)),
                             alignment_hint(context, value, id, size, labels, maps));
      }
      shape[d] = size;
      source[d] = id;
    }
  }
  return shape;
}

// False: a larger operand repeats rows, which then do not belong to the groups of the ends.
bool keeps_rows(const VerifyContext& context, const Value& value, const GroupedRows& rows,
                llvm::ArrayRef<Dim> shape, llvm::ArrayRef<llvm::SmallVector<int, 4>> maps) {
  for (size_t i = 0; i < maps.size(); ++i) {
    const ValueInfo& operand = context.info[value.operands[i].value];
    if (operand.rows && maps[i][rows.dim] == operand.rows->dim &&
        operand.type.shape[operand.rows->dim] != shape[rows.dim]) {
      return false;
    }
  }
  return true;
}

Error check_scale(const VerifyContext& context, const Value& value) {
  if (value.op != Op::kScale) return Error::success();
  const ValueId factor = value.operands[1].value;
  if (context.info[factor].type.rank() == 0) return Error::success();
  return make_error_at(
      value.at, ErrorCode::kInvalidChain,
      "scale {} has factor {} with {} dimensions: the factor is one number, so use "
      "mul instead",
      quoted(value.name), quoted(context.name(factor)), context.info[factor].type.rank());
}

}  // namespace

Expected<ValueInfo> check_elementwise(const VerifyContext& context, const Value& value) {
  if (Error e = check_attributes(value)) return e;
  if (Error e = check_scale(context, value)) return e;
  const char group = group_label(context, value);
  int rank = 0;
  for (const Use& use : value.operands) {
    rank = std::max(rank, rank_in_result(context, use, group));
    if (use.labels.empty()) continue;
    const std::string where = fmt::format("'@ \"{}\"'", escaped(use.labels));
    if (Error e = check_labels(context, value, use.value, use.labels, where)) return e;
  }
  std::string labels = result_labels(context, value, rank, group);
  if (value.ragged) {
    if (Error e = check_ragged(context, value, labels)) return e;
  }
  std::optional<GroupedRows> rows = result_rows(context, value, labels, rank);
  llvm::SmallVector<llvm::SmallVector<int, 4>, 2> maps;
  llvm::SmallVector<int, 2> groups;
  for (const Use& use : value.operands) {
    auto placement = place_operand(context, value, use, labels, rows, rank);
    if (!placement) return placement.takeError();
    maps.push_back(std::move(placement->dims));
    groups.push_back(placement->group);
  }
  auto shape = common_shape(context, value, rank, labels, maps);
  if (!shape) return shape.takeError();
  if (rows && !value.ragged && !keeps_rows(context, value, *rows, *shape, maps)) {
    if (llvm::any_of(groups, [](int dim) { return dim >= 0; })) {
      return make_error_at(value.at, ErrorCode::kInvalidChain,
                           "{} takes an operand by group '{}' but repeats the grouped row over {} "
                           "rows: apply that operand first",
                           quoted(value.name), rows->group,
                           size_text(context.chain, (*shape)[rows->dim]));
    }
    rows.reset();
  }
  auto info = computed_info(context, value, *shape, std::move(labels));
  if (!info) return info;
  for (size_t i = 0; i < maps.size(); ++i) {
    const TensorType& operand = context.info[value.operands[i].value].type;
    for (int d = 0; d < rank; ++d) {
      if (maps[i][d] >= 0 && operand.shape[maps[i][d]] != (*shape)[d]) maps[i][d] = -1;
    }
  }
  info->operand_dims = std::move(maps);
  info->operand_group = std::move(groups);
  info->rows = rows;
  return info;
}

}  // namespace catenary
