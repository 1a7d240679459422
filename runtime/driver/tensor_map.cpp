// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/tensor_map.h"

namespace catenary {
namespace {

constexpr int data_type(sim::Number number) {
  switch (number) {
    case sim::Number::kBF16:
      return cuda::kTensorMapBF16;
    case sim::Number::kF16:
      return cuda::kTensorMapF16;
    case sim::Number::kU32:
      return cuda::kTensorMapU32;
    case sim::Number::kF32:
      return cuda::kTensorMapF32;
    case sim::Number::kTF32:
      return cuda::kTensorMapTF32;
  }
  return -1;
}

}  // namespace

Expected<TensorMap> encode(const cuda::Driver& driver, const sim::TensorMapSpec& spec) {
  if (Error error = sim::check(spec)) return error;
  TensorMap map = {};
  const cuda::Result result = driver.api().tensor_map_encode_tiled(
      &map, data_type(spec.number), spec.rank, reinterpret_cast<void*>(spec.base), spec.sizes,
      spec.strides, spec.box, spec.element_strides, 0, static_cast<int>(spec.swizzle),
      cuda::kTensorMapPromotion256, 0);
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
  constexpr sim::Number kNumbers[] = {sim::Number::kBF16, sim::Number::kF16, sim::Number::kF32,
                                      sim::Number::kTF32, sim::Number::kU32};
  sim::TensorMapSpec spec;
  bool known = false;
  for (const sim::Number number : kNumbers) {
    if (catenary::data_type(number) != data_type) continue;
    spec.number = number;
    known = true;
  }
  if (!known || interleave != 0 || fill != 0 || swizzle < 0 || swizzle > 3 ||
      rank > sim::kMaxRank) {
    return kErrorInvalidValue;
  }
  spec.rank = rank;
  spec.swizzle = static_cast<sim::Swizzle>(swizzle);
  spec.base = reinterpret_cast<u64>(base);
  for (unsigned i = 0; i < rank; ++i) {
    spec.sizes[i] = sizes[i];
    if (i + 1 < rank) spec.strides[i] = strides[i];
    spec.box[i] = box[i];
    spec.element_strides[i] = element_strides[i];
  }
  if (Error error = sim::check(spec)) {
    llvm::consumeError(std::move(error));
    return kErrorInvalidValue;
  }
  *map = sim::encode_tensor_map(spec);
  return kSuccess;
}

}  // namespace cuda
}  // namespace catenary
