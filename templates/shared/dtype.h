// SPDX-License-Identifier: Apache-2.0
// Element types, from dtype.def. Shared by host and device.
#pragma once

#include "shared/int.h"

namespace catenary {

enum class DType : u8 {
#define CATENARY_DTYPE(id, text, bits, kind, fraction, min_exponent) id,
#include "shared/dtype.def"
#undef CATENARY_DTYPE
};

enum class DTypeKind : u8 { kFloat, kIndex, kInteger };

struct DTypeInfo {
  const char* text;
  i32 bits;
  DTypeKind kind;
  i32 fraction;
  i32 min_exponent;
};

constexpr DTypeInfo dtype_info(DType dtype) {
  switch (dtype) {
#define CATENARY_DTYPE(id, text, bits, kind, fraction, min_exponent) \
  case DType::id:                                                    \
    return {#text, bits, DTypeKind::kind, fraction, min_exponent};
#include "shared/dtype.def"
#undef CATENARY_DTYPE
  }
  return {"", 0, DTypeKind::kIndex, 0, 0};
}

// e4m3 or e5m2.
constexpr bool is_fp8(DType dtype) {
  return dtype_info(dtype).kind == DTypeKind::kFloat && dtype_info(dtype).bits == 8;
}

// Bytes of the smallest piece of memory that holds one element: 1 for 4-bit dtypes. Only
// storage_bytes() says what several elements take.
constexpr i32 dtype_bytes(DType dtype) { return (dtype_info(dtype).bits + 7) / 8; }

// Bytes of `elements` adjacent elements, the first one at the start of a byte.
constexpr i64 storage_bytes(DType dtype, i64 elements) {
  return (elements * dtype_info(dtype).bits + 7) / 8;
}

}  // namespace catenary
