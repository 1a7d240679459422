// SPDX-License-Identifier: Apache-2.0
// Rules of one tensor type: sizes, bytes, strides, alignment, overlap.
#include <algorithm>

#include "ir/counted.h"
#include "ir/default_strides.h"
#include "ir/names.h"
#include "ir/verify/verify_parts.h"
#include "llvm/Support/MathExtras.h"

namespace catenary {

std::string size_text(const Chain& chain, const Dim& dim) {
  if (dim.symbolic && chain.symbol) return chain.symbol->name;
  return fmt::to_string(dim.size);
}

Error check_shape(const Chain& chain, const TensorType& type, std::string_view who, Location at) {
  if (type.rank() > kMaxRank) {
    return make_error_at(at, ErrorCode::kResourceLimit,
                         "{} has {} dimensions: merge some, at most {} are allowed", who,
                         type.rank(), kMaxRank);
  }
  const i64 limit = kMaxTensorBytes / dtype_bytes(type.dtype);  // of 4 bits: half as many
  i64 elements = 1;
  for (int i = 0; i < type.rank(); ++i) {
    const Dim& dim = type.shape[i];
    if (dim.symbolic && !chain.symbol) {
      return make_error_at(
          at, ErrorCode::kInvalidChain,
          "dimension {} of {} is symbolic but the chain has no symbol: declare one "
          "with its range",
          i, who);
    }
    if (dim.size < 0) {
      return make_error_at(at, ErrorCode::kInvalidChain,
                           "dimension {} of {} has size {}: a size is 0 or more", i, who, dim.size);
    }
    if (dim.size > kMaxDimSize) {
      return make_error_at(at, ErrorCode::kResourceLimit,
                           "dimension {} of {} has size {}: make it at most 2^40", i, who,
                           dim.size);
    }
    // An empty dimension counts as 1, so that no partial product overflows.
    const i64 size = std::max<i64>(dim.size, 1);
    if (elements > limit / size) {
      return make_error_at(at, ErrorCode::kResourceLimit,
                           "{} has more than 2^46 bytes: make its sizes smaller", who);
    }
    elements *= size;
  }
  return Error::success();
}

namespace {

Error check_strides(const TensorType& type, std::string_view who, Location at) {
  if (static_cast<int>(type.strides.size()) != type.rank()) {
    return make_error_at(at, ErrorCode::kInvalidChain,
                         "{} has {} and {}: give one stride per dimension", who,
                         counted(type.strides.size(), "stride"), counted(type.rank(), "dimension"));
  }
  const i64 limit = kMaxTensorBytes / dtype_bytes(type.dtype);
  i64 last = 0;
  for (int i = 0; i < type.rank(); ++i) {
    const i64 stride = type.strides[i];
    if (stride < 0) {
      return make_error_at(at, ErrorCode::kInvalidChain,
                           "dimension {} of {} has stride {}: a stride is 0 or more elements", i,
                           who, stride);
    }
    const i64 steps = std::max<i64>(type.shape[i].size, 1) - 1;
    if (stride > 0 && steps > (limit - 1 - last) / stride) {
      return make_error_at(at, ErrorCode::kResourceLimit,
                           "{} spans more than 2^46 bytes with stride {} of dimension {}: make it "
                           "smaller",
                           who, stride, i);
    }
    // The stride of a dimension of size 0 or 1 addresses no element, but planners multiply by it.
    if (stride > limit) {
      return make_error_at(at, ErrorCode::kResourceLimit,
                           "dimension {} of {} has stride {}: make it at most {} elements (2^46 "
                           "bytes), also where its size is 0 or 1",
                           i, who, stride, limit);
    }
    last += steps * stride;
  }
  return Error::success();
}

}  // namespace

Error check_layout(const Chain& chain, TensorType& type, std::string_view who, Location at) {
  const i64 least = dtype_bytes(type.dtype);
  if (type.align < least || type.align > 4096 || !llvm::isPowerOf2_64(type.align)) {
    return make_error_at(at, ErrorCode::kInvalidChain,
                         "{} has align {}: give a power of two from {} (one element) to 4096 bytes",
                         who, type.align, least);
  }
  if (!type.strides.empty()) return check_strides(type, who, at);
  if (const int dim = inner_symbolic_dim(type.shape); dim >= 0) {
    return make_error_at(
        at, ErrorCode::kInvalidChain,
        "default strides of {} would depend on {}, its dimension {}: make that the "
        "outermost dimension of a size above 1, or give strides",
        who, chain.symbol->name, dim);
  }
  type.strides = contiguous_strides(type.shape);
  return Error::success();
}

Error check_no_overlap(const TensorType& type, std::string_view who, Location at) {
  llvm::SmallVector<int, 8> order;
  for (int i = 0; i < type.rank(); ++i) {
    if (type.shape[i].size == 0) return Error::success();
    if (type.shape[i].size > 1) order.push_back(i);
  }
  llvm::stable_sort(order, [&](int a, int b) { return type.strides[a] < type.strides[b]; });
  i64 span = 1;  // elements that the inner dimensions span
  for (int i : order) {
    if (type.strides[i] < span) {
      return make_error_at(at, ErrorCode::kInvalidChain,
                           "{} overlaps itself: the stride of dimension {} is {} and must be at "
                           "least {}",
                           who, i, type.strides[i], span);
    }
    span += (type.shape[i].size - 1) * type.strides[i];
  }
  return Error::success();
}

Expected<ValueInfo> check_parameter(const VerifyContext& context, const Value& value) {
  const std::string who = fmt::format("parameter {}", quoted(value.name));
  const TensorType& type = value.type;
  if (value.role == Role::kScalar && (type.dtype != DType::kF32 || type.rank() != 0)) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "scalar {} has type {}: a scalar is f32 without dimensions, so declare it "
                         "'scalar {}: f32', or as an input",
                         quoted(value.name), to_string(type), escaped(value.name));
  }
  ValueInfo info;
  info.type = type;
  if (Error e = check_shape(context.chain, type, who, value.at)) return e;
  if (type.packed) {
    if (Error e = check_packed(type, who, value.at)) return e;
  }
  if (Error e = check_layout(context.chain, info.type, who, value.at)) return e;
  if (Error e = check_nibbles(info.type, who, value.at)) return e;
  return info;
}

Expected<ValueInfo> computed_info(const VerifyContext& context, const Value& value,
                                  llvm::ArrayRef<Dim> shape, std::string labels) {
  ValueInfo info;
  if (value.op == Op::kCast) info.type.dtype = value.type.dtype;
  info.type.shape.assign(shape.begin(), shape.end());
  info.labels = std::move(labels);
  const std::string who = fmt::format("value {}", quoted(value.name));
  if (Error e = check_shape(context.chain, info.type, who, value.at)) return e;
  info.type.strides = contiguous_strides(info.type.shape);
  return info;
}

}  // namespace catenary
