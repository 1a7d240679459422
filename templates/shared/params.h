// SPDX-License-Identifier: Apache-2.0
// The one kernel parameter of every kernel: pointers, the symbolic size, scalar parameters.
// Host packing (runtime/executable.cpp) and device reading share this struct.
#pragma once

#include "shared/int.h"

namespace catenary {

// kPointers >= 1. kScalars may be 0; the array then has one unused element.
// Layout: 8-byte pointers, then the symbol, then floats; no padding before `scalar`.
template <int kPointers, int kScalars>
struct Params {
  void* ptr[kPointers];
  i64 symbol;
  float scalar[kScalars > 0 ? kScalars : 1];
};

// Byte size of Params<pointers, scalars> (floats are padded to a multiple of 8 bytes).
constexpr i64 params_bytes(i64 pointers, i64 scalars) {
  return 8 * pointers + 8 + 8 * (((scalars > 0 ? scalars : 1) + 1) / 2);
}

}  // namespace catenary
