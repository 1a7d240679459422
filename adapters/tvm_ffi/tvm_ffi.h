// SPDX-License-Identifier: Apache-2.0
// What a function of TVM's FFI is called with, declared by hand: the layouts of tvm/ffi/c_api.h.
// tests/python/test_tvm_ffi.py compares them with the header of the installed package.
#pragma once

#include <cstddef>
#include <cstdint>

namespace catenary::tvm_ffi {

struct Any {
  int32_t type;
  uint32_t small_size;  // of a short text, which is in `bytes`
  union {
    int64_t integer;
    double number;
    void* pointer;
    const char* text;
    char bytes[8];
  };
};
static_assert(sizeof(Any) == 16);

struct ByteArray {
  const char* data;
  size_t size;
};

// Types of Any.
inline constexpr int32_t kNone = 0, kInt = 1, kBool = 2, kFloat = 3, kDLTensor = 7, kRawText = 8,
                         kSmallText = 11, kText = 65, kTensor = 70;
// An object has a header of this size; then the ByteArray of a text, or the DLTensor of a tensor.
inline constexpr size_t kObjectHeader = 24;

// DLPack's devices.
inline constexpr int32_t kCpu = 1, kCuda = 2;

}  // namespace catenary::tvm_ffi
