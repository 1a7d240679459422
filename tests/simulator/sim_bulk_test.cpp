// SPDX-License-Identifier: Apache-2.0
// Bulk and TMA operations in the simulator: loads that complete at an mbarrier, stores and
// reductions that complete in bulk groups, by address or by tensor map; each correct and with one
// fault.
#include "simulator/model/tensor_map.h"
#include "tests/support/sim_programs.h"

using namespace catenary;
using namespace catenary::sim;
using namespace catenary::testing;

namespace {

// One thread and an mbarrier at smem+0 for one arrival, initialised and published.
SimKernel alone(std::vector<Region> regions, std::function<void(Machine&, u32)> body) {
  SimKernel k{.threads = 1, .smem_bytes = 16 << 10, .regions = std::move(regions)};
  k.body = [body = std::move(body)](Machine& m) {
    m.mbarrier_init(smem(m, 0), 1, site("init"));
    m.fence_mbarrier_init(site("fence"));
    body(m, smem(m, 0));
  };
  return k;
}

struct Buffers {
  Memory memory;
  Region x = numbered(memory, "x", RegionRole::kInput, 4096, 1);
  Region y = buffer(memory, "y", RegionRole::kOutput, 4096, false);
};

// Two rounds: 32 lanes write 512 bytes to shared memory, one of them stores these, all reuse it.
enum class Wrong { kNothing, kNoFence, kNoWait, kPending, kNoBarrierAfterWait, kNoLastWait };

SimKernel stores(const Buffers& b, Wrong wrong) {
  SimKernel k{.threads = 32, .smem_bytes = 512, .regions = {b.y}};
  k.body = [y = b.y, wrong](Machine& m) {
    const u32 lane = m.at.thread;
    for (u32 i = 0; i < 4; ++i) {
      for (u32 w = 0; w < 4; ++w) store(m, smem(m, 16 * lane + 4 * w), 1000 * i + 4 * lane + w);
      if (wrong != Wrong::kNoFence) m.fence_proxy_async(site("fence_proxy"));
      sync(m);
      if (lane == 0) {
        m.bulk_store(at(y, 512 * i), smem(m, 0), 512, site("bulk_store"));
        m.bulk_commit(site("commit"));
        const bool last = i == 3;
        if (wrong != Wrong::kNoWait && !(last && wrong == Wrong::kNoLastWait)) {
          m.bulk_wait(wrong == Wrong::kPending ? 1 : 0, true, site("wait_read"));
        }
      }
      if (wrong != Wrong::kNoBarrierAfterWait) sync(m);
    }
  };
  return k;
}

// A 40 x 20 matrix of u32 in rows of 192 bytes, boxes of 32 x 8, 128-byte swizzle.
struct Matrix {
  Region region;
  TensorMap map = {};
  static constexpr u32 kColumns = 40, kRows = 20, kPitch = 192;
  static constexpr u32 kBox = 8 * 128;

  explicit Matrix(Region r, DType dtype = DType::kI32, bool as_tf32 = false) : region(r) {
    TensorMapSpec spec;
    spec.dtype = dtype;
    spec.as_tf32 = as_tf32;
    spec.rank = 2;
    spec.sizes[0] = kColumns;
    spec.sizes[1] = kRows;
    spec.strides[0] = kPitch;
    spec.box[0] = 32;
    spec.box[1] = 8;
    spec.swizzle = Swizzle::k128;
    spec.base = r.begin;
    map = encode_tensor_map(spec);
  }
  u32 element(i32 column, i32 row) const { return word(region, row * kPitch / 4 + column); }
  static bool inside(i32 column, i32 row) {
    return column >= 0 && row >= 0 && column < static_cast<i32>(kColumns) &&
           row < static_cast<i32>(kRows);
  }
  // The address of element (column, row) of a box at smem offset `box`.
  static u32 element_address(Machine& m, u32 box, u32 column, u32 row) {
    return swizzle_address(smem(m, box + 128 * row + 4 * column), Swizzle::k128);
  }
};

}  // namespace

