// SPDX-License-Identifier: Apache-2.0
// All memory of one launch as one block of bytes: every tensor and the workspace between guard
// bands, at an address with no more alignment than the chain declares. A block is filled on the
// host, copied to the device as a whole, and compared byte by byte after the launch: bytes that
// kernels must not write must be unchanged.
//
//   | guard | tensor 0 | guard | guard | tensor 1 | guard | ... | guard | workspace | guard |
#pragma once

#include "ir/random/fill.h"
#include "ir/reference/reference.h"

namespace catenary::gpu_suite {

inline constexpr i64 kGuardElements = 4096;
inline constexpr i64 kBlockAlign = 512;  // of the block's base

// The rule for a byte of the block after a launch.
enum class ByteUse : u8 { kKeep, kOutput, kWorkspace };

struct Region {
  std::string name;
  bool output = false;
  bool workspace = false;
  bool in_place = false;  // an output that is the memory of an input's region
  TensorType type;        // without symbol; of the workspace: f32[n]
  i64 offset = 0;         // of the first byte of the payload
  i64 bytes = 0;          // payload
  i64 guard_begin = 0;    // guard bands: [guard_begin, offset) and [offset + bytes, guard_end)
  i64 guard_end = 0;
};

struct MemoryImage {
  std::vector<Region> regions;  // tensors in launch order, then the workspace if there is one
  i64 bytes = 0;
  std::vector<u8> run_a, run_b;  // contents before the two runs, poison 0xff and 0x3f
  std::vector<ByteUse> use;
  std::vector<float> scalars;
};

// `data_a` and `data_b` are fill_chain() of one seed with the poisons 0xff and 0x3f.
MemoryImage make_image(const VerifiedChain& chain, i64 symbol, i64 workspace_bytes,
                       const ChainData& data_a, const ChainData& data_b, u64 seed);

// Calls `visit` with each element of `type` in row-major order: its number and its offset, both in
// elements.
template <typename Visit>
void for_each_element(const TensorType& type, const Visit& visit) {
  const auto strides = type.strides.empty() ? contiguous_strides(type.shape) : type.strides;
  const i64 count = num_elements(type);
  llvm::SmallVector<i64, 4> at(type.shape.size(), 0);
  for (i64 i = 0; i < count; ++i) {
    i64 offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
    visit(i, offset);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < type.shape[d].size) break;
      at[d] = 0;
    }
  }
}

// Names the bytes that changed and must not; empty: none. `before` and `after` have image.bytes.
std::string find_damage(const MemoryImage& image, const std::vector<u8>& before,
                        const std::vector<u8>& after);

// Names output bytes that differ between two runs; empty: none.
std::string find_difference(const MemoryImage& image, const std::vector<u8>& a,
                            const std::vector<u8>& b, bool outputs_only);

}  // namespace catenary::gpu_suite
