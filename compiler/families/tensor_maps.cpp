// SPDX-License-Identifier: Apache-2.0
// Tensor maps of kernels: what the hardware takes, and as text.
#include <fmt/format.h>

#include "compiler/kernel_plan.h"
#include "ir/types.h"

namespace catenary {
namespace {

// The rules of cuTensorMapEncodeTiled (CUDA driver API, tensor map management).
constexpr size_t kMaxMapRank = 5;
constexpr i64 kMaxSize = i64{1} << 32;
constexpr i64 kMaxStride = i64{1} << 40;
constexpr i64 kMaxBox = 256;
constexpr i64 kAlign = 16;

std::string dimension_limit(const MapBinding::Dimension& dim, bool innermost) {
  if (dim.size.size > kMaxSize) return fmt::format("{} elements in a row", dim.size.size);
  if (dim.box < 1 || dim.box > kMaxBox) return fmt::format("a box of {} elements", dim.box);
  if (innermost) return "";
  if (dim.stride % kAlign != 0) {
    return fmt::format("a stride of {} bytes, no multiple of {}", dim.stride, kAlign);
  }
  if (dim.stride <= 0 || dim.stride >= kMaxStride) {
    return fmt::format("a stride of {} bytes", dim.stride);
  }
  return "";
}

}  // namespace

std::string map_limit(const MapBinding& map, const SlotBinding& slot) {
  if (slot.align % kAlign != 0 || slot.workspace_offset % kAlign != 0) {
    return fmt::format("an alignment of {} bytes, no multiple of {}", slot.align, kAlign);
  }
  if (map.dims.size() < 2 || map.dims.size() > kMaxMapRank) {
    return fmt::format("{} dimensions", map.dims.size());
  }
  for (size_t i = 0; i < map.dims.size(); ++i) {
    std::string limit = dimension_limit(map.dims[i], i == 0);
    if (!limit.empty()) return limit;
  }
  const i64 row = i64{map.dims[0].box} * dtype_bytes(map.dtype);
  const i64 span = map.swizzle == Swizzle::kNone ? 0 : 16 << static_cast<int>(map.swizzle);
  if (row % kAlign != 0 || (span != 0 && row != span)) {
    return fmt::format("a box with rows of {} bytes", row);
  }
  return "";
}

std::string map_text(const KernelPlan& kernel, const MapBinding& map) {
  std::string sizes, boxes;
  for (const MapBinding::Dimension& dim : map.dims) {
    const std::string size = dim.size.scale == 0 ? fmt::to_string(dim.size.size)
                                                 : fmt::format("up to {}", dim.size.size);
    sizes += (sizes.empty() ? "" : " x ") + size;
    boxes += (boxes.empty() ? "" : " x ") + fmt::to_string(dim.box);
  }
  return fmt::format("'{}' as {} {}{} in boxes of {}", kernel.slots[map.slot].name, sizes,
                     dtype_text(map.dtype), map.as_tf32 ? " (rounded to tf32)" : "", boxes);
}

}  // namespace catenary
