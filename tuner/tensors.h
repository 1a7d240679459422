// SPDX-License-Identifier: Apache-2.0
// Device tensors for timing. A tensor is an arena of `copies` of itself. One block of random
// numbers (normal, up to 64 MiB, made on the host once per dtype and scale) is repeated over all of
// it. The block's length is odd in units of 16 bytes, so it never lines up with rows or copies: no
// two rows and no two copies are equal, and the power of the tensor cores, which depends on the
// data, is that of random data. The host keeps the contents of copy 0 for the reference.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/verify/verify.h"
#include "tuner/session.h"

namespace catenary::tuner {

inline constexpr i64 kCopyAlign = 256;

// Random blocks by dtype and scale, made on first use.
class RandomPool {
 public:
  explicit RandomPool(u64 seed) : seed_(seed) {}

  // Normal numbers of standard deviation `scale`, rounded to `dtype` (bf16, f16 or f32).
  llvm::ArrayRef<std::byte> block(DType dtype, double scale);

  // Writes the bytes [0, bytes) of the endless repetition of `block` from byte `phase` on.
  static void repeat(llvm::ArrayRef<std::byte> block, i64 phase, std::byte* out, i64 bytes);

 private:
  u64 seed_;
  std::map<std::pair<DType, double>, std::vector<std::byte>> blocks_;
};

// One named tensor, `copies` times.
struct TensorArena {
  TensorType type;
  cuda::DeviceBuffer buffer;
  i64 copy_bytes = 0;                       // distance between copies
  std::vector<std::byte> host;              // copy 0; empty for outputs and scratch
  cuda::DevicePtr borrowed = 0;             // the base, if the memory belongs to another arena
  llvm::ArrayRef<std::byte> borrowed_host;  // and the contents from there on

  cuda::DevicePtr base() const { return borrowed != 0 ? borrowed : buffer.get(); }
  llvm::ArrayRef<std::byte> contents() const {
    return borrowed_host.empty() ? llvm::ArrayRef(host) : borrowed_host;
  }
  void* at(int copy, i64 offset_bytes = 0) const {
    return reinterpret_cast<void*>(base() + static_cast<u64>(copy * copy_bytes + offset_bytes));
  }
};
using Tensors = std::map<std::string, TensorArena>;

// Contiguous tensors.
TensorType contiguous_tensor(DType dtype, llvm::ArrayRef<i64> sizes);
TensorType bf16_tensor(llvm::ArrayRef<i64> sizes);

// Bytes that a tensor of `type` (no symbolic dimension) spans, and the same rounded up to
// kCopyAlign.
i64 tensor_bytes(const TensorType& type);
i64 copy_bytes(const TensorType& type);

// An arena without contents.
Expected<TensorArena> make_arena(const TensorType& type, int copies);

// Fills every copy from `block` starting at `phase` (bytes), and the host's copy 0. Returns before
// the device has finished: call synchronize_context() before use.
Error fill_random(const Session& session, llvm::ArrayRef<std::byte> block, i64 phase,
                  TensorArena& arena);

// Fills every copy with `ends` (an i32 tensor), and the host's copy 0.
Error fill_ends(llvm::ArrayRef<i32> ends, int copies, TensorArena& arena);

// The arenas of every parameter of `chain`, filled, and of its outputs (named after their values),
// poisoned. `ends` fills i32 parameters. Weights that a contraction reads are scaled by
// 1/sqrt(terms). The device has finished when it returns.
Expected<Tensors> make_tensors(const Session& session, RandomPool& pool, const VerifiedChain& chain,
                               llvm::ArrayRef<i32> ends, int copies);

// Bytes of all inputs and weights of one copy, and of these and the outputs.
i64 input_bytes(const VerifiedChain& chain);
i64 set_bytes(const VerifiedChain& chain);

}  // namespace catenary::tuner
