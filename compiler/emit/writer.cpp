// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/writer.h"

#include <fmt/format.h>

#include <cmath>

namespace catenary {
namespace {

// ".a = 1, .b = 2": fields that differ from the struct's default.
class Fields {
 public:
  template <class T>
  Fields& add(const char* name, const T& value, const T& standard) {
    if (!(value == standard)) append(name, text(value));
    return *this;
  }
  // The fields added next start a new line.
  Fields& line() {
    if (!text_.empty() && text_.back() != '\n') text_ += "\n";
    fresh_ = true;
    return *this;
  }
  const std::string& str() const { return text_; }

 private:
  static std::string text(bool value) { return value ? "true" : "false"; }
  static std::string text(i32 value) { return fmt::to_string(value); }
  static std::string text(i64 value) { return fmt::to_string(value); }
  static std::string text(MathMode math) {
    constexpr const char* kNames[] = {"kBF16", "kF16", "kTF32", "kF32"};
    return fmt::format("MathMode::{}", kNames[static_cast<int>(math)]);
  }
  static std::string text(Ragged ragged) {
    constexpr const char* kNames[] = {"kNone", "kMGrouped", "kKGrouped"};
    return fmt::format("Ragged::{}", kNames[static_cast<int>(ragged)]);
  }
  template <class T>
  static std::string text(const T& value) {
    return cpp_text(value);
  }

  void append(const char* name, const std::string& value) {
    if (fresh_) {
      text_ += "    ";
    } else if (!text_.empty()) {
      text_ += " ";
    }
    fresh_ = false;
    text_ += fmt::format(".{} = {},", name, value);
  }

