// SPDX-License-Identifier: Apache-2.0
// Tensor maps: a description is encoded into 128 bytes of the simulator's own form, and decoded;
// the global and the shared address of each element of a TMA box. Independent of machine and
// driver.
#pragma once

#include <optional>
#include <vector>

#include "ir/error.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "shared/tensor_map.h"
#include "shared/tensor_map_spec.h"
#include "sim/machine.h"

namespace catenary::sim {

// Chunks of 16 bytes are permuted within spans of this many bytes; 0: no swizzle.
u32 swizzle_bytes(Swizzle swizzle);

// The elements of the map as instructions add and round them.
Number number_of(const TensorMapSpec& spec);

// The rules of cuTensorMapEncodeTiled (CUDA driver API, tensor map management), and one more: the
// box's rows are as long as the swizzle's span, since the layout of shorter rows is undocumented.
// kInvalidArgument names the first value that breaks a rule.
Error check_tensor_map(const TensorMapSpec& spec);

// `spec` passes check_tensor_map().
TensorMap encode_tensor_map(const TensorMapSpec& spec);
// Nothing: the bytes are no map of encode_tensor_map().
std::optional<TensorMapSpec> decode_tensor_map(const TensorMap& map);

// The shared address of the byte that has `address` in an unswizzled box. The pattern depends on
// the address, not on the offset in the box.
constexpr u32 swizzle_address(u32 address, Swizzle swizzle) {
  if (swizzle == Swizzle::kNone) return address;
  const u32 chunks = (2u << (static_cast<u32>(swizzle) - 1)) - 1;
  return address ^ (((address >> 7) & chunks) << 4);
}

// Bytes of the box in shared memory. A load delivers all of them wherever the box is.
u64 box_bytes(const TensorMapSpec& spec);

// One row of a box along the innermost dimension: contiguous in global memory and, before the
// swizzle, in shared memory.
struct BoxRow {
  u64 shared = 0;  // offset of the row in the box, bytes
  u32 first = 0;   // where the part inside the tensor begins, bytes from the row's begin
  u32 bytes = 0;   // of that part; 0: the row is outside
  u64 global = 0;  // address of that part
};

// The rows of the box whose first element has the coordinates `at`, inside or outside the tensor.
std::vector<BoxRow> box_rows(const TensorMapSpec& spec, const i32* at);

// At most 16 bytes of a row that are inside the tensor and that every swizzle keeps together.
struct BoxChunk {
  u32 shared = 0;  // offset from the box's shared address, swizzled
  u32 box = 0;     // the same, not swizzled
  u32 bytes = 0;
  u64 global = 0;  // address
};
void for_each_chunk(const BoxRow& row, Swizzle swizzle, u32 address,
                    llvm::function_ref<void(const BoxChunk&)> act);

// Global memory -> the box at shared `address`, whose bytes are at `to`; zeros outside the tensor.
// Elements of a tf32 map are rounded.
void scatter_box(const TensorMapSpec& spec, const std::vector<BoxRow>& rows, u32 address, u8* to);
// The box at shared `address`, whose bytes are at `from`, in the order of its elements; zeros
// outside the tensor.
std::vector<u8> gather_box(const TensorMapSpec& spec, const std::vector<BoxRow>& rows, u32 address,
                           const u8* from);

}  // namespace catenary::sim
