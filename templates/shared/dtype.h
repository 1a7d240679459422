// SPDX-License-Identifier: Apache-2.0
// Element types, from dtype.def. Shared by host and device.
#pragma once

#include "shared/int.h"

namespace catenary {

enum class DType : u8 {
#define CATENARY_DTYPE(id, text, bits, kind, fraction) id,
#include "shared/dtype.def"
#undef CATENARY_DTYPE
};

enum class DTypeKind : u8 { kFloat, kIndex, kInteger };

struct DTypeInfo {
  const char* text;
  i32 bits;
  DTypeKind kind;
  i32 fraction;
};

constexpr DTypeInfo dtype_info(DType dtype) {
  switch (dtype) {
#define CATENARY_DTYPE(id, text, bits, kind, fraction) \
  case DType::id:                                      \
    return {#text, bits, DTypeKind::kind, fraction};
#include "shared/dtype.def"
#undef CATENARY_DTYPE
  }
  return {"", 0, DTypeKind::kIndex, 0};
}

// Bytes of the smallest piece of memory that holds one element: 1 for 4-bit dtypes. Only
// storage_bytes() says what several elements take.
constexpr i32 dtype_bytes(DType dtype) { return (dtype_info(dtype).bits + 7) / 8; }

// Bytes of `elements` adjacent elements, the first one at the start of a byte.
constexpr i64 storage_bytes(DType dtype, i64 elements) {
  return (elements * dtype_info(dtype).bits + 7) / 8;
}

}  // namespace catenary
