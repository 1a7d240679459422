// SPDX-License-Identifier: Apache-2.0
// wgmma on the simulated machine: one program for each broken rule, which ends in the fault of that
// name.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>

#include "tests/support/wgmma_program.h"

using namespace catenary;
using namespace catenary::sim;
using namespace catenary::testing;

namespace {

void check_fault(const SimKernel& kernel, const char* name, const char* text) {
  Memory memory;
  std::string message;
  CHECK(fault_within(memory, {kernel}, 20, &message) == name);
  CHECK_MESSAGE(message.find(text) != std::string::npos, message);
}

void check_fault(const Program& p, const char* name, const char* text) {
  std::vector<float> out;
  check_fault(kernel_of(p, out), name, text);
}

}  // namespace

TEST_CASE("a missing fence, commit, wait or barrier is found by name") {
  Program p = small_program();
  SUBCASE("wgmma_fence") {
    p.wgmma_fence = false;
    check_fault(p, "accumulator", "no wgmma_fence");
  }
  SUBCASE("wgmma_commit") {
    p.commits = false;
    check_fault(p, "accumulator", "before wgmma_wait");
  }
  SUBCASE("wgmma_wait") {
    p.waits = false;
    check_fault(p, "accumulator", "before wgmma_wait");
  }
  SUBCASE("proxy fence after st_shared") {
    p.proxy_fence = false;
    check_fault(p, "proxy_fence", "without a proxy fence after CTA 0, thread");
  }
  SUBCASE("barrier") {
    p.barrier = false;
    std::vector<float> out;
    const SimKernel kernel = kernel_of(p, out);
    for (u64 seed = 1; seed <= 20; ++seed) {
      Memory memory;
      std::string message;
      const std::string name = fault_of(memory, {kernel}, seed, &message);
      CHECK_MESSAGE((name == "race" || name == "unwritten"), message);
    }
  }
}

TEST_CASE("an exit with a wgmma in flight is a fault, committed or not") {
  for (const bool commits : {false, true}) {
    Program p = small_program();
    SimKernel kernel;
    kernel.threads = 128;
    kernel.smem_bytes = p.smem_bytes();
    kernel.body = [&](Machine& m) {
      fill(m, p.a, a_value);
      fill(m, p.b, b_value);
      fence_proxy(m);
      sync(m);
      float d[8];
      fence(m);
      multiply(m, p, d);
      if (commits) commit(m);
    };
    check_fault(kernel, "outstanding", "wgmma group 1");
  }
}

TEST_CASE("accumulators must not be accessed between wgmma and its wait") {
  Program p = small_program();
  SUBCASE("an early read") {
    p.before_wait = [](Machine& m, float* d) {
      if (m.at.thread == 77) m.use_register(std::bit_cast<u32>(-d[3]), testing::site("add"));
    };
    check_fault(p, "accumulator", "thread 77 (warp 2, lane 13)");
  }
  SUBCASE("an early write") {
    p.before_wait = [](Machine& m, float* d) {
      if (m.at.thread == 78) d[5] = 0;
    };
    check_fault(p, "accumulator", "accumulator register 5 thread 78 has written since");
  }
  SUBCASE("a wgmma of another shape on the same registers") {
    p.spoil = [](WgmmaOperands& o, u32 step) { o.n = step == 1 ? 8 : 16; };
    check_fault(p, "accumulator", "8 columns in registers of the wgmma of 16 columns");
  }
  SUBCASE("accumulating onto a copy of an accumulator in flight") {
    p.before_wait = [&](Machine& m, float* d) {
      float copy[8];
      std::memcpy(copy, d, sizeof copy);
      multiply(m, p, copy, 1, 2);
    };
    check_fault(p, "accumulator", "before wgmma_wait");
  }
  SUBCASE("a store to an operand") {
    p.before_wait = [&](Machine& m, float*) {
      const u16 zero = 0;
      if (m.at.thread != 40) return;
      m.store_shared(smem(m, p.b.offset(3, 3)), &zero, 2, testing::site("st_shared"));
    };
    check_fault(p, "copy_in_flight", "outstanding read");
  }
}

TEST_CASE("descriptors with a wrong swizzle or offset are found by name") {
  Program p = small_program();
  const auto with = [&](u32 leading, u32 stride, u32 span) {
    p.spoil = [=](WgmmaOperands& o, u32 step) {
      o.a_descriptor = Operand::encode(32 * step, leading, stride, span);
    };
  };
  SUBCASE("swizzle") {
    with(0, 1024, 64);
    check_fault(p, "descriptor", "row 1 of a 64-byte swizzle pattern");
    with(0, 1024, 32);
    check_fault(p, "descriptor", "row 1 of a 32-byte swizzle pattern");
    with(0, 1024, 16);
    check_fault(p, "descriptor", "leading byte offset of 0");
  }
  SUBCASE("stride byte offset") {
    with(0, 512, 128);
    check_fault(p, "descriptor", "stride byte offset of 512");
    with(0, 16384, 128);
    check_fault(p, "descriptor", "outside [1024,");
    p.b.base = 32768;
    with(0, 2048, 128);
    check_fault(p, "unwritten", "which is not written");
  }
  SUBCASE("leading byte offset of an MN-major operand") {
    p.b.rows = 128;
    p.b.mn_major = true;
    std::vector<float> out;
    Memory memory;
    CHECK(fault_of(memory, {kernel_of(p, out)}) == "");
    p.spoil = [&](WgmmaOperands& o, u32 step) {
      o.b_descriptor = Operand::encode(p.b.base + step * 2048, 16, 1024, 128);
    };
    check_fault(p, "descriptor", "leading byte offset of 16");
    p.spoil = [&](WgmmaOperands& o, u32 step) {
      o.b_descriptor = Operand::encode(p.b.base + step * 2048, 16384, 1024, 128);
    };
    check_fault(p, "descriptor", "outside [1024,");
  }
  SUBCASE("alignment") {
    p.a.base = 256;
    p.b.base = 16384;
    check_fault(p, "descriptor", "starts at shared address 1280");
  }
  SUBCASE("reserved bits") {
    p.spoil = [](WgmmaOperands& o, u32) { o.b_descriptor |= u64{1} << 46; };
    check_fault(p, "descriptor", "reserved");
  }
}

