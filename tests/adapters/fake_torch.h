// SPDX-License-Identifier: Apache-2.0
// The tensors and lists of fake_torch.cpp, for the library and its test.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace fake_torch {

inline constexpr int32_t kU8 = 0, kI8 = 1, kI32 = 3, kF16 = 5, kF32 = 6, kF64 = 7, kBF16 = 15;
inline constexpr int32_t kE5M2 = 23, kE4M3 = 24;
inline constexpr int32_t kCpu = 0, kCuda = 1;
inline constexpr uintptr_t kStream = 0x55;  // the current stream

using Kernel = void (*)(uint64_t* stack, uint64_t num_arguments, uint64_t num_results);

struct Tensor {
  std::shared_ptr<std::vector<unsigned char>> data;  // shared by copies of a handle
  int64_t offset = 0;                                // bytes
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int32_t dtype = kF32;
  int32_t device_type = kCpu;
  int32_t device = -1;
  bool inference = false;  // it has no version
};

struct List {
  std::vector<uint64_t> items;
};

inline int64_t element_bytes(int32_t dtype) {
  const bool byte = dtype == kU8 || dtype == kI8 || dtype == kE4M3 || dtype == kE5M2;
  return byte ? 1 : dtype == kF64 ? 8 : dtype == kF32 || dtype == kI32 ? 4 : 2;
}

inline Tensor make_tensor(std::vector<int64_t> sizes, std::vector<int64_t> strides,
                          int32_t dtype = kF32, int32_t device_type = kCpu, int32_t device = -1) {
  int64_t last = 1;
  for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  Tensor tensor{nullptr, 0,           std::move(sizes), std::move(strides),
                dtype,   device_type, device,           false};
  tensor.data = std::make_shared<std::vector<unsigned char>>(
      static_cast<size_t>(last * element_bytes(dtype)) + 64);
  const auto address = reinterpret_cast<uintptr_t>(tensor.data->data());
  tensor.offset = static_cast<int64_t>((64 - address % 64) % 64);  // as torch aligns
  return tensor;
}

// Calls `visit(a, b)` with the byte offsets of each element in two tensors of equal sizes.
template <typename Visit>
void for_each(const Tensor& a, const Tensor& b, const Visit& visit) {
  std::vector<int64_t> index(a.sizes.size(), 0);
  for (const int64_t size : a.sizes) {
    if (size == 0) return;
  }
  while (true) {
    int64_t in_a = 0;
    int64_t in_b = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      in_a += index[d] * a.strides[d];
      in_b += index[d] * b.strides[d];
    }
    visit(a.offset + in_a * element_bytes(a.dtype), b.offset + in_b * element_bytes(b.dtype));
    size_t d = index.size();
    while (d > 0 && ++index[d - 1] == a.sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

inline void copy(Tensor& to, const Tensor& from) {
  for_each(to, from, [&](int64_t a, int64_t b) {
    for (int64_t i = 0; i < element_bytes(to.dtype); ++i) {
      (*to.data)[static_cast<size_t>(a + i)] = (*from.data)[static_cast<size_t>(b + i)];
    }
  });
}

}  // namespace fake_torch
