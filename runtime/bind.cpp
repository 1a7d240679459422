// SPDX-License-Identifier: Apache-2.0
// CompiledChain -> the tables of an Executable: the argument of each pointer, the bytes that a
// tensor spans, its alignment. Calls no driver.
#include <algorithm>

#include "runtime/executable.h"

namespace catenary {
namespace {

// The index of parameter `position` among the scalars, or among the tensors.
int rank_among(const VerifiedChain& chain, int position, bool scalars) {
  int count = 0;
  for (int i = 0; i < position; ++i) {
    count += (chain.value(chain.parameters()[i]).role == Role::kScalar) == scalars;
  }
  return count;
}

}  // namespace

ByteSpan byte_span(const TensorType& type) {
  ByteSpan span;
  span.element = dtype_bytes(type.dtype);
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
  const VerifiedChain& chain = compiled->chain;
  for (ValueId id : chain.parameters()) {
    const Value& value = chain.value(id);
    if (value.role == Role::kScalar) {
      ++num_scalars;
    } else {
      tensors.push_back(
          {value.name, false, 1, byte_span(chain.info(id).type), value.role == Role::kWeight});
    }
  }
  num_inputs = tensors.size();
  const auto& outputs = chain.chain().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    tensors.push_back({chain.value(outputs[i].value).name, true, 1,
                       byte_span(chain.output_type(static_cast<int>(i)))});
    if (outputs[i].in_place < 0) continue;
    const auto input = llvm::find(chain.parameters(), outputs[i].in_place);
    const int position = static_cast<int>(input - chain.parameters().begin());
    tensors.back().in_place = rank_among(chain, position, /*scalars=*/false);
    tensors[tensors.back().in_place].overwritten = true;
  }
  if (tensors.size() > kMaxTensors) {
    return make_error(ErrorCode::kResourceLimit,
                      "chain '{}' has {} tensors, and a launch takes at most {}: split the chain",
                      chain.chain().name, tensors.size(), kMaxTensors);
  }
  return Error::success();
}

Expected<BoundKernel> Executable::State::bind_kernel(const KernelPlan& plan,
                                                     const PlanBucket& bucket) {
  BoundKernel kernel;
  kernel.symbol = plan.symbol;
  kernel.grid = plan.grid;
  kernel.threads = static_cast<unsigned>(plan.threads);
  kernel.smem_bytes = static_cast<unsigned>(plan.smem_bytes);
  kernel.cluster = static_cast<unsigned>(plan.cluster);
  kernel.pointers = std::max<size_t>(plan.slots.size(), 1);
  for (const MapBinding& map : plan.maps) kernel.maps.push_back(bind_map(map));
  for (int position : plan.scalars) {
    kernel.scalars.push_back(rank_among(compiled->chain, position, true));
  }
  if (const i64 bytes = kernel.parameter_bytes(); bytes > kMaxParameterBytes) {
    return make_error(ErrorCode::kResourceLimit,
                      "kernel {} takes {} bytes of parameters ({} pointers, {} scalars), and a "
                      "launch takes at most {}: split the chain",
                      plan.symbol, bytes, plan.slots.size(), plan.scalars.size(),
                      kMaxParameterBytes);
  }
  if (const i64 ctas = plan.grid.ctas(bucket.hi); ctas > kMaxCtas) {
    return make_error(ErrorCode::kResourceLimit,
                      "kernel {} needs {} CTAs, and a launch takes at most {}: split the chain",
                      plan.symbol, ctas, kMaxCtas);
  }
  for (const SlotBinding& slot : plan.slots) {
    BoundSlot bound;
    if (slot.kind == SlotBinding::Kind::kWorkspace) {
      bound.offset = slot.workspace_offset;
    } else {
      bound.tensor = slot.kind == SlotBinding::Kind::kParameter
                         ? rank_among(compiled->chain, slot.index, false)
                         : static_cast<int>(num_inputs) + slot.index;
      BoundTensor& tensor = tensors[bound.tensor];
      tensor.align = std::max(tensor.align, slot.align);
    }
    kernel.slots.push_back(bound);
  }
  return kernel;
}

Error Executable::State::bind() {
  workspace_bytes = compiled->plan.workspace_bytes;
  if (Error error = bind_tensors()) return error;
  for (const PlanBucket& plan : compiled->plan.buckets) {
    BoundBucket bucket;
    bucket.lo = plan.lo;
    bucket.hi = plan.hi;
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      Expected<BoundKernel> kernel = bind_kernel(plan.kernels[i], plan);
      if (!kernel) return kernel.takeError();
      kernel->pdl = i < plan.pdl.size() && plan.pdl[i];
      bucket.kernels.push_back(std::move(*kernel));
    }
    buckets.push_back(std::move(bucket));
  }
  return Error::success();
}

}  // namespace catenary