TEST_CASE("a bulk load's size, alignment and bounds") {
  Buffers b;
  const auto loads = [&](u32 to, i64 from, u32 bytes) {
    return alone({b.x}, [=, x = b.x](Machine& m, u32 barrier) {
      m.mbarrier_expect(barrier, bytes, true, site("expect"));
      m.bulk_load(smem(m, to), at(x, from), bytes, barrier, 0, site("bulk_load"));
      wait(m, barrier, 0);
      CHECK(load(m, smem(m, to)) == word(x, from / 4));
    });
  };
  passes(b.memory, loads(16, 16, 4080));
  fails(b.memory, loads(64, 0, 24), {"operand"}, "24 bytes", 1);
  fails(b.memory, loads(64, 0, 0), {"operand"}, "0 bytes", 1);
  fails(b.memory, loads(64, 8, 64), {"misaligned"}, "8 over a multiple of 16", 1);
  fails(b.memory, loads(72, 0, 64), {"misaligned"}, "8 over a multiple of 16", 1);
  fails(b.memory, loads(64, 4064, 48), {"out_of_bounds"}, "byte 4064 of 'x', which has 4096", 1);
  fails(b.memory, loads((16 << 10) - 32, 0, 64), {"out_of_bounds"}, "offset 16352 of 16384", 1);
  fails(b.memory, loads(0, 0, 64), {"barrier"}, "which is an mbarrier", 1);
}

TEST_CASE("weights are loaded before the dependency wait, inputs after it") {
  Buffers b;
  Region w = b.x;
  for (const RegionRole role : {RegionRole::kWeight, RegionRole::kInput}) {
    w.role = role;
    SimKernel k = alone({w}, [=](Machine& m, u32 barrier) {
      m.mbarrier_expect(barrier, 64, true, site("expect"));
      m.bulk_load(smem(m, 64), at(w), 64, barrier, 0, site("bulk_load"));
      m.griddepcontrol_wait(site("griddepcontrol_wait"));
      wait(m, barrier, 0);
    });
    k.waits = true;
    if (role == RegionRole::kWeight) {
      passes(b.memory, k);
    } else {
      fails(b.memory, k, {"before_dependency_wait"}, "'x'");
    }
  }
}

TEST_CASE(
    "the bytes of a bulk load must not be accessed before its phase completes, nor the CTA exit") {
  Buffers b;
  const auto program = [&](int step) {
    return alone({b.x}, [=, x = b.x](Machine& m, u32 barrier) {
      if (step == 3) store(m, smem(m, 64), 1);
      if (step == 4) {
        store(m, smem(m, 64), 1);
        m.fence_proxy_async(site("fence_proxy"));
      }
      m.mbarrier_expect(barrier, 64, true, site("expect"));
      m.bulk_load(smem(m, 64), at(x), 64, barrier, 0, site("bulk_load"));
      if (step == 0) load(m, smem(m, 64));
      if (step == 1) store(m, smem(m, 68), 0);
      if (step == 2) return;
      wait(m, barrier, 0);
      CHECK(load(m, smem(m, 64)) == 1);
    });
  };
  fails(b.memory, program(0), {"copy_in_flight"}, "an asynchronous transaction (bulk_load at");
  fails(b.memory, program(1), {"copy_in_flight"});
  may_fail(b.memory, program(2), "outstanding", "bulk_load");
  fails(b.memory, program(3), {"proxy_fence"}, "st_shared at");
  passes(b.memory, program(4));
  passes(b.memory, program(5));
}

TEST_CASE("bulk stores from one buffer, which is reused, under every seed") {
  Buffers b;
  for (u64 seed = 1; seed <= 50; ++seed) {
    std::string message;
    b.memory.mark(at(b.y), b.y.bytes, false);
    REQUIRE_MESSAGE(fault_of(b.memory, {stores(b, Wrong::kNothing)}, seed, &message) == "",
                    message);
    for (u32 i = 0; i < 512; ++i) REQUIRE(word(b.y, i) == 1000 * (i / 128) + i % 128);
  }
}

TEST_CASE("a bulk store without its fence, or from a buffer that is reused too early") {
  Buffers b;
  fails(b.memory, stores(b, Wrong::kNoFence), {"proxy_fence"}, "st_shared at");
  for (const Wrong wrong : {Wrong::kNoWait, Wrong::kPending, Wrong::kNoBarrierAfterWait}) {
    fails(b.memory, stores(b, wrong), {"copy_in_flight", "race"}, "shared memory at offset");
  }
  fails(b.memory, stores(b, Wrong::kNoLastWait), {"outstanding"}, "bulk group 4");
}

TEST_CASE("wait_group.read frees shared memory and does not order global memory") {
  Buffers b;
  for (const bool read_only : {true, false}) {
    SimKernel k{.threads = 1, .smem_bytes = 64, .regions = {b.y}};
    k.body = [=, y = b.y](Machine& m) {
      for (u32 w = 0; w < 4; ++w) store(m, smem(m, 4 * w), w + 9);
      m.fence_proxy_async(site("fence_proxy"));
      m.bulk_store(at(y), smem(m, 0), 16, site("bulk_store"));
      m.bulk_commit(site("commit"));
      m.bulk_wait(0, read_only, site("wait"));
      store(m, smem(m, 0), 0);
      u32 value = 0;
      m.load_global(&value, at(y), 4, Read::kPlain, site("ld_global"));
      CHECK(value == 9);
    };
    if (read_only) {
      fails(b.memory, k, {"race"}, "bulk_store at");
    } else {
      passes(b.memory, k);
    }
  }
}

