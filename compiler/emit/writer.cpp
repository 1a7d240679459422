// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/writer.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/emit/fields.h"

namespace catenary {
namespace {

template <class Array, class Same>
std::string right_aligned(const char* name, const Array& values, Same is_default) {
  int first = 0;
  while (first < kMaxDims && is_default(values[first])) ++first;
  std::string text;
  for (int i = first; i < kMaxDims; ++i) {
    text += (text.empty() ? "" : ", ") + cpp_text(values[i]);
  }
  return fmt::format("{}({})", name, text);
}

}  // namespace

std::string cpp_text(bool value) { return value ? "true" : "false"; }
std::string cpp_text(i32 value) { return fmt::to_string(value); }
std::string cpp_text(i64 value) { return fmt::to_string(value); }

std::string cpp_text(float value) {
  if (std::isinf(value)) return value > 0 ? "bits_to_f32(0x7f800000u)" : "bits_to_f32(0xff800000u)";
  if (value == std::floor(value) && std::fabs(value) < 1e6f && !std::signbit(value)) {
    return fmt::format("{:.1f}f", value);
  }
  return fmt::format("{:a}f", value);
}

std::string cpp_text(DType dtype) {
  switch (dtype) {
#define CATENARY_DTYPE(id, text, bits, kind, fraction, min_exponent) \
  case DType::id:                                                    \
    return "DType::" #id;
#include "shared/dtype.def"
#undef CATENARY_DTYPE
  }
  return "";
}

std::string cpp_text(MathMode math) {
  switch (math) {
#define CATENARY_MATH(id, text, bytes, mma_k, wgmma_k, k_major, promote_k) \
  case MathMode::id:                                                       \
    return "MathMode::" #id;
#include "shared/math.def"
#undef CATENARY_MATH
  }
  return "";
}

std::string cpp_text(Ragged ragged) {
  switch (ragged) {
    case Ragged::kNone:
      return "Ragged::kNone";
    case Ragged::kMGrouped:
      return "Ragged::kMGrouped";
    case Ragged::kKGrouped:
      return "Ragged::kKGrouped";
  }
  return "";
}

std::string cpp_text(ReduceOp op) {
  return op == ReduceOp::kSum ? "ReduceOp::kSum" : "ReduceOp::kMax";
}

std::string cpp_text(const Dims& dims) {
  return right_aligned("dims", dims.at, [](i64 step) { return step == 0; });
}

std::string cpp_text(const Extents& extents) {
  return right_aligned("extents", extents.at, [](const Extent& e) { return e == Extent(1); });
}

std::string cpp_text(const Extent& extent) {
  if (extent.scale == 0) return fmt::to_string(extent.size);
  return fmt::format("Extent({}, {})", extent.size, extent.scale);
}

std::string cpp_text(const Operand& o) {
  const Operand d;
  Fields fields;
  fields.add("slot", o.slot).add("dtype", o.dtype).add_unless_default("vec", o.vec, d.vec);
  fields.add_unless_default("streamed", o.streamed, d.streamed)
      .add_unless_default("weight", o.weight, d.weight);
  fields.add_unless_default("before_wait", o.before_wait, d.before_wait)
      .add_unless_default("by_group", o.by_group, d.by_group)
      .add_unless_default("map", o.map, d.map)
      .add_unless_default("rows", o.rows, d.rows)
      .add_unless_default("columns", o.columns, d.columns)
      .add_unless_default("period", o.period, d.period);
  fields.add_unless_default("stride_group", o.stride_group, d.stride_group);
  fields.add_unless_default("stride", o.stride, d.stride);
  return "Operand" + fields.braces();
}

}  // namespace catenary
