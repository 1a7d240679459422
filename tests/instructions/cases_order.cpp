// SPDX-License-Identifier: Apache-2.0
// Cases of sync.cu, warp.cu, atomic.cu and mbarrier.cu: words that threads exchange.
#include "tests/instructions/bytes.h"

namespace catenary::instructions {
namespace {

u32 word(const Bytes& from, size_t index) { return get<u32>(from, 4 * index); }

Case sync_launches() {
  Case c{.name = "launches in sequence", .file = "sync.cu", .kernel = "sync_launches"};
  c.ctas = 3;
  c.threads = 96;
  c.smem_bytes = 384;
  c.launches = 3;
  const Bytes in = Random(10).bytes(3 * 384);
  c.expected.assign(in.size(), 0);
  for (u32 launch = 0; launch < c.launches; ++launch) {
    for (size_t cta = 0; cta < 3; ++cta) {
      const auto paired = [&](size_t t) {
        return word(in, 96 * cta + t) + 2 * word(in, 96 * cta + (t ^ 1));
      };
      for (size_t t = 0; t < 96; ++t) {
        const size_t at = 4 * (96 * cta + t);
        const u32 v = paired(t) + 3 * paired(95 - t);
        put(c.expected, at, 5 * get<u32>(c.expected, at) + v);
      }
    }
  }
  c.buffers = {input(in), output(Bytes(in.size(), 0))};
  return c;
}

Case warp_exchange() {
  Case c{.name = "shuffles and votes", .file = "warp.cu", .kernel = "warp_exchange"};
  c.threads = 64;
  Random random(11);
  Bytes in(256);
  for (size_t t = 0; t < 64; ++t) put(in, 4 * t, static_cast<u32>(random.between(18, 1000)));
  put(in, 4 * 40, u32{17});  // the second warp has one
  c.expected.assign(10 * 256, kUntouched);
  for (u32 t = 0; t < 64; ++t) {
    const u32 lane = t % 32;
    const u32 base = t - lane;
    const auto of = [&](u32 other) { return word(in, base + other); };
    u32 odd = 0;
    for (u32 l = 0; l < 32; ++l) odd |= (of(l) % 2) << l;
    const u32 words[] = {of((7 * lane + 3) % 32),
                         of(lane ^ 5),
                         of(lane < 3 ? lane : lane - 3),
                         of(lane + 9 > 31 ? lane : lane + 9),
                         base == 32,
                         base == 0,
                         odd,
                         1,
                         1,
                         t / 32};
    for (u32 i = 0; i < 10; ++i) put(c.expected, 4 * (64 * i + t), words[i]);
  }
  c.buffers = {input(in), output(10 * 256)};
  return c;
}

Case warp_named_barriers() {
  Case c{.name = "named barriers", .file = "warp.cu", .kernel = "warp_named_barriers"};
  c.threads = 384;
  c.smem_bytes = 3 * 512;
  const Bytes in = Random(12).bytes(5 * 512);
  c.expected.assign(10 * 512, kUntouched);
  for (u32 line = 0; line < 10; ++line) {
    for (u32 t = 0; t < 128; ++t) {
      const u32 from = 127 - (t + 33) % 128;
      put(c.expected, 4 * (128 * line + t), word(in, line / 2 * 128 + from));
    }
  }
  c.buffers = {input(in), output(10 * 512)};
  return c;
}

// Four CTAs add the same integers to the output.
Case atomic_sums() {
  Case c{.name = "reductions in global memory", .file = "atomic.cu", .kernel = "atomic_sums"};
  c.ctas = 4;
  c.threads = 64;
  Random random(13);
  Bytes in(2304), before(2304);
  c.expected.assign(2304, 0);
  const auto add = [&](size_t at, sim::Number number) {
    const i32 each = random.between(-9, 9), first = random.between(-9, 9);
    put_number(in, at, number, each);
    put_number(before, at, number, first);
    put_number(c.expected, at, number, first + 4 * each);
  };
  for (size_t at = 0; at < 1792; at += 4) add(at, sim::Number::kF32);
  for (size_t at = 1792; at < 2048; at += 2) add(at, sim::Number::kBF16);
  for (size_t at = 2048; at < 2304; at += 2) add(at, sim::Number::kF16);
  c.buffers = {input(in), output(before)};
  return c;
}

Case atomic_last() {
  Case c{.name = "the last CTA adds up", .file = "atomic.cu", .kernel = "atomic_last"};
  c.ctas = 8;
  c.smem_bytes = 16;
  const Bytes in = Random(14).bytes(8 * 128);
  c.expected.assign(128, 0);
  for (size_t i = 0; i < 256; ++i) {
    const size_t at = 4 * (i % 32);
    put(c.expected, at, get<u32>(c.expected, at) + 3 * word(in, i));
  }
  c.buffers = {input(in), workspace(128 + 8 * 128), output(128)};
  return c;
}

Case atomic_flags() {
  Case c{.name = "flags between CTAs", .file = "atomic.cu", .kernel = "atomic_flags"};
  c.ctas = 6;
  const Bytes in = Random(15).bytes(6 * 128);
  c.expected = in;
  for (size_t i = 32; i < 6 * 32; ++i) {
    put(c.expected, 4 * i, word(in, i) + word(c.expected, i - 32));
  }
  c.buffers = {input(in), workspace(256), output(6 * 128)};
  return c;
}

Case atomic_proxies() {
  Case c{.name = "proxies", .file = "atomic.cu", .kernel = "atomic_proxies"};
  c.threads = 64;
  c.smem_bytes = 2056;
  const Bytes in = Random(16).bytes(1024);
  c.expected.assign(1024, 0);
  for (size_t t = 0; t < 64; ++t) {
    for (size_t i = 0; i < 4; ++i) {
      put(c.expected, 4 * (4 * t + i), word(in, 4 * (63 - t) + 3 - i));
    }
  }
  c.buffers = {input(in), workspace(1024), output(1024)};
  return c;
}

Case mbarrier_ring() {
  Case c{.name = "mbarrier pipeline", .file = "mbarrier.cu", .kernel = "mbarrier_ring"};
  c.threads = 96;
  c.smem_bytes = 2 * 128 + 4 * 8;
  const Bytes in = Random(17).bytes(7 * 128);
  c.expected.assign(15 * 128, kUntouched);
  for (u32 line = 0; line < 14; ++line) {
    for (u32 lane = 0; lane < 32; ++lane) {
      const u32 from = line % 2 == 0 ? 31 - lane : (lane + 5) % 32;
      put(c.expected, 4 * (32 * line + lane), word(in, 32 * (line / 2) + from));
    }
  }
  for (u32 lane = 0; lane < 32; ++lane) put(c.expected, 4 * (32 * 14 + lane), u32{77});
  c.buffers = {input(in), output(15 * 128)};
  return c;
}

Case mbarrier_copies() {
  Case c{.name = "mbarrier transactions", .file = "mbarrier.cu", .kernel = "mbarrier_copies"};
  c.smem_bytes = 1040;
  const Bytes in = Random(18).bytes(2 * 896);
  c.expected.assign(2 * 896, 0);
  for (size_t i = 0; i < 112; ++i) {
    copy(in, i / 56 * 896 + 16 * (55 - i % 56), 16, c.expected, 16 * i);
  }
  c.buffers = {input(in), output(2 * 896)};
  return c;
}

Case mbarrier_remote() {
  Case c{.name = "mbarrier remote arrivals", .file = "mbarrier.cu", .kernel = "mbarrier_remote"};
  c.ctas = 4;
  c.cluster_ctas = 2;
  c.smem_bytes = 264;
  const Bytes in = Random(19).bytes(4 * 256);
  c.expected.assign(4 * 256, 0);
  for (size_t i = 0; i < 256; ++i) {
    const size_t cta = i / 64, half = i / 32 % 2;
    put(c.expected, 4 * i, word(in, 64 * (cta ^ 1) + 32 * half + 31 - i % 32));
  }
  c.buffers = {input(in), output(4 * 256)};
  return c;
}

}  // namespace

void add_order_cases(std::vector<Case>& cases) {
  cases.push_back(sync_launches());
  cases.push_back(warp_exchange());
  cases.push_back(warp_named_barriers());
  cases.push_back(atomic_sums());
  cases.push_back(atomic_last());
  cases.push_back(atomic_flags());
  cases.push_back(atomic_proxies());
  cases.push_back(mbarrier_ring());
  cases.push_back(mbarrier_copies());
  cases.push_back(mbarrier_remote());
}

}  // namespace catenary::instructions