TEST_CASE("a bulk store reads written bytes and writes only where the kernel may") {
  Buffers b;
  const auto program = [&](const Region& to, bool writes, u32 bytes, i64 offset) {
    SimKernel k{.threads = 1, .smem_bytes = 256, .regions = {b.x, b.y}};
    k.body = [=](Machine& m) {
      for (u32 w = 0; writes && w < 16; ++w) store(m, smem(m, 4 * w), w);
      m.fence_proxy_async(site("fence_proxy"));
      m.bulk_store(at(to, offset), smem(m, 0), bytes, site("bulk_store"));
      m.bulk_commit(site("commit"));
      m.bulk_wait(0, true, site("wait"));
    };
    return k;
  };
  passes(b.memory, program(b.y, true, 64, 0));
  fails(b.memory, program(b.y, false, 64, 0), {"unwritten"}, "shared memory", 1);
  fails(b.memory, program(b.x, true, 64, 0), {"read_only"}, "'x'", 1);
  fails(b.memory, program(b.y, true, 64, 4048), {"out_of_bounds"}, "'y'", 1);
  fails(b.memory, program(b.y, true, 64, 8), {"misaligned"}, "", 1);
  fails(b.memory, program(b.y, true, 40, 0), {"operand"}, "40 bytes", 1);
  SimKernel early = program(b.y, true, 64, 0);
  early.waits = true;
  fails(b.memory, early, {"before_dependency_wait"}, "'y'", 1);
}

TEST_CASE("bulk reductions of all CTAs add up, on written memory") {
  Buffers b;
  for (const Number number : {Number::kF32, Number::kBF16, Number::kU32}) {
    const u32 one = number == Number::kF32 ? 0x3f800000 : number == Number::kBF16 ? 0x3f803f80 : 1;
    const u32 six = number == Number::kF32 ? 0x40c00000 : number == Number::kBF16 ? 0x40c040c0 : 6;
    SimKernel k{.ctas = 6, .threads = 1, .smem_bytes = 64, .regions = {b.y}};
    k.body = [=, y = b.y](Machine& m) {
      for (u32 w = 0; w < 16; ++w) store(m, smem(m, 4 * w), one);
      m.fence_proxy_async(site("fence_proxy"));
      m.bulk_reduce(at(y), smem(m, 0), 64, number, site("bulk_reduce"));
      m.bulk_commit(site("commit"));
      m.bulk_wait(0, true, site("wait"));
    };
    for (u64 seed = 1; seed <= 20; ++seed) {
      b.memory.mark(at(b.y), 64, true);
      std::memset(at(b.y), 0, 64);
      std::string message;
      REQUIRE_MESSAGE(fault_of(b.memory, {k}, seed, &message) == "", message);
      for (u32 w = 0; w < 16; ++w) REQUIRE(word(b.y, w) == six);
    }
    b.memory.mark(at(b.y), 64, false);
    fails(b.memory, k, {"unwritten"}, "adds to byte 0 of 'y'", 2);
  }
  SimKernel k = alone({b.y}, [y = b.y](Machine& m, u32) {
    m.bulk_reduce(at(y), smem(m, 64), 64, Number::kTF32, site("bulk_reduce"));
  });
  fails(b.memory, k, {"operand"}, "tf32", 1);
}

TEST_CASE("bulk stores of two CTAs to one address are a race, reductions are not") {
  Buffers b;
  SimKernel k{.ctas = 2, .threads = 1, .smem_bytes = 64, .regions = {b.y}};
  k.body = [=, y = b.y](Machine& m) {
    for (u32 w = 0; w < 4; ++w) store(m, smem(m, 4 * w), 0);
    m.fence_proxy_async(site("fence_proxy"));
    m.bulk_store(at(y), smem(m, 0), 16, site("bulk_store"));
    m.bulk_commit(site("commit"));
    m.bulk_wait(0, false, site("wait"));
  };
  fails(b.memory, k, {"race"}, "byte 0 of 'y'");
}

