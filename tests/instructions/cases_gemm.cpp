// SPDX-License-Identifier: Apache-2.0
// Cases of hopper_gemm.cu: integer matrices with tails in every dimension.
#include "tests/instructions/bytes.h"

namespace catenary::instructions {
namespace {

constexpr size_t kGuard = 4096;  // bytes after D

u16 rounded_to_bf16(i32 value) {
  const u32 bits = std::bit_cast<u32>(static_cast<float>(value));
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

Map matrix_map(size_t buffer, size_t rows, size_t columns, u32 box_rows) {
  Map map{buffer, {}};
  map.spec.dtype = DType::kBF16;
  map.spec.rank = 2;
  map.spec.sizes[0] = columns;
  map.spec.sizes[1] = rows;
  map.spec.strides[0] = 2 * columns;
  map.spec.box[0] = 64;
  map.spec.box[1] = box_rows;
  map.spec.swizzle = Swizzle::k128;
  return map;
}

Case gemm_case(const char* name, const char* kernel, size_t m, size_t n, size_t k, u32 cluster) {
  Case c{.name = name, .file = "hopper_gemm.cu", .kernel = kernel};
  c.threads = 384;
  c.smem_bytes = 4 * 32768 + 32768 + 2 * 4 * 8;
  c.ctas = 2 * cluster;
  c.cluster_ctas = cluster;
  Random random(100 + cluster);
  std::vector<i32> a(m * k), b(n * k);
  Bytes a_bytes(2 * m * k), b_bytes(2 * n * k);
  for (size_t i = 0; i < a.size(); ++i) {
    put(a_bytes, 2 * i, bf16_of(a[i] = random.between(-4, 4)));
  }
  for (size_t i = 0; i < b.size(); ++i) {
    put(b_bytes, 2 * i, bf16_of(b[i] = random.between(-4, 4)));
  }
  c.expected.assign(2 * m * n + kGuard, kUntouched);
  for (size_t row = 0; row < m; ++row) {
    for (size_t column = 0; column < n; ++column) {
      i32 sum = 0;
      for (size_t i = 0; i < k; ++i) sum += a[row * k + i] * b[column * k + i];
      put(c.expected, 2 * (row * n + column), rounded_to_bf16(sum));
    }
  }
  c.maps = {matrix_map(0, m, k, 128), matrix_map(1, n, k, 128 / cluster), matrix_map(2, m, n, 64)};
  c.buffers = {{"a", sim::RegionRole::kInput, a_bytes},
               {"b", sim::RegionRole::kWeight, b_bytes},
               output(c.expected.size())};
  return c;
}

}  // namespace

void add_gemm_cases(std::vector<Case>& cases) {
  cases.push_back(gemm_case("gemm", "hopper_gemm", 200, 328, 328, 1));
  cases.back().launches = 2;
  cases.push_back(gemm_case("gemm, cluster of two", "hopper_gemm_cluster", 328, 328, 328, 2));
}

}  // namespace catenary::instructions
