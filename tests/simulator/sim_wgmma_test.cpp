// SPDX-License-Identifier: Apache-2.0
// wgmma on the simulated machine: programs for every layout of their operands and for groups in
// flight, under many seeds, with exact numbers.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/wgmma_program.h"

using namespace catenary;
using namespace catenary::sim;
using namespace catenary::testing;

namespace {

void check_right(const Program& p, u64 seeds) {
  std::vector<float> out;
  const SimKernel kernel = kernel_of(p, out);
  for (u64 seed = 1; seed <= seeds; ++seed) {
    Memory memory;
    std::string message;
    REQUIRE_MESSAGE(fault_of(memory, {kernel}, seed, &message) == "", message);
    CHECK(count_wrong(out, p.b.rows, p.a.k) == 0);
    std::fill(out.begin(), out.end(), -1.0f);
  }
}

void check_fault(const SimKernel& kernel, const char* name, const char* text) {
  Memory memory;
  std::string message;
  CHECK(fault_within(memory, {kernel}, 20, &message) == name);
  CHECK_MESSAGE(message.find(text) != std::string::npos, message);
}

}  // namespace

TEST_CASE("wgmma of shared operands gives its numbers under every seed") {
  check_right(small_program(), kSeeds);
}

TEST_CASE("operands are read in every swizzle, K-major and MN-major") {
  for (const u32 span : {16u, 32u, 64u, 128u}) {
    for (const bool a_mn : {false, true}) {
      for (const bool b_mn : {false, true}) {
        Program p;
        p.a.span = p.b.span = span;
        p.a.mn_major = a_mn;
        p.b.mn_major = b_mn;
        p.a.number = p.b.number = b_mn ? Number::kF16 : Number::kBF16;
        CAPTURE(span);
        check_right(p, 3);
      }
    }
  }
}

TEST_CASE("n goes from 8 to 256; tf32 has half the k; A may come from registers") {
  for (const u32 n : {8u, 24u, 96u, 256u}) {
    Program p;
    p.b.rows = n;
    check_right(p, 3);
  }
  for (const bool registers : {false, true}) {
    for (const Number number : {Number::kBF16, Number::kF16, Number::kTF32}) {
      Program p = small_program();
      p.a.number = p.b.number = number;
      p.a.k = p.b.k = number == Number::kTF32 ? 32 : 64;
      p.a_in_registers = registers;
      check_right(p, 5);
    }
  }
}

TEST_CASE("groups overlap: a wait for one while the next is in flight on the same accumulator") {
  Program p = small_program();
  p.a.k = p.b.k = 128;
  p.b.base = p.a.bytes();
  std::vector<float> out(kM * 16);
  SimKernel kernel;
  kernel.threads = 128;
  kernel.smem_bytes = p.smem_bytes();
  u32 overwritten = 0;  // which k-block
  kernel.body = [&](Machine& m) {
    fill(m, p.a, a_value);
    fill(m, p.b, b_value);
    fence_proxy(m);
    sync(m);
    float d[8];
    fence(m);
    multiply(m, p, d, 0, 4);
    commit(m);
    multiply(m, p, d, 4, 8);  // adds to the accumulator in flight: no fence
    commit(m);
    wait(m, 1);
    sync(m);
    // The operands of the first k-blocks are free now, those of the second are not.
    const u16 zero = 0;
    if (m.at.thread == 99) {
      m.store_shared(smem(m, p.a.offset(5, 64 * overwritten)), &zero, 2,
                     testing::site("st_shared"));
    }
    wait(m, 0);
    take(m, d, 16, out);
  };
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    Memory memory;
    std::string message;
    REQUIRE_MESSAGE(fault_of(memory, {kernel}, seed, &message) == "", message);
    CHECK(count_wrong(out, 16, 128) == 0);
  }
  overwritten = 1;
  check_fault(kernel, "copy_in_flight", "outstanding read of CTA 0, thread 0 (wgmma at ");
}

