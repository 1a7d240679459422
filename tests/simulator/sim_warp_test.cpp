// SPDX-License-Identifier: Apache-2.0
// Instructions that a warp executes together: correct programs under many seeds with their numbers,
// and one program for each broken rule.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>

#include "tests/support/sim_kernel.h"

using namespace catenary;
using namespace catenary::sim;
using namespace catenary::testing;

namespace {

constexpr u32 kAll = 0xffffffffu;
constexpr u64 kSeeds = 50;

u16 bf16(i32 v) {
  return static_cast<u16>(std::bit_cast<u32>(static_cast<float>(v)) >> 16);  // exact: |v| < 256
}

i32 a_value(u32 row, u32 k) { return static_cast<i32>((row * 3 + k * 5) % 9) - 4; }
i32 b_value(u32 k, u32 n) { return static_cast<i32>((k * 7 + n * 2) % 11) - 5; }

void store(Machine& m, u32 offset, u16 value) {
  m.store_shared(smem(m, offset), &value, 2, testing::site("st_shared"));
}

SimKernel warp(std::function<void(Machine&)> body, u32 smem_bytes = 1024) {
  return {.threads = 32, .smem_bytes = smem_bytes, .regions = {}, .body = std::move(body)};
}

// The first fault of kSeeds runs; empty if all pass.
std::string faults(const SimKernel& kernel, std::string* message = nullptr) {
  Memory memory;
  return fault_within(memory, {kernel}, kSeeds, message);
}

// Each seed must end in this fault, with `text` in its sentence.
void check_fault(const SimKernel& kernel, const char* name, const char* text) {
  for (u64 seed = 1; seed <= 20; ++seed) {
    Memory memory;
    std::string message;
    const std::string got = fault_of(memory, {kernel}, seed, &message);
    INFO(message);
    CHECK(got == name);
    CHECK(message.find(text) != std::string::npos);
  }
}

constexpr u32 kB = 512;  // offset of B, 16 x 8, rows of 16 bytes; A is 16 x 16, rows of 32 bytes

void fill(Machine& m) {
  const u32 t = m.at.thread;
  for (u32 i = t; i < 256; i += 32) store(m, 2 * i, bf16(a_value(i / 16, i % 16)));
  for (u32 i = t; i < 128; i += 32) store(m, kB + 2 * i, bf16(b_value(i / 8, i % 8)));
}

void multiply(Machine& m, float* d) {
  const u32 t = m.at.thread;
  u32 a[4], b[2];
  m.ldmatrix(a, smem(m, t % 16 * 32 + t / 16 * 16), 4, false, testing::site("ldmatrix_x4"));
  m.ldmatrix(b, smem(m, kB + t % 16 * 16), 2, true, testing::site("ldmatrix_x2_trans"));
  m.mma(d, a, b, Number::kBF16, testing::site("mma_bf16"));
}

}  // namespace

TEST_CASE("ldmatrix and mma multiply what the lanes have stored, under every seed") {
  float d[32][4];
  const SimKernel kernel = warp([&](Machine& m) {
    fill(m);
    m.warp_barrier(kAll, testing::site("warp_barrier"));
    float mine[4] = {1, 2, 3, 4};
    multiply(m, mine);
    std::memcpy(d[m.at.thread], mine, sizeof mine);
  });
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    Memory memory;
    std::memset(d, 0, sizeof d);
    std::string message;
    REQUIRE_MESSAGE(fault_of(memory, {kernel}, seed, &message) == "", message);
    for (u32 row = 0; row < 16; ++row) {
      for (u32 n = 0; n < 8; ++n) {
        i32 want = static_cast<i32>(1 + 2 * (row / 8) + n % 2);
        for (u32 k = 0; k < 16; ++k) want += a_value(row, k) * b_value(k, n);
        CHECK(d[row % 8 * 4 + n / 2][2 * (row / 8) + n % 2] == static_cast<float>(want));
      }
    }
  }
}

