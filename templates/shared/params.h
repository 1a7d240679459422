// SPDX-License-Identifier: Apache-2.0
// The single parameter of every kernel: tensor maps, pointers, the symbolic size, the PDL flag,
// scalar parameters. The host packs this struct (runtime/executable.cpp), the device reads it.
#pragma once

#include "shared/tensor_map.h"

namespace catenary {

// kPointers >= 1. kScalars may be 0; the array then has one unused element.
// Layout: tensor maps where there are any, 8-byte pointers, the symbol, `pdl` (1: the previous
// kernel may still run, else 0), floats; no padding before `scalar`.
template <int kPointers, int kScalars, int kMaps = 0>
struct Params {
  TensorMap map[kMaps];
  void* ptr[kPointers];
  i64 symbol;
  u32 pdl;
  float scalar[kScalars > 0 ? kScalars : 1];
};

template <int kPointers, int kScalars>
struct Params<kPointers, kScalars, 0> {
  void* ptr[kPointers];
  i64 symbol;
  u32 pdl;
  float scalar[kScalars > 0 ? kScalars : 1];
};

// Byte size of Params<pointers, scalars, maps>: `pdl` and floats are padded to a multiple of 8
// bytes, a struct with maps to a multiple of their alignment.
constexpr i64 params_bytes(i64 pointers, i64 scalars, i64 maps = 0) {
  const i64 words = 8 * pointers + 8 + 8 * (((scalars > 0 ? scalars : 1) + 2) / 2);
  if (maps == 0) return words;
  const i64 align = alignof(TensorMap);
  return (maps * static_cast<i64>(sizeof(TensorMap)) + words + align - 1) / align * align;
}
static_assert(sizeof(Params<3, 2>) == params_bytes(3, 2), "the layout without maps");
static_assert(sizeof(Params<3, 2, 2>) == params_bytes(3, 2, 2), "the layout with maps");

}  // namespace catenary
