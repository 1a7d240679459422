// SPDX-License-Identifier: Apache-2.0
// Tensor maps: a description in, the 128 bytes out that a kernel takes as part of its parameter, in
// the form of whichever driver encodes them. Knows no chain and no kernel.
#pragma once

#include "runtime/driver/api.h"
#include "shared/tensor_map.h"
#include "shared/tensor_map_spec.h"

namespace catenary {

// kInvalidArgument: a rule of sim::check_tensor_map(). kDriver: the driver refuses what those rules
// allow.
Expected<TensorMap> encode(const cuda::Driver& driver, const TensorMapSpec& spec);

namespace cuda {

// The simulator's cuTensorMapEncodeTiled, an entry of its table: 1 (CUDA_ERROR_INVALID_VALUE) where
// sim::check_tensor_map() refuses, and for what the simulator has no meaning for (interleaving,
// other element types, NaN fill).
Result simulated_tensor_map_encode(TensorMap* map, int data_type, unsigned rank, void* base,
                                   const unsigned long long* sizes,
                                   const unsigned long long* strides, const unsigned* box,
                                   const unsigned* element_strides, int interleave, int swizzle,
                                   int l2_promotion, int fill);

}  // namespace cuda
}  // namespace catenary