TEST_CASE("stmatrix stores what ldmatrix loads, for one, two and four matrices") {
  for (const u32 count : {1u, 2u, 4u}) {
    for (const bool trans : {false, true}) {
      bool same[32] = {};
      u16 stored[64] = {};
      const SimKernel kernel = warp([&](Machine& m) {
        const u32 t = m.at.thread;
        u32 out[4], back[4];
        for (u32 i = 0; i < 4; ++i) out[i] = (100 * i + 2 * t) | (100 * i + 2 * t + 1) << 16;
        // Lanes whose address is not used may pass any value.
        const u32 row = t < 8 * count ? smem(m, 16 * t) : 3;
        m.stmatrix(row, out, count, trans, testing::site("stmatrix"));
        m.warp_barrier(kAll, testing::site("warp_barrier"));
        m.ldmatrix(back, row, count, trans, testing::site("ldmatrix"));
        same[t] = std::memcmp(out, back, 4 * count) == 0;
        if (t != 0) return;
        for (u32 i = 0; i < 64; ++i) {
          m.load_shared(&stored[i], smem(m, 2 * i), 2, testing::site("ld_shared"));
        }
      });
      std::string message;
      REQUIRE_MESSAGE(faults(kernel, &message) == "", message);
      for (const bool s : same) CHECK(s);
      // Row r, column c of the first matrix: element c % 2 of lane 4r + c / 2, or its transpose.
      for (u32 r = 0; r < 8; ++r) {
        for (u32 c = 0; c < 8; ++c) {
          CHECK(stored[8 * r + c] == (trans ? 8 * c + r : 8 * r + c));
        }
      }
    }
  }
}

TEST_CASE("a missing warp barrier before ldmatrix is a race, or a read of unwritten bytes") {
  const SimKernel kernel = warp([](Machine& m) {
    fill(m);
    float d[4] = {};
    multiply(m, d);
  });
  for (u64 seed = 1; seed <= 20; ++seed) {
    Memory memory;
    std::string message;
    const std::string name = fault_of(memory, {kernel}, seed, &message);
    CHECK_MESSAGE((name == "race" || name == "unwritten"), message);
    CHECK(message.find("ldmatrix_x4") != std::string::npos);
  }
}

TEST_CASE("warp instructions other than the barrier order no memory") {
  const auto then_write = [](bool barrier) {
    return warp([=](Machine& m) {
      fill(m);
      m.warp_barrier(kAll, testing::site("warp_barrier"));
      u32 a[4];
      const u32 t = m.at.thread;
      m.ldmatrix(a, smem(m, 16 * t), 4, false, testing::site("ldmatrix_x4"));
      m.vote(1, Vote::kAll, kAll, testing::site("vote_all"));
      m.shuffle(0, 0, Shuffle::kIndex, kAll, testing::site("shuffle_index"));
      if (barrier) m.warp_barrier(kAll, testing::site("warp_barrier"));
      store(m, 16 * ((t + 1) % 32), 0);  // a row whose address another lane has passed
    });
  };
  check_fault(then_write(false), "race", "ldmatrix_x4");
  std::string message;
  CHECK_MESSAGE(faults(then_write(true), &message) == "", message);
}

TEST_CASE("rows of ldmatrix are in the CTA's own shared memory, at multiples of 16 bytes") {
  const auto at = [](u32 offset, u32 count) {
    return warp([=](Machine& m) {
      fill(m);
      m.warp_barrier(kAll, testing::site("warp_barrier"));
      u32 a[4];
      m.ldmatrix(a, smem(m, 0) + offset, count, false, testing::site("ldmatrix"));
    });
  };
  CHECK(faults(at(16, 4)) == "");
  check_fault(at(8, 4), "misaligned", "8 over a multiple of 16");
  check_fault(at(1024, 4), "out_of_bounds", "offset 1024 of 1024 bytes");
  check_fault(at(1u << 24, 4), "operand", "CTA 0");
  check_fault(at(0, 3), "operand", "3 matrices");
  check_fault(at(768, 1), "unwritten", "offset 768");
}

TEST_CASE("diverged lanes do not converge in instructions of the warp") {
  u32 other = 0;
  const auto lane_5 = [](std::function<void(Machine&)> does) {
    return warp([does](Machine& m) {
      if (m.at.thread == 5) return does(m);
      m.vote(1, Vote::kAny, kAll, testing::site("vote_any"));
    });
  };
  check_fault(lane_5([](Machine&) {}), "divergence", "vote_any");
  check_fault(lane_5([](Machine& m) { m.elect(kAll, testing::site("elect_one")); }), "divergence",
              "elect_one");
  check_fault(lane_5([](Machine& m) { m.vote(1, Vote::kAny, kAll, testing::site("vote_any")); }),
              "divergence", "vote_any");  // another line
  check_fault(lane_5([&](Machine& m) {
                other = m.shuffle(1, 0, Shuffle::kIndex, ~1u, testing::site("shuffle_index"));
              }),
              "operand", "lane 0, which is not in the mask 0xfffffffe");
  check_fault(lane_5([](Machine& m) { m.warp_barrier(~32u, testing::site("warp_barrier")); }),
              "divergence", "without its own lane");
}

