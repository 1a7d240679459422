// SPDX-License-Identifier: Apache-2.0
#include "simulator/model/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "simulator/model/number.h"

namespace catenary::sim {
namespace {

constexpr u64 kMagic = 0x70616d5f6e746365;  // "ectn_map"
constexpr u64 kMaxSize = u64{1} << 32;
constexpr u64 kMaxStride = u64{1} << 40;
constexpr u32 kMaxBox = 256;
constexpr u32 kMaxElementStride = 8;
constexpr u32 kChunk = 16;

// The bytes of an encoded map.
struct Encoded {
  u64 magic;
  u64 base;
  u64 strides[kMaxTensorMapRank - 1];
  u32 last[kMaxTensorMapRank];  // size - 1: a size may be 2^32
  u16 box[kMaxTensorMapRank];
  u8 element_strides[kMaxTensorMapRank];
  DType dtype;
  bool as_tf32;
  u8 rank;
  Swizzle swizzle;
};
static_assert(sizeof(Encoded) <= sizeof(TensorMap) && std::is_trivially_copyable_v<Encoded>);

Error check_dimension(const TensorMapSpec& spec, u32 i) {
  if (spec.sizes[i] == 0 || spec.sizes[i] > kMaxSize) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a tensor map has {} elements along dimension {}: give 1 to 2^32",
                      spec.sizes[i], i);
  }
  if (spec.box[i] == 0 || spec.box[i] > kMaxBox) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the box of a tensor map has {} elements along dimension {}: give 1 to {}",
                      spec.box[i], i, kMaxBox);
  }
  const u32 stride = spec.element_strides[i];
  if (stride == 0 || stride > kMaxElementStride || (i == 0 && stride != 1)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a tensor map has element stride {} in dimension {}: give {}", stride, i,
                      i == 0 ? "1 for the innermost dimension" : "1 to 8");
  }
  return Error::success();
}

Error check_strides(const TensorMapSpec& spec) {
  for (u32 i = 0; i + 1 < spec.rank; ++i) {
    const u64 stride = spec.strides[i];
    if (stride == 0 || stride % kChunk != 0 || stride >= kMaxStride) {
      return make_error(ErrorCode::kInvalidArgument,
                        "a tensor map has a stride of {} bytes in dimension {}: give a multiple of "
                        "16 above 0 and below 2^40",
                        stride, i + 1);
    }
  }
  return Error::success();
}

Error check_box_row(const TensorMapSpec& spec) {
  const u32 row = spec.box[0] * dtype_bytes(spec.dtype);
  const u32 span = swizzle_bytes(spec.swizzle);
  if (row % kChunk != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the box of a tensor map has rows of {} bytes: give a multiple of 16", row);
  }
  if (span != 0 && row != span) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "the box of a tensor map has rows of {} bytes under the {}-byte swizzle: make "
        "the innermost box dimension {} elements",
        row, span, span / dtype_bytes(spec.dtype));
  }
  return Error::success();
}

u32 box_elements(const TensorMapSpec& spec, u32 i) {
  return static_cast<u32>(ceil_div(spec.box[i], spec.element_strides[i]));
}

// Clips the row that starts at element `begin` to the tensor.
void clip_row(const TensorMapSpec& spec, i64 begin, BoxRow& row) {
  const i64 bytes = dtype_bytes(spec.dtype);
  const i64 first = std::max<i64>(begin, 0);
  const i64 last = std::min<i64>(begin + spec.box[0], static_cast<i64>(spec.sizes[0]));
  if (last <= first) return;
  row.first = static_cast<u32>((first - begin) * bytes);
  row.bytes = static_cast<u32>((last - first) * bytes);
  row.global = spec.base + static_cast<u64>(first * bytes);
}

}  // namespace

u32 swizzle_bytes(Swizzle swizzle) {
  return swizzle == Swizzle::kNone ? 0 : 16u << static_cast<u32>(swizzle);
}

Number number_of(const TensorMapSpec& spec) {
  switch (spec.dtype) {
    case DType::kBF16:
      return Number::kBF16;
    case DType::kF16:
      return Number::kF16;
    case DType::kF32:
      return spec.as_tf32 ? Number::kTF32 : Number::kF32;
    case DType::kI32:
      return Number::kU32;
    case DType::kE4M3:
      return Number::kE4M3;
    case DType::kE5M2:
      return Number::kE5M2;
    case DType::kI8:
    case DType::kI4:
    case DType::kU4:
      break;  // no kernel loads them by tensor map
  }
  return Number::kF32;
}

Error check_tensor_map(const TensorMapSpec& spec) {
  if (spec.rank == 0 || spec.rank > kMaxTensorMapRank) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a tensor map has rank {}: give 1 to {} dimensions", spec.rank,
                      kMaxTensorMapRank);
  }
  if (spec.base % kChunk != 0 || spec.base == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a tensor map starts at address {:#x}: give one that is a multiple of 16",
                      spec.base);
  }
  for (u32 i = 0; i < spec.rank; ++i) {
    if (Error error = check_dimension(spec, i)) return error;
  }
  if (Error error = check_strides(spec)) return error;
  return check_box_row(spec);
}