TEST_CASE("a prefetch is bounded and aligned, and legal before the dependency wait") {
  Buffers b;
  const auto program = [&](i64 offset, u32 bytes) {
    SimKernel k = alone({b.x}, [=, x = b.x](Machine& m, u32) {
      m.bulk_prefetch(at(x, offset), bytes, site("prefetch"));
      m.griddepcontrol_wait(site("griddepcontrol_wait"));
    });
    k.waits = true;
    return k;
  };
  passes(b.memory, program(0, 4096), 1);
  fails(b.memory, program(16, 4096), {"out_of_bounds"}, "'x'", 1);
  fails(b.memory, program(8, 16), {"misaligned"}, "8 over", 1);
  fails(b.memory, program(0, 8), {"operand"}, "8 bytes", 1);
}

TEST_CASE("a box is loaded swizzled, with zeros outside, and its full bytes are delivered") {
  Memory memory;
  const Matrix x(numbered(memory, "x", RegionRole::kInput, 20 * 192));
  for (const auto& [column, row] : {std::pair(0, 0), {8, 12}, {-4, -3}, {24, 16}, {100, 0}}) {
    const SimKernel k = alone({x.region}, [&x, column = column, row = row](Machine& m, u32 b) {
      const i32 corner[] = {column, row};
      m.mbarrier_expect(b, Matrix::kBox, true, site("expect"));
      m.tma_load(smem(m, 1024), &x.map, corner, 2, b, 0, site("tma_load"));
      wait(m, b, 0);
      for (u32 i = 0; i < 32 * 8; ++i) {
        const i32 c = column + static_cast<i32>(i % 32);
        const i32 r = row + static_cast<i32>(i / 32);
        const u32 expected = Matrix::inside(c, r) ? x.element(c, r) : 0;
        CHECK(load(m, Matrix::element_address(m, 1024, i % 32, i / 32)) == expected);
      }
    });
    passes(memory, k, 10);
  }
}

TEST_CASE("a box whose corner is not a multiple of 16 bytes is a fault") {
  Memory memory;
  const Matrix x(numbered(memory, "x", RegionRole::kInput, 20 * 192));
  for (const i32 column : {1, -2, 7}) {
    const SimKernel k = alone({x.region}, [&x, column](Machine& m, u32 b) {
      const i32 corner[] = {column, 0};
      m.mbarrier_expect(b, Matrix::kBox, true, site("expect"));
      m.tma_load(smem(m, 1024), &x.map, corner, 2, b, 0, site("tma_load"));
      wait(m, b, 0);
    });
    fails(memory, k, {"misaligned"}, "innermost coordinate", 1);
  }
}

TEST_CASE("a box with a negative coordinate may be loaded but not stored") {
  Memory memory;
  const Matrix out(buffer(memory, "y", RegionRole::kOutput, 20 * 192, true));
  SimKernel k{.threads = 1, .smem_bytes = 2048, .regions = {out.region}};
  k.body = [&out](Machine& m) {
    const i32 corner[] = {0, -2};
    m.tma_store(&out.map, corner, 2, smem(m, 0), site("tma_store"));
  };
  fails(memory, k, {"out_of_bounds"}, "negative coordinate", 1);
}

TEST_CASE("a map of tf32 rounds loads, and is not for stores") {
  Memory memory;
  const Matrix out(buffer(memory, "y", RegionRole::kOutput, 20 * 192, true), DType::kF32, true);
  SimKernel k{.threads = 1, .smem_bytes = 2048, .regions = {out.region}};
  k.body = [&out](Machine& m) {
    const i32 corner[] = {0, 0};
    m.tma_store(&out.map, corner, 2, smem(m, 0), site("tma_store"));
  };
  fails(memory, k, {"tensor_map"}, "of tf32, which is for loads", 1);
}

TEST_CASE("a box is stored and added without its part outside the tensor") {
  Memory memory;
  Region y = buffer(memory, "y", RegionRole::kOutput, 20 * 192, true);
  for (const bool add : {false, true}) {
    const Matrix out(y);
    for (u64 seed = 1; seed <= 20; ++seed) {
      std::memset(at(y), 1, 20 * 192);
      SimKernel k{.threads = 32, .smem_bytes = 2048, .regions = {y}};
      k.body = [&out, add](Machine& m) {
        // Only the part inside is written: the rest of the box is not read.
        const i32 corner[] = {24, 14};
        for (u32 r = 0; r < 6 && m.at.thread < 16; ++r) {
          store(m, Matrix::element_address(m, 0, m.at.thread, r), 100 * r + m.at.thread);
        }
        m.fence_proxy_async(site("fence_proxy"));
        sync(m);
        if (m.at.thread != 0) return;
        if (add) {
          m.tma_reduce(&out.map, corner, 2, smem(m, 0), site("tma_reduce"));
        } else {
          m.tma_store(&out.map, corner, 2, smem(m, 0), site("tma_store"));
        }
        m.bulk_commit(site("commit"));
        m.bulk_wait(0, true, site("wait"));
      };
      std::string message;
      REQUIRE_MESSAGE(fault_of(memory, {k}, seed, &message) == "", message);
      for (u32 i = 0; i < 20 * 48; ++i) {
        const u32 r = i / 48;
        const u32 c = i % 48;
        const u32 before = 0x01010101;
        const bool hit = c >= 24 && c < 40 && r >= 14;
        const u32 value = 100 * (r - 14) + c - 24;
        REQUIRE(word(y, i) == (hit ? value + (add ? before : 0) : before));
      }
    }
  }
}