TEST_CASE("an instruction of all lanes needs a whole warp") {
  SimKernel kernel;
  kernel.threads = 40;
  kernel.body = [](Machine& m) {
    if (m.at.thread >= 32) m.elect(kAll, testing::site("elect_one"));
  };
  check_fault(kernel, "divergence", "does not exist");
}

TEST_CASE("shuffles return the value of the lane that they name") {
  u32 got[32][5];
  const SimKernel kernel = warp([&](Machine& m) {
    const u32 t = m.at.thread;
    const auto take = [&](u32 lane, Shuffle kind, u32 mask = kAll) {
      return m.shuffle(100 + t, lane, kind, mask, testing::site("shuffle"));
    };
    u32 mine[5];
    mine[0] = take(t * 5 + 32, Shuffle::kIndex);  // modulo 32
    mine[1] = take(9, Shuffle::kXor);
    mine[2] = take(3, Shuffle::kUp);
    mine[3] = take(3, Shuffle::kDown);
    mine[4] = t < 8 ? take(7 - t, Shuffle::kIndex, 0xff) : 0;
    std::memcpy(got[t], mine, sizeof mine);
  });
  std::string message;
  REQUIRE_MESSAGE(faults(kernel, &message) == "", message);
  for (u32 t = 0; t < 32; ++t) {
    CHECK(got[t][0] == 100 + t * 5 % 32);
    CHECK(got[t][1] == 100 + (t ^ 9));
    CHECK(got[t][2] == (t < 3 ? 100 + t : 100 + t - 3));
    CHECK(got[t][3] == (t > 28 ? 100 + t : 100 + t + 3));
    CHECK(got[t][4] == (t < 8 ? 107 - t : 0));
  }
}

TEST_CASE("votes count the lanes of their mask; the elected lane is always the lowest") {
  const u32 mask = 0x00f0;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    u32 elected = 0, ballots = 0, all = 0, any = 0, all_even = 0;
    const SimKernel kernel = warp([&](Machine& m) {
      const u32 t = m.at.thread;
      if ((mask >> t & 1) == 0) return;
      ballots += m.vote(t % 2 == 0, Vote::kBallot, mask, testing::site("vote_ballot")) == 0x50;
      any += m.vote(t == 6, Vote::kAny, mask, testing::site("vote_any"));
      all += m.vote(t >= 4, Vote::kAll, mask, testing::site("vote_all"));
      all_even += m.vote(t % 2 == 0, Vote::kAll, mask, testing::site("vote_all"));
      for (u32 i = 0; i < 3; ++i) {
        if (m.elect(mask, testing::site("elect_one"))) elected += t;
      }
    });
    Memory memory;
    std::string message;
    REQUIRE_MESSAGE(fault_of(memory, {kernel}, seed, &message) == "", message);
    CHECK(ballots == 4);
    CHECK(any == 4);
    CHECK(all == 4);
    CHECK(all_even == 0);
    CHECK(elected == 3 * 4);
  }
}

TEST_CASE("mma accepts bf16, f16 and tf32, and no accumulator in flight") {
  const auto with = [](Number number, u32 a_bits, float d_value) {
    return warp([=](Machine& m) {
      const u32 a[4] = {0, 0, 0, a_bits}, b[2] = {0, 0};
      float d[4] = {0, 0, d_value, 0};
      m.mma(d, a, b, number, testing::site("mma"));
    });
  };
  CHECK(faults(with(Number::kTF32, 0x3f801fff, 1)) == "");
  check_fault(with(Number::kF32, 0, 0), "operand", "not bf16, f16 or tf32");
  const float in_flight = std::bit_cast<float>(kAccumulatorInFlight);
  check_fault(with(Number::kF16, kAccumulatorInFlight, 0), "accumulator", "before wgmma_wait");
  check_fault(with(Number::kF16, 0, in_flight), "accumulator", "before wgmma_wait");
  check_fault(warp([](Machine& m) { m.use_register(kAccumulatorInFlight, testing::site("add")); }),
              "accumulator", "(add)");
}