TEST_CASE("two accumulators of one group, and a second sequence on the first of them") {
  Program p = small_program();
  std::vector<float> first(kM * 16), second(kM * 16);
  bool fenced = true;
  SimKernel kernel;
  kernel.threads = 128;
  kernel.smem_bytes = p.smem_bytes();
  kernel.body = [&](Machine& m) {
    fill(m, p.a, a_value);
    fill(m, p.b, b_value);
    fence_proxy(m);
    sync(m);
    float d[2][8];
    fence(m);
    multiply(m, p, d[0]);
    multiply(m, p, d[1], 0, 2);
    commit(m);
    wait(m, 0);
    if (fenced) fence(m);
    multiply(m, p, d[1], 2, 4);
    commit(m);
    wait(m, 0);
    take(m, d[0], 16, first);
    take(m, d[1], 16, second);
  };
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    Memory memory;
    std::string message;
    REQUIRE_MESSAGE(fault_of(memory, {kernel}, seed, &message) == "", message);
    CHECK(count_wrong(first, 16, 64) == 0);
    CHECK(count_wrong(second, 16, 64) == 0);
  }
  fenced = false;
  check_fault(kernel, "accumulator", "no wgmma_fence since the last wgmma_wait");
}

TEST_CASE("two warpgroups share B, and a producer warp overwrites it after both have read it") {
  Program p = small_program();
  std::vector<float> out[2] = {std::vector<float>(kM * 16), std::vector<float>(kM * 16)};
  bool early = false;
  SimKernel kernel;
  kernel.threads = 288;
  kernel.smem_bytes = p.smem_bytes();
  kernel.body = [&](Machine& m) {
    fill(m, p.a, a_value, 288);
    fill(m, p.b, b_value, 288);
    fence_proxy(m);
    sync(m);
    if (m.at.thread >= 256) {
      m.barrier(1, 288, true, testing::site("named_barrier_sync"));
      const u16 zero = 0;
      m.store_shared(smem(m, p.b.base + 2 * (m.at.thread - 256)), &zero, 2,
                     testing::site("st_shared"));
      return;
    }
    float d[8];
    fence(m);
    multiply(m, p, d);
    commit(m);
    if (early) m.barrier(1, 288, false, testing::site("named_barrier_arrive"));
    wait(m, 0);
    if (!early) m.barrier(1, 288, false, testing::site("named_barrier_arrive"));
    take(m, d, 16, out[m.at.thread / 128]);
  };
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    Memory memory;
    std::string message;
    REQUIRE_MESSAGE(fault_of(memory, {kernel}, seed, &message) == "", message);
    CHECK(count_wrong(out[0], 16, 64) == 0);
    CHECK(count_wrong(out[1], 16, 64) == 0);
  }
  early = true;
  check_fault(kernel, "copy_in_flight", "outstanding read");
}

TEST_CASE("writes to operands must be ordered before each warp of the warpgroup") {
  Program p = small_program();
  u32 waiting = 128;
  std::vector<float> out(kM * 16);
  SimKernel kernel;
  kernel.threads = 160;
  kernel.smem_bytes = p.smem_bytes();
  kernel.body = [&](Machine& m) {
    const u32 t = m.at.thread;
    if (t >= 128) {
      fill(m, p.a, a_value, 32, 128);
      fill(m, p.b, b_value, 32, 128);
      fence_proxy(m);
      m.barrier(1, waiting + 32, false, testing::site("named_barrier_arrive"));
      return;
    }
    if (t < waiting) m.barrier(1, waiting + 32, true, testing::site("named_barrier_sync"));
    float d[8];
    fence(m);
    multiply(m, p, d);
    commit(m);
    wait(m, 0);
    take(m, d, 16, out);
  };
  Memory memory;
  std::string message;
  CHECK_MESSAGE(fault_within(memory, {kernel}, 10, &message) == "", message);
  CHECK(count_wrong(out, 16, 64) == 0);
  waiting = 96;
  check_fault(kernel, "race", "wgmma");
}
