// SPDX-License-Identifier: Apache-2.0
// Tensor maps: the description of a tensor in global memory and of the box that bulk-tensor copies
// move. A description in, 128 bytes of the simulator's own form out, and back; which element of a
// box lies where, in global and in shared memory. Knows no machine and no driver.
#pragma once

#include <optional>
#include <vector>

#include "ir/error.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "shared/tensor_map.h"
#include "shared/tensor_map_spec.h"
#include "sim/machine.h"

namespace catenary::sim {

u32 swizzle_bytes(Swizzle swizzle);  // its span; 0 for none

// The elements of the map as instructions add and round them.
Number number_of(const TensorMapSpec& spec);

// The rules of cuTensorMapEncodeTiled (CUDA driver API, tensor map management), and one more: the
// box's rows are as long as the swizzle's span, since what lies behind shorter ones is documented
// nowhere. kInvalidArgument names the first value that breaks a rule.
Error check_tensor_map(const TensorMapSpec& spec);

// `spec` passes check_tensor_map().
TensorMap encode_tensor_map(const TensorMapSpec& spec);
// Nothing: the bytes are no map of encode_tensor_map.
std::optional<TensorMapSpec> decode_tensor_map(const TensorMap& map);

// Where the byte at shared `address` of an unswizzled box lies in truth. The pattern is one of
// addresses, not of boxes: a box that starts in the middle of it is written so too.
constexpr u32 swizzle_address(u32 address, Swizzle swizzle) {
  if (swizzle == Swizzle::kNone) return address;
  const u32 chunks = (2u << (static_cast<u32>(swizzle) - 1)) - 1;
  return address ^ (((address >> 7) & chunks) << 4);
}

// Bytes of the box in shared memory, which is what a load delivers wherever the box lies.
u64 box_bytes(const TensorMapSpec& spec);

// A run of a box's elements that are neighbours in global and (before the swizzle) in shared
// memory: one row along the innermost dimension.
struct BoxRow {
  u64 shared = 0;  // offset of the row in the box, bytes
  u32 first = 0;   // the part of the row that lies in the tensor, bytes from its begin
  u32 bytes = 0;   // of that part; 0: the row lies outside
  u64 global = 0;  // address of that part
};

// The rows of the box whose first element is `at` (rank coordinates, which may lie anywhere).
std::vector<BoxRow> walk_box(const TensorMapSpec& spec, const i32* at);

// At most 16 bytes of a row that stay together under every swizzle and lie in the tensor.
struct BoxChunk {
  u32 shared = 0;  // offset from the box's shared address, swizzled
  u32 box = 0;     // the same, not swizzled
  u32 bytes = 0;
  u64 global = 0;  // address
};
void for_each_chunk(const BoxRow& row, Swizzle swizzle, u32 address,
                    llvm::function_ref<void(const BoxChunk&)> act);

// Global memory -> the box at shared `address`, whose bytes are at `to`; zeros where it lies
// outside the tensor. Elements of a map of tf32 are rounded on the way.
void scatter_box(const TensorMapSpec& spec, const std::vector<BoxRow>& rows, u32 address, u8* to);
// The box at shared `address`, whose bytes are at `from`, in the order of its elements; zeros where
// it lies outside the tensor.
std::vector<u8> gather_box(const TensorMapSpec& spec, const std::vector<BoxRow>& rows, u32 address,
                           const u8* from);

}  // namespace catenary::sim
