// SPDX-License-Identifier: Apache-2.0
// Programs of one warpgroup for SimKernel that multiply known integers by wgmma: operands in any
// layout of shared memory; flags omit a required step or do it wrongly.
#pragma once

#include <functional>
#include <vector>

#include "simulator/model/matrix.h"
#include "tests/support/sim_kernel.h"

namespace catenary::testing {

inline constexpr u64 kSeeds = 50;
inline constexpr u32 kM = 64;

// One operand, rows x k, in shared memory at byte `base`.
struct Operand {
  sim::Number number = sim::Number::kBF16;
  u32 rows = 64;
  u32 k = 64;
  u32 span = 128;  // bytes of a swizzled row; 16: no swizzle
  bool mn_major = false;
  u32 base = 0;

  u32 element() const { return sim::operand_bytes(number); }
  u32 bytes() const { return rows * k * element(); }
  u32 stride() const;
  u32 leading() const;
  // The byte offset of element (row, k), as a TMA load with this swizzle stores it.
  u32 offset(u32 row, u32 k) const;
  // The matrix descriptor of the k-block `step`.
  u64 descriptor(u32 step) const;
  static u64 encode(u32 start_offset, u32 leading, u32 stride, u32 span);
};

// The elements of A and B: small enough that every sum is exact.
i32 a_value(u32 row, u32 k);
i32 b_value(u32 n, u32 k);

// D[64, b.rows] = A * B.
struct Program {
  Operand a;
  Operand b;
  bool a_in_registers = false;
  bool proxy_fence = true;
  bool barrier = true;
  bool wgmma_fence = true;
  bool commits = true;
  bool waits = true;
  std::function<void(sim::Machine&, float* d)> before_wait = [](sim::Machine&, float*) {};
  std::function<void(sim::WgmmaOperands&, u32 step)> spoil = [](sim::WgmmaOperands&, u32) {};

  Program() { b.base = 64 * 1024; }
  u32 smem_bytes() const { return b.base + b.bytes(); }
};
Program small_program();  // n is 16, operands of 10 KiB

// `threads` threads from `first` on write an operand, one element at a time.
void fill(sim::Machine& m, const Operand& o, i32 (*value)(u32, u32), u32 threads = 128,
          u32 first = 0);
// Issues the wgmma instructions of the k-blocks [first, last).
void multiply(sim::Machine& m, const Program& p, float* d, u32 first = 0, u32 last = ~0u);
// Reads D as an epilogue does: every value is an operand of an instruction. `out` is 64 x n.
void take(sim::Machine& m, const float* d, u32 n, std::vector<float>& out);

// The whole program; it and `out` must outlive the kernel.
SimKernel kernel_of(const Program& p, std::vector<float>& out);

// The number of elements of D that differ from the sums over the first k.
u32 count_wrong(const std::vector<float>& out, u32 n, u32 k);

inline void sync(sim::Machine& m) { m.barrier(0, 0, true, site("cta_barrier")); }
inline void fence_proxy(sim::Machine& m) { m.fence_proxy_async(site("fence_proxy_async")); }
inline void fence(sim::Machine& m, sim::Site at = site("wgmma_fence")) { m.wgmma_fence(at); }
inline void commit(sim::Machine& m, sim::Site at = site("wgmma_commit")) { m.wgmma_commit(at); }
inline void wait(sim::Machine& m, u32 pending, sim::Site at = site("wgmma_wait")) {
  m.wgmma_wait(pending, at);
}

}  // namespace catenary::testing
