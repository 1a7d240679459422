// SPDX-License-Identifier: Apache-2.0
// Rules of elementwise ops and cast: attributes and broadcasting. An operand whose use has labels
// is aligned by them, any other by its trailing dimensions. A size of 1 broadcasts in both cases.
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
                         "cast {} is to {}: cast to bf16, f16 or f32", quoted(value.name),
                         dtype_text(value.type.dtype));
  }
  return Error::success();
}

// The labels of `use`: its own, else those of its value.
std::string_view labels_of(const VerifyContext& context, const Use& use) {
  return use.labels.empty() ? context.info[use.value].labels : use.labels;
}

// Labels of the result: those of the first operand of full rank that has labels.
std::string result_labels(const VerifyContext& context, const Value& value, int rank) {
  for (const Use& use : value.operands) {
    if (context.info[use.value].type.rank() != rank) continue;
    const std::string_view labels = labels_of(context, use);
    if (!labels.empty()) return std::string(labels);
  }
  return "";
}

// For each dimension of the result, the operand's dimension, or -1.
// `labels` has `rank` letters or none.
Expected<llvm::SmallVector<int, 4>> place_operand(const VerifyContext& context, const Value& value,
                                                  const Use& use, std::string_view labels,
                                                  int rank) {
  const int operand_rank = context.info[use.value].type.rank();
  llvm::SmallVector<int, 4> map(rank, -1);
  if (use.labels.empty()) {
    for (int i = 0; i < operand_rank; ++i) map[rank - operand_rank + i] = i;
    return map;
  }
  for (int i = 0; i < operand_rank; ++i) {
    const int dim = label_index(labels, use.labels[i]);
    if (dim < 0) {
      return make_error_at(value.at, ErrorCode::kInvalidChain,
                           "label '{}' of {} is not among the labels \"{}\" of {}: {}",
                           use.labels[i], quoted(context.name(use.value)), labels,
                           quoted(value.name),
                           labels.empty() ? "name the dimensions of the larger operand with '@' too"
                                          : "use one of them");
    }
    map[dim] = i;
  }
  return map;
}

// The size that all operands agree on in each dimension.
Expected<llvm::SmallVector<Dim, 4>> common_shape(const VerifyContext& context, const Value& value,
                                                 int rank,
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
        return make_error_at(
            value.at, ErrorCode::kInvalidChain,
            "dimension {} of {} has size {} in {} and {} in {}: make them equal, or "
            "align an operand by labels as in {} @ \"m\"",
            d, quoted(value.name), size_text(context.chain, shape[d]),
            quoted(context.name(source[d])), size_text(context.chain, size),
            quoted(context.name(id)), escaped(context.name(id)));
      }
      shape[d] = size;
      source[d] = id;
    }
  }
  return shape;
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
  int rank = 0;
  for (const Use& use : value.operands) {
    rank = std::max(rank, context.info[use.value].type.rank());
    if (use.labels.empty()) continue;
    const std::string where = fmt::format("'@ \"{}\"'", escaped(use.labels));
    if (Error e = check_labels(context, value, use.value, use.labels, where)) return e;
  }
  std::string labels = result_labels(context, value, rank);
  llvm::SmallVector<llvm::SmallVector<int, 4>, 2> maps;
  for (const Use& use : value.operands) {
    auto map = place_operand(context, value, use, labels, rank);
    if (!map) return map.takeError();
    maps.push_back(std::move(*map));
  }
  auto shape = common_shape(context, value, rank, maps);
  if (!shape) return shape.takeError();

  auto info = computed_info(context, value, *shape, std::move(labels));
  if (!info) return info;
  for (size_t i = 0; i < maps.size(); ++i) {
    const TensorType& operand = context.info[value.operands[i].value].type;
    for (int d = 0; d < rank; ++d) {
      if (maps[i][d] >= 0 && operand.shape[maps[i][d]] != (*shape)[d]) maps[i][d] = -1;
    }
  }
  info->operand_dims = std::move(maps);
  return info;
}

}  // namespace catenary
