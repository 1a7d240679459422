// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/tensor_map.h"

#include "simulator/model/tensor_map.h"

namespace catenary {
namespace {

constexpr int data_type(DType dtype, bool as_tf32) {
  switch (dtype) {
    case DType::kBF16:
      return cuda::kTensorMapBF16;
    case DType::kF16:
      return cuda::kTensorMapF16;
    case DType::kI32:
      return cuda::kTensorMapU32;
    case DType::kF32:
      return as_tf32 ? cuda::kTensorMapTF32 : cuda::kTensorMapF32;
    case DType::kE4M3:
    case DType::kE5M2:
      return cuda::kTensorMapU8;
    case DType::kI8:
    case DType::kI4:
    case DType::kU4:
      break;  // no kernel loads them by tensor map
  }
  return -1;
}

}  // namespace

Expected<TensorMap> encode(const cuda::Driver& driver, const TensorMapSpec& spec) {
  if (Error error = sim::check_tensor_map(spec)) return error;
  TensorMap map = {};
  const cuda::Result result = driver.api().tensor_map_encode_tiled(
      &map, data_type(spec.dtype, spec.as_tf32), spec.rank, reinterpret_cast<void*>(spec.base),
      spec.sizes, spec.strides, spec.box, spec.element_strides, 0, static_cast<int>(spec.swizzle),
      cuda::kTensorMapPromotion128, 0);
  if (result != cuda::kSuccess) {
    return driver.error(
        result, fmt::format("encoding a tensor map of rank {} at {:#x}", spec.rank, spec.base));
  }
  return map;
}

namespace cuda {

Result simulated_tensor_map_encode(TensorMap* map, int data_type, unsigned rank, void* base,
                                   const unsigned long long* sizes,
                                   const unsigned long long* strides, const unsigned* box,
                                   const unsigned* element_strides, int interleave, int swizzle,
                                   int, int fill) {
  constexpr DType kDTypes[] = {DType::kBF16, DType::kF16, DType::kF32, DType::kI32,
                               DType::kE4M3};  // of the same map as e5m2
  TensorMapSpec spec;
  spec.as_tf32 = data_type == kTensorMapTF32;
  bool known = false;
  for (const DType dtype : kDTypes) {
    if (catenary::data_type(dtype, spec.as_tf32) != data_type) continue;
    spec.dtype = dtype;
    known = true;
  }
  if (!known || interleave != 0 || fill != 0 || swizzle < 0 || swizzle > 3 ||
      rank > kMaxTensorMapRank) {
    return kErrorInvalidValue;
  }
  spec.rank = rank;
  spec.swizzle = static_cast<Swizzle>(swizzle);
  spec.base = reinterpret_cast<u64>(base);
  for (unsigned i = 0; i < rank; ++i) {
    spec.sizes[i] = sizes[i];
    if (i + 1 < rank) spec.strides[i] = strides[i];
    spec.box[i] = box[i];
    spec.element_strides[i] = element_strides[i];
  }
  if (Error error = sim::check_tensor_map(spec)) {
    llvm::consumeError(std::move(error));
    return kErrorInvalidValue;
  }
  *map = sim::encode_tensor_map(spec);
  return kSuccess;
}

}  // namespace cuda
}  // namespace catenary
