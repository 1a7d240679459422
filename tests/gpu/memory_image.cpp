// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/memory_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ir/random/random.h"

namespace catenary::gpu_suite {
namespace {

i64 round_up(i64 value, i64 to) { return ceil_div(value, to) * to; }

// A NaN with a random payload; the pattern of 1e30 (6e4 for f16, the largest of fp8).
u32 guard_element(DType dtype, Random& random) {
  const u32 bits = static_cast<u32>(random.next());
  switch (dtype) {
    case DType::kBF16:
      return 0x7fc0u | (bits & 0x803fu);
    case DType::kF16:
      return 0x7e00u | (bits & 0x81ffu);
    case DType::kE4M3:
      return 0x7fu | (bits & 0x80u);
    case DType::kE5M2:
      return 0x7eu | (bits & 0x81u);
    default:
      return 0x7fc00000u | (bits & 0x803fffffu);
  }
}

u32 huge_element(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x7149u;
    case DType::kF16:
      return 0x7b53u;
    case DType::kE4M3:
      return 0x7eu;
    case DType::kE5M2:
      return 0x7bu;
    default:
      return 0x7149f2cau;
  }
}

void put(std::vector<u8>& bytes, i64 at, u32 element, i64 size) {
  std::memcpy(bytes.data() + at, &element, static_cast<size_t>(size));
}

// Appends a region with its guard bands; the payload's address is a multiple of `align`, and if
// that is less than 16, not of twice as much.
void add_region(MemoryImage& image, Region region, i64 align) {
  const i64 size = dtype_bytes(region.type.dtype);
  const i64 guard = kGuardElements * size;
  region.guard_begin = image.bytes;
  i64 offset = round_up(image.bytes + guard, std::max(kBlockAlign, align));
  if (align < kBlockAlign && !region.workspace) offset += align;
  region.offset = offset;
  region.guard_end = round_up(offset + region.bytes + guard, 4);
  image.bytes = round_up(region.guard_end, kBlockAlign);
  image.regions.push_back(std::move(region));
}

void add_regions(MemoryImage& image, const VerifiedChain& chain, i64 symbol, i64 workspace_bytes) {
  const auto add = [&](std::string name, const TensorType& declared, bool output) {
    Region region;
    region.name = std::move(name);
    region.output = output;
    region.type = with_symbol(declared, symbol);
    region.bytes = span_bytes(region.type);
    add_region(image, std::move(region), declared.align);
  };
  for (ValueId id : chain.parameters()) {
    if (chain.value(id).role != Role::kScalar) {
      add(chain.value(id).name, chain.info(id).type, false);
    }
  }
  for (size_t i = 0; i < chain.chain().outputs.size(); ++i) {
    const ValueId input = chain.chain().outputs[i].in_place;
    if (input < 0) {
      add(fmt::format("output {}", i), chain.output_type(static_cast<int>(i)), true);
      continue;
    }
    Region region = *llvm::find_if(
        image.regions, [&](const Region& one) { return one.name == chain.value(input).name; });
    region.name = fmt::format("output {}", i);
    region.output = region.in_place = true;
    image.regions.push_back(std::move(region));
  }
  if (workspace_bytes == 0) return;
  Region workspace;
  workspace.name = "workspace";
  workspace.workspace = true;
  workspace.type.dtype = DType::kF32;
  workspace.type.shape = {Dim{workspace_bytes / 4}};
  workspace.bytes = workspace_bytes;
  add_region(image, std::move(workspace), 256);
}

// Guard bands: NaN everywhere in run A, a huge number around inputs in run B.
void fill_guards(MemoryImage& image, const Region& region, Random& random) {
  const i64 size = dtype_bytes(region.type.dtype);
  const auto band = [&](i64 from, i64 to) {
    for (i64 at = to - size; at >= from; at -= size) {
      const u32 nan = guard_element(region.type.dtype, random);
      const bool input = !region.output && !region.workspace;
      put(image.run_a, at, nan, size);
      put(image.run_b, at, input ? huge_element(region.type.dtype) : nan, size);
    }
  };
  band(region.guard_begin, region.offset);
  const i64 end = region.offset + region.bytes;
  band(end, end + (region.guard_end - end) / size * size);
}

// Inputs: the data. Padding between rows is NaN in run A (0xff) and huge in run B; of integers it
// is what `b` has there, since 4 bits of padding may share a byte with an element.
void fill_input(MemoryImage& image, const Region& region, const std::vector<std::byte>& a,
                const std::vector<std::byte>& b) {
  if (region.bytes == 0) return;
  const i64 size = dtype_bytes(region.type.dtype);
  std::memcpy(image.run_a.data() + region.offset, a.data(), static_cast<size_t>(region.bytes));
  std::memcpy(image.run_b.data() + region.offset, a.data(), static_cast<size_t>(region.bytes));
  if (dtype_info(region.type.dtype).kind == DTypeKind::kInteger) {
    std::memcpy(image.run_b.data() + region.offset, b.data(), static_cast<size_t>(region.bytes));
    return;
  }
  for (i64 at = 0; at < region.bytes; at += size) {
    if (std::memcmp(a.data() + at, b.data() + at, static_cast<size_t>(size)) != 0) {
      put(image.run_b, region.offset + at, huge_element(region.type.dtype), size);
    }
  }
}

void mark_output(MemoryImage& image, const Region& region) {
  const i64 size = dtype_bytes(region.type.dtype);
  for_each_element(region.type, [&](i64, i64 offset) {
    std::fill_n(image.use.begin() + region.offset + offset * size, size, ByteUse::kOutput);
  });
}

void fill_written(MemoryImage& image, const Region& region) {
  const auto poison = [&](std::vector<u8>& bytes, u8 value) {
    std::fill_n(bytes.begin() + region.offset, region.bytes, value);
  };
  poison(image.run_a, 0xff);
  poison(image.run_b, 0x3f);
  if (region.workspace) {
    std::fill_n(image.use.begin() + region.offset, region.bytes, ByteUse::kWorkspace);
  } else {
    mark_output(image, region);
  }
}

std::string place_of(const MemoryImage& image, i64 at) {
  for (const Region& region : image.regions) {
    if (at < region.guard_begin || at >= region.guard_end) continue;
    const i64 size = dtype_bytes(region.type.dtype);
    if (at < region.offset) {
      return fmt::format("{} elements before '{}'", ceil_div(region.offset - at, size),
                         region.name);
    }
    if (at >= region.offset + region.bytes) {
      return fmt::format("{} elements after the end of '{}'",
                         (at - region.offset - region.bytes) / size, region.name);
    }
    return fmt::format("element {} of the memory of '{}'", (at - region.offset) / size,
                       region.name);
  }
  return "between two tensors";
}

template <typename Differs>
std::string list_bytes(const MemoryImage& image, const char* what, Differs differs) {
  i64 count = 0;
  i64 first = -1;
  for (i64 i = 0; i < image.bytes; ++i) {
    if (!differs(i)) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  return fmt::format("{}: {} bytes, first {}", what, count, place_of(image, first));
}

}  // namespace

MemoryImage make_image(const VerifiedChain& chain, i64 symbol, i64 workspace_bytes,
                       const ChainData& data_a, const ChainData& data_b, u64 seed) {
  MemoryImage image;
  add_regions(image, chain, symbol, workspace_bytes);
  image.run_a.assign(static_cast<size_t>(image.bytes), 0xa5);
  image.run_b.assign(static_cast<size_t>(image.bytes), 0xa5);
  image.use.assign(static_cast<size_t>(image.bytes), ByteUse::kKeep);
  Random random(seed);
  size_t region = 0;
  for (size_t p = 0; p < chain.parameters().size(); ++p) {
    if (chain.value(chain.parameters()[p]).role == Role::kScalar) {
      float scalar = 0;
      std::memcpy(&scalar, data_a.buffers[p].data(), sizeof scalar);
      image.scalars.push_back(scalar);
      continue;
    }
    fill_guards(image, image.regions[region], random);
    fill_input(image, image.regions[region], data_a.buffers[p], data_b.buffers[p]);
    ++region;
  }
  for (; region < image.regions.size(); ++region) {
    if (image.regions[region].in_place) {
      mark_output(image, image.regions[region]);
      continue;
    }
    fill_guards(image, image.regions[region], random);
    fill_written(image, image.regions[region]);
  }
  return image;
}

std::string find_damage(const MemoryImage& image, const std::vector<u8>& before,
                        const std::vector<u8>& after) {
  return list_bytes(image, "wrote bytes that it must not write",
                    [&](i64 i) { return image.use[i] == ByteUse::kKeep && before[i] != after[i]; });
}

std::string find_difference(const MemoryImage& image, const std::vector<u8>& a,
                            const std::vector<u8>& b, bool outputs_only) {
  return list_bytes(image, "differs", [&](i64 i) {
    return a[i] != b[i] && (image.use[i] == ByteUse::kOutput || !outputs_only);
  });
}

}  // namespace catenary::gpu_suite
