// SPDX-License-Identifier: Apache-2.0
// ChainRecord -> the tables of an Executable: the bytes that a tensor spans, its alignment, the
// parameter struct of each kernel. Calls no driver.
#include <algorithm>

#include "runtime/executable.h"

namespace catenary {

ByteSpan byte_span(const TensorType& type) {
  ByteSpan span;
  span.dtype = type.dtype;
  if (type.packed) {
    span.fixed = span_elements(type);
    return span;
  }
  span.fixed = 1;
  bool empty = false;
  for (int d = 0; d < type.rank(); ++d) {
    if (type.shape[d].symbolic) {
      span.symbolic = true;
      span.per_symbol += type.strides[d];
    } else if (type.shape[d].size == 0) {
      empty = true;
    } else {
      span.fixed += (type.shape[d].size - 1) * type.strides[d];
    }
  }
  if (empty) span.fixed = 0;
  return span;
}

BoundMap bind_map(const MapBinding& map) {
  BoundMap bound;
  bound.slot = static_cast<size_t>(map.slot);
  TensorMapSpec& spec = bound.spec;
  spec.dtype = map.dtype;
  spec.as_tf32 = map.as_tf32;
  spec.rank = static_cast<u32>(map.dims.size());
  spec.swizzle = map.swizzle;
  for (u32 d = 0; d < spec.rank; ++d) {
    bound.sizes[d] = map.dims[d].size;
    spec.box[d] = static_cast<u32>(map.dims[d].box);
    if (d > 0) spec.strides[d - 1] = static_cast<u64>(map.dims[d].stride);
  }
  return bound;
}

std::optional<TensorMapSpec> BoundMap::at(u64 base, i64 symbol) const {
  TensorMapSpec result = spec;
  result.base = base;
  for (u32 d = 0; d < spec.rank; ++d) {
    const i64 size = sizes[d].scale == 0 ? sizes[d].size : symbol * sizes[d].scale;
    if (size == 0) return std::nullopt;
    result.sizes[d] = static_cast<u64>(size);
  }
  return result;
}

Error Executable::State::bind_tensors() {
  num_inputs = record->num_inputs;
  num_scalars = record->num_scalars;
  for (const TensorRecord& tensor : record->tensors) {
    tensors.push_back({tensor.name, tensor.output, tensor.align, byte_span(tensor.type),
                       tensor.role == Role::kWeight, tensor.in_place});
    if (tensor.in_place >= 0) tensors[tensor.in_place].overwritten = true;
  }
  if (tensors.size() > kMaxTensors) {
    return make_error(ErrorCode::kResourceLimit,
                      "chain '{}' has {} tensors, and a launch takes at most {}: split the chain",
                      record->name, tensors.size(), kMaxTensors);
  }
  return Error::success();
}

Expected<BoundKernel> Executable::State::bind_kernel(const KernelRecord& facts,
                                                     const BucketRecord& bucket) {
  BoundKernel kernel;
  kernel.symbol = facts.symbol;
  kernel.grid = facts.grid;
  kernel.threads = static_cast<unsigned>(facts.threads);
  kernel.smem_bytes = static_cast<unsigned>(facts.smem_bytes);
  kernel.cluster = static_cast<unsigned>(facts.cluster);
  kernel.pointers = std::max<size_t>(facts.slots.size(), 1);
  kernel.pdl = facts.pdl;
  kernel.slots = facts.slots;
  kernel.scalars = facts.scalars;
  for (const MapBinding& map : facts.maps) kernel.maps.push_back(bind_map(map));
  if (const i64 bytes = kernel.parameter_bytes(); bytes > kMaxParameterBytes) {
    return make_error(ErrorCode::kResourceLimit,
                      "kernel {} takes {} bytes of parameters ({} pointers, {} scalars), and a "
                      "launch takes at most {}: split the chain",
                      facts.symbol, bytes, facts.slots.size(), facts.scalars.size(),
                      kMaxParameterBytes);
  }
  if (const i64 ctas = facts.grid.ctas(bucket.hi); ctas > kMaxCtas) {
    return make_error(ErrorCode::kResourceLimit,
                      "kernel {} needs {} CTAs, and a launch takes at most {}: split the chain",
                      facts.symbol, ctas, kMaxCtas);
  }
  return kernel;
}

Error Executable::State::bind() {
  workspace_bytes = record->workspace_bytes;
  if (Error error = bind_tensors()) return error;
  for (const BucketRecord& facts : record->buckets) {
    BoundBucket bucket;
    bucket.lo = facts.lo;
    bucket.hi = facts.hi;
    for (const KernelRecord& kernel_facts : facts.kernels) {
      Expected<BoundKernel> kernel = bind_kernel(kernel_facts, facts);
      if (!kernel) return kernel.takeError();
      bucket.kernels.push_back(std::move(*kernel));
    }
    buckets.push_back(std::move(bucket));
  }
  return Error::success();
}

}  // namespace catenary
