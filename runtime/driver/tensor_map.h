// SPDX-License-Identifier: Apache-2.0
// A tensor map's description -> the 128 bytes that a kernel takes as a parameter, as the driver in
// use encodes them. Knows no chain and no kernel.
#pragma once

#include "runtime/driver/api.h"
#include "shared/tensor_map.h"
#include "shared/tensor_map_spec.h"

namespace catenary {

// kInvalidArgument: sim::check_tensor_map() refuses `spec`. kDriver: the driver refuses it.
Expected<TensorMap> encode(const cuda::Driver& driver, const TensorMapSpec& spec);

namespace cuda {

// cuTensorMapEncodeTiled of the simulator. kErrorInvalidValue where sim::check_tensor_map()
// refuses, and for what the simulator does not support (interleaving, other element types, NaN
// fill).
Result simulated_tensor_map_encode(TensorMap* map, int data_type, unsigned rank, void* base,
                                   const unsigned long long* sizes,
                                   const unsigned long long* strides, const unsigned* box,
                                   const unsigned* element_strides, int interleave, int swizzle,
                                   int l2_promotion, int fill);

}  // namespace cuda
}  // namespace catenary