TEST_CASE("operands that the instruction does not accept") {
  Program p = small_program();
  const auto spoiled = [&](std::function<void(WgmmaOperands&)> how, const char* text) {
    p.spoil = [how](WgmmaOperands& o, u32) { how(o); };
    check_fault(p, "operand", text);
  };
  spoiled([](WgmmaOperands& o) { o.n = 12; }, "12 columns");
  spoiled([](WgmmaOperands& o) { o.n = 264; }, "264 columns");
  spoiled([](WgmmaOperands& o) { o.number = Number::kU32; },
          "not bf16, f16, tf32, or fp8 from shared memory");
  p.a_in_registers = true;
  spoiled([](WgmmaOperands& o) { o.trans_a = true; }, "transposes A, which is in registers");
  p.a_in_registers = false;
  p.a.number = p.b.number = Number::kTF32;
  p.a.k = p.b.k = 32;
  spoiled([](WgmmaOperands& o) { o.trans_b = true; }, "transposes B, which is tf32");
  const auto fp8 = [](WgmmaOperands& o) {
    o.number = Number::kE4M3;
    o.trans_a = true;
  };
  spoiled(fp8, "transposes A, which is fp8");
}

TEST_CASE("the threads of a warpgroup must pass the same descriptors and scale-d") {
  Program p = small_program();
  const Operand b = p.b;
  SimKernel kernel;
  kernel.threads = 128;
  kernel.smem_bytes = p.smem_bytes();
  bool of_scale = false;
  kernel.body = [&](Machine& m) {
    float d[8];
    fence(m);
    WgmmaOperands o{Number::kBF16, 16,   p.a.descriptor(0), nullptr, b.descriptor(0), false,
                    false,         false};
    if (m.at.thread == 64) (of_scale ? o.scale_d : o.trans_b) = true;
    m.wgmma(d, o, testing::site("wgmma"));
  };
  check_fault(kernel, "operand", "another form of the instruction in thread 64");
  of_scale = true;
  check_fault(kernel, "operand", "another scale-d in thread 64");
}

TEST_CASE("all threads of a warpgroup execute wgmma together") {
  const auto one_differs = [](std::function<void(Machine&)> does, u32 threads = 128) {
    SimKernel kernel;
    kernel.threads = threads;
    kernel.body = [does](Machine& m) {
      if (m.at.thread == 37) return does(m);
      fence(m);
    };
    return kernel;
  };
  check_fault(one_differs([](Machine&) {}), "divergence", "wgmma_fence");
  check_fault(one_differs([](Machine& m) { commit(m); }), "divergence", "wgmma_commit");
  check_fault(
      one_differs([](Machine& m) { m.warp_barrier(0xffffffffu, testing::site("warp_barrier")); }),
      "divergence", "warp_barrier");
  check_fault(one_differs([](Machine& m) { commit(m); }, 96), "divergence",
              "outside a whole warpgroup: the CTA has 96 threads");
}

TEST_CASE("A that ldmatrix writes after the fence is a fault") {
  Operand a;
  a.span = 16;
  a.k = 16;
  Operand b;
  b.rows = 16;
  b.k = 16;
  b.span = 32;
  b.base = 4096;
  bool late = false;
  std::vector<float> out(kM * 16);
  SimKernel kernel;
  kernel.threads = 128;
  kernel.smem_bytes = b.base + b.bytes();
  kernel.body = [&](Machine& m) {
    fill(m, a, a_value);
    fill(m, b, b_value);
    fence_proxy(m);
    sync(m);
    const u32 t = m.at.thread, row = t / 32 * 16 + t % 16;
    u32 registers[4];
    const auto load = [&] {
      m.ldmatrix(registers, smem(m, a.offset(row, t % 32 / 16 * 8)), 4, false,
                 testing::site("ldmatrix_x4"));
    };
    if (!late) load();
    fence(m);
    if (late) load();
    float d[8];
    m.wgmma(d, {Number::kBF16, 16, 0, registers, b.descriptor(0), false, false, false},
            testing::site("wgmma"));
    for (u32& r : registers) r = 0;  // the instruction has read them
    commit(m);
    wait(m, 0);
    take(m, d, 16, out);
  };
  for (u64 seed = 1; seed <= 20; ++seed) {
    Memory memory;
    std::string message;
    REQUIRE_MESSAGE(fault_of(memory, {kernel}, seed, &message) == "", message);
    CHECK(count_wrong(out, 16, 16) == 0);
  }
  late = true;
  check_fault(kernel, "accumulator", "ldmatrix wrote after the last wgmma_fence");
}