TensorMap encode_tensor_map(const TensorMapSpec& spec) {
  Encoded e = {};
  e.magic = kMagic;
  e.base = spec.base;
  e.dtype = spec.dtype;
  e.as_tf32 = spec.as_tf32;
  e.rank = static_cast<u8>(spec.rank);
  e.swizzle = spec.swizzle;
  for (u32 i = 0; i < spec.rank; ++i) {
    if (i + 1 < spec.rank) e.strides[i] = spec.strides[i];
    e.last[i] = static_cast<u32>(spec.sizes[i] - 1);
    e.box[i] = static_cast<u16>(spec.box[i]);
    e.element_strides[i] = static_cast<u8>(spec.element_strides[i]);
  }
  TensorMap map = {};
  std::memcpy(map.bytes, &e, sizeof(e));
  return map;
}

std::optional<TensorMapSpec> decode_tensor_map(const TensorMap& map) {
  Encoded e;
  std::memcpy(&e, map.bytes, sizeof(e));
  if (e.magic != kMagic) return std::nullopt;
  TensorMapSpec spec;
  spec.dtype = e.dtype;
  spec.as_tf32 = e.as_tf32;
  spec.rank = e.rank;
  spec.swizzle = e.swizzle;
  spec.base = e.base;
  for (u32 i = 0; i < spec.rank; ++i) {
    if (i + 1 < spec.rank) spec.strides[i] = e.strides[i];
    spec.sizes[i] = u64{e.last[i]} + 1;
    spec.box[i] = e.box[i];
    spec.element_strides[i] = e.element_strides[i];
  }
  return spec;
}

u64 box_bytes(const TensorMapSpec& spec) {
  u64 bytes = dtype_bytes(spec.dtype);
  for (u32 i = 0; i < spec.rank; ++i) bytes *= box_elements(spec, i);
  return bytes;
}

std::vector<BoxRow> box_rows(const TensorMapSpec& spec, const i32* at) {
  const u64 row_bytes = u64{spec.box[0]} * dtype_bytes(spec.dtype);
  const u64 count = box_bytes(spec) / row_bytes;
  std::vector<BoxRow> rows(count);
  for (u64 r = 0; r < count; ++r) {
    BoxRow& row = rows[r];
    row.shared = r * row_bytes;
    bool inside = true;
    u64 offset = 0;
    u64 rest = r;
    for (u32 i = 1; i < spec.rank; ++i) {
      const u32 elements = box_elements(spec, i);
      const i64 coordinate = at[i] + static_cast<i64>(rest % elements) * spec.element_strides[i];
      rest /= elements;
      inside &= coordinate >= 0 && static_cast<u64>(coordinate) < spec.sizes[i];
      offset += static_cast<u64>(coordinate) * spec.strides[i - 1];
    }
    if (!inside) continue;
    clip_row(spec, at[0], row);
    row.global += offset;
  }
  return rows;
}

void for_each_chunk(const BoxRow& row, Swizzle swizzle, u32 address,
                    llvm::function_ref<void(const BoxChunk&)> act) {
  const u32 end = row.first + row.bytes;
  for (u32 at = row.first; at < end;) {
    const u32 next = std::min(end, (at / kChunk + 1) * kChunk);
    const u32 box = static_cast<u32>(row.shared) + at;
    act({swizzle_address(address + box, swizzle) - address, box, next - at,
         row.global + (at - row.first)});
    at = next;
  }
}

void scatter_box(const TensorMapSpec& spec, const std::vector<BoxRow>& rows, u32 address, u8* to) {
  // A swizzle permutes chunks within spans, and a box consists of whole spans.
  std::memset(to, 0, box_bytes(spec));
  for (const BoxRow& row : rows) {
    for_each_chunk(row, spec.swizzle, address, [&](const BoxChunk& chunk) {
      std::memcpy(to + chunk.shared, reinterpret_cast<const void*>(chunk.global), chunk.bytes);
      if (spec.as_tf32) {
        round_numbers_to_tf32(to + chunk.shared, chunk.bytes / 4);
      }
    });
  }
}

std::vector<u8> gather_box(const TensorMapSpec& spec, const std::vector<BoxRow>& rows, u32 address,
                           const u8* from) {
  std::vector<u8> box(box_bytes(spec), 0);
  for (const BoxRow& row : rows) {
    for_each_chunk(row, spec.swizzle, address, [&](const BoxChunk& chunk) {
      std::memcpy(box.data() + chunk.box, from + chunk.shared, chunk.bytes);
    });
  }
  return box;
}

}  // namespace catenary::sim