TEST_CASE("TMA operations with one fault") {
  Memory memory;
  const Region region = numbered(memory, "x", RegionRole::kInput, 20 * 192);
  const Matrix x(region);
  struct Program {
    const TensorMap* map;
    u32 to = 1024, rank = 2, bytes = Matrix::kBox;
    i32 row = 16;
  };
  const auto loads = [&](Program p) {
    return alone({region}, [p](Machine& m, u32 b) {
      const i32 corner[] = {0, p.row, 0};
      m.mbarrier_expect(b, p.bytes, true, site("expect"));
      m.tma_load(smem(m, p.to), p.map, corner, p.rank, b, 0, site("tma_load"));
      wait(m, b, 0);
    });
  };
  passes(memory, loads({&x.map}));
  TensorMap none = {};
  fails(memory, loads({&none}), {"tensor_map"}, "cuTensorMapEncodeTiled", 1);
  fails(memory, loads({&x.map, 1024, 3}), {"tensor_map"}, "2 dimensions with 3", 1);
  fails(memory, loads({&x.map, 1024 + 64}), {"misaligned"}, "64 over a multiple of 128", 1);
  passes(memory, loads({&x.map, 15 << 10}), 1);
  fails(memory, loads({&x.map, (15 << 10) + 128}), {"out_of_bounds"}, "shared memory", 1);
  // The rows inside, not the whole box.
  fails(memory, loads({&x.map, 1024, 2, 4 * 128}), {"transaction"},
        "expects 512 bytes, but 1024 have been delivered");
  fails(memory, loads({&x.map, 1024, 2, 9 * 128}), {"deadlock"}, "1024 of 1152 expected bytes");
  Region longer = region;
  longer.bytes = 19 * 192;
  SimKernel k = loads({&x.map});
  k.regions = {longer};
  fails(memory, k, {"out_of_bounds"}, "'x', which has 3648", 1);
  // A box that no CTA of this launch can hold.
  k = loads({&x.map});
  k.smem_bytes = 1000;
  fails(memory, k, {"tensor_map"}, "1024 bytes of 1000", 1);
  fails(memory,
        alone({}, [&](Machine& m, u32) { m.tma_prefetch_descriptor(&none, site("prefetch")); }),
        {"tensor_map"}, "", 1);
  passes(memory,
         alone({}, [&](Machine& m, u32) { m.tma_prefetch_descriptor(&x.map, site("prefetch")); }),
         1);
}

TEST_CASE("a box that is stored must be written, fenced and aligned") {
  Memory memory;
  const Region y = buffer(memory, "y", RegionRole::kOutput, 20 * 192, false);
  const Matrix out(y);
  const auto program = [&](u32 rows, bool fenced, u32 from) {
    SimKernel k{.threads = 32, .smem_bytes = 4096, .regions = {y}};
    k.body = [&out, rows, fenced, from](Machine& m) {
      const i32 corner[] = {0, 0};
      for (u32 r = 0; r < rows; ++r) store(m, smem(m, from + 128 * r + 4 * m.at.thread), 0);
      if (fenced) m.fence_proxy_async(site("fence_proxy"));
      sync(m);
      if (m.at.thread != 0) return;
      m.tma_store(&out.map, corner, 2, smem(m, from), site("tma_store"));
      m.bulk_commit(site("commit"));
      m.bulk_wait(0, true, site("wait"));
    };
    return k;
  };
  passes(memory, program(8, true, 1024), 10);
  passes(memory, program(8, true, 128), 10);
  fails(memory, program(7, true, 0), {"unwritten"}, "offset 896");
  fails(memory, program(8, false, 0), {"proxy_fence"}, "st_shared");
  fails(memory, program(8, true, 32), {"misaligned"}, "32 over a multiple of 128", 1);
}