  std::string text_;
  bool fresh_ = false;
};

// "{.a = 1, .b = 2}" from fields on one line.
std::string braces(const Fields& fields) {
  std::string text = fields.str();
  if (!text.empty()) text.pop_back();
  return "{" + text + "}";
}

template <class Array, class Same>
std::string right_aligned(const char* name, const Array& values, Same is_default) {
  int first = 0;
  while (first < kMaxDims && is_default(values[first])) ++first;
  std::string text;
  for (int i = first; i < kMaxDims; ++i) {
    text += (text.empty() ? "" : ", ");
    if constexpr (std::is_same_v<std::decay_t<decltype(values[i])>, Extent>) {
      text += cpp_text(values[i]);
    } else {
      text += fmt::to_string(values[i]);
    }
  }
  return fmt::format("{}({})", name, text);
}

}  // namespace

std::string cpp_text(DType dtype) {
  switch (dtype) {
#define CATENARY_DTYPE(id, text, bits, kind, fraction) \
  case DType::id:                                      \
    return "DType::" #id;
#include "shared/dtype.def"
#undef CATENARY_DTYPE
  }
  return "";
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

std::string cpp_text(float value) {
  if (std::isinf(value)) return value > 0 ? "bits_to_f32(0x7f800000u)" : "bits_to_f32(0xff800000u)";
  if (value == std::floor(value) && std::fabs(value) < 1e6f && !std::signbit(value)) {
    return fmt::format("{:.1f}f", value);
  }
  return fmt::format("{:a}f", value);
}

std::string cpp_text(const Operand& o) {
  const Operand d;
  Fields fields;
  fields.add("slot", o.slot, -1).add("dtype", o.dtype, static_cast<DType>(255));
  fields.add("vec", o.vec, d.vec).add("streamed", o.streamed, d.streamed);
  fields.add("weight", o.weight, d.weight)
      .add("before_wait", o.before_wait, d.before_wait)
      .add("map", o.map, d.map);
  fields.add("stride", o.stride, d.stride);
  return "Operand" + braces(fields);
}

std::string cpp_text(const MatrixOperand& o) {
  const MatrixOperand d;
  Fields fields;
  fields.add("slot", o.slot, -1).add("stride_row", o.stride_row, d.stride_row);
  fields.add("stride_k", o.stride_k, d.stride_k)
      .add("stride_outer", o.stride_outer, d.stride_outer);
  fields.add("stride_group", o.stride_group, d.stride_group);
  fields.add("stride_batch", o.stride_batch, d.stride_batch).add("k_major", o.k_major, d.k_major);
  fields.add("copy_bytes", o.copy_bytes, -1);
  return braces(fields);
}

std::string cpp_text(const PointwiseConfig& c) {
  Fields fields;
  fields.line().add("size", c.size, PointwiseConfig().size);
  fields.line().add("vec", c.vec, -1).add("unroll", c.unroll, -1).add("threads", c.threads, -1);
  return fields.str();
}

std::string cpp_text(const ReduceConfig& c) {
  Fields fields;
  fields.line().add("size", c.size, ReduceConfig().size).add("term_rank", c.term_rank, -1);
  fields.line().add("sums", c.sums, -1).add("vec", c.vec, -1).add("lanes", c.lanes, -1);
  fields.add("slices", c.slices, -1);
  return fields.str();
}

std::string cpp_text(const GemmSm80Config& c) {
  const GemmSm80Config d;
  Fields fields;
  fields.line().add("math", c.math, static_cast<MathMode>(255)).add("batch", c.batch, d.batch);
  fields.add("batch_rank", c.batch_rank, d.batch_rank);
  fields.line().add("m", c.m, Extent(-1)).add("n", c.n, Extent(-1)).add("k", c.k, Extent(-1));
  fields.add("k_outer", c.k_outer, d.k_outer);
  fields.line().add("a", c.a, MatrixOperand{.slot = -1});
  fields.line().add("b", c.b, MatrixOperand{.slot = -1});
  if (c.dual) fields.line().add("b2", c.b2, MatrixOperand{.slot = -1});
  if (c.dual) fields.add("dual", c.dual, false);
  fields.add("trigger_early", c.trigger_early, d.trigger_early);
  fields.line().add("block_m", c.block_m, -1).add("block_n", c.block_n, -1);
  fields.add("block_k", c.block_k, -1).add("warps_m", c.warps_m, -1).add("warps_n", c.warps_n, -1);
  fields.add("stages", c.stages, -1);
  fields.line()
      .add("split_k", c.split_k, -1)
      .add("tile_swizzle", c.tile_swizzle, -1)
      .add("vec", c.vec, -1);
  if (c.ragged != Ragged::kNone) {
    fields.line()
        .add("ragged", c.ragged, Ragged::kNone)
        .add("group_ends_slot", c.group_ends_slot, -1);
    fields.add("num_groups", c.num_groups, i64{-1});
  }
  return fields.str();
}

std::string cpp_text(const SkinnyConfig& c) {
  const SkinnyConfig d;
  Fields fields;
  fields.line().add("math", c.math, static_cast<MathMode>(255)).add("batch", c.batch, d.batch);
  fields.add("batch_rank", c.batch_rank, d.batch_rank);
  fields.line()
      .add("m", c.m, Extent(-1))
      .add("n", c.n, Extent(-1))
      .add("k_blocks", c.k_blocks, i64{-1});
  fields.line().add("x", c.x, MatrixOperand{.slot = -1});
  fields.line().add("w", c.w, MatrixOperand{.slot = -1});
  if (c.dual) fields.line().add("w2", c.w2, MatrixOperand{.slot = -1});
  if (c.dual) fields.add("dual", c.dual, false);
  fields.add("w_is_weight", c.w_is_weight, d.w_is_weight).add("bulk", c.bulk, d.bulk);
  fields.add("ragged", c.ragged, d.ragged);
  fields.line().add("warps_k", c.warps_k, -1).add("warps_n", c.warps_n, -1);
  fields.add("row_tiles", c.row_tiles, d.row_tiles);
  fields.add("shared_blocks", c.shared_blocks, -1).add("register_blocks", c.register_blocks, -1);
  fields.line().add("columns", c.columns, -1).add("copy_groups", c.copy_groups, -1);
  fields.add("x_chunks", c.x_chunks, -1).add("x_columns", c.x_columns, -1);
  fields.add("split_k", c.split_k, -1);
  fields.add("cluster_k", c.cluster_k, d.cluster_k).add("vec", c.vec, -1);
  if (c.ragged != Ragged::kNone) {
    fields.line().add("group_ends_slot", c.group_ends_slot, -1);
    fields.add("num_groups", c.num_groups, i64{-1});
  }
  return fields.str();
}

std::string cpp_text(const Sm90Operand& m) {
  const Sm90Operand d;
  Fields fields;
  if (m.by_cp_async) {
    fields.add("k_major", m.k_major, d.k_major).add("weight", m.weight, d.weight);
    fields.add("by_cp_async", m.by_cp_async, d.by_cp_async).add("memory", m.memory, d.memory);
    return braces(fields);
  }
  fields.add("map", m.map, -1).add("k_major", m.k_major, d.k_major);
  fields.add("weight", m.weight, d.weight).add("coord2", m.coord2, d.coord2);
  fields.add("coord3", m.coord3, d.coord3).add("coord4", m.coord4, d.coord4);
  return braces(fields);
}

std::string cpp_text(const GemmSm90Config& c) {
  const GemmSm90Config d;
  Fields fields;
  fields.line().add("math", c.math, static_cast<MathMode>(255)).add("batch", c.batch, d.batch);
  fields.add("batch_rank", c.batch_rank, d.batch_rank);
  fields.line().add("m", c.m, Extent(-1)).add("n", c.n, Extent(-1)).add("k", c.k, Extent(-1));
  fields.add("k_outer", c.k_outer, d.k_outer);
  fields.line().add("a", c.a, Sm90Operand{.map = -1});
  fields.line().add("b", c.b, Sm90Operand{.map = -1});
  if (c.dual) fields.line().add("b2", c.b2, Sm90Operand{.map = -1});
  if (c.dual) fields.add("dual", c.dual, false);
  fields.line().add("ping_pong", c.ping_pong, d.ping_pong);
  fields.add("block_m", c.block_m, -1).add("block_n", c.block_n, -1);
  fields.add("consumers", c.consumers, -1).add("stages", c.stages, -1);
  fields.add("a_rows", c.a_rows, d.a_rows).add("cluster_m", c.cluster_m, d.cluster_m);
  fields.add("cluster_n", c.cluster_n, d.cluster_n);
  fields.add("cluster_k", c.cluster_k, d.cluster_k);
  fields.add("ctas_per_sm", c.ctas_per_sm, d.ctas_per_sm);
  fields.line()
      .add("split_k", c.split_k, -1)
      .add("tile_swizzle", c.tile_swizzle, -1)
      .add("vec", c.vec, -1);
  fields.add("register_epilogue", c.register_epilogue, d.register_epilogue);
  if (c.ragged != Ragged::kNone) {
    fields.line()
        .add("ragged", c.ragged, Ragged::kNone)
        .add("group_ends_slot", c.group_ends_slot, -1);
    fields.add("num_groups", c.num_groups, i64{-1});
  }
  return fields.str();
}

}  // namespace catenary
