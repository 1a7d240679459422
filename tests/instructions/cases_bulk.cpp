// SPDX-License-Identifier: Apache-2.0
// Cases of bulk.cu and cluster.cu.
#include "tests/instructions/bytes.h"

namespace catenary::instructions {
namespace {

constexpr size_t kLine = 1024;

u32 word(const Bytes& from, size_t index) { return get<u32>(from, 4 * index); }

Case bulk_lines() {
  Case c{.name = "bulk loads and stores", .file = "bulk.cu", .kernel = "bulk_lines"};
  c.ctas = 3;
  c.threads = 64;
  c.smem_bytes = 2 * kLine + 8;
  const Bytes in = Random(20).bytes(3 * 2 * kLine);
  c.expected.assign(3 * 3 * kLine, 0);
  for (size_t cta = 0; cta < 3; ++cta) {
    const size_t to = 3 * kLine * cta;
    for (size_t i = 0; i < 256; ++i) {
      const u32 v = word(in, 512 * cta + i);
      put(c.expected, to + 4 * i, v + static_cast<u32>(i % 4) + 1);
      put(c.expected, to + 2 * kLine + 4 * (i ^ 3), v);
    }
    copy(in, 2 * kLine * cta + kLine, kLine, c.expected, to + kLine);
  }
  c.buffers = {input(in), output(3 * 3 * kLine)};
  return c;
}

Case bulk_sums() {
  Case c{.name = "bulk reductions", .file = "bulk.cu", .kernel = "bulk_sums"};
  c.ctas = 5;
  c.threads = 64;
  c.smem_bytes = kLine;
  Random random(21);
  Bytes in(5 * kLine), before(kLine);
  c.expected.assign(kLine, 0);
  const auto add = [&](size_t at, sim::Number number) {
    i32 sum = random.between(-9, 9);
    put_number(before, at, number, sum);
    for (size_t cta = 0; cta < 5; ++cta) {
      const i32 value = random.between(-9, 9);
      put_number(in, kLine * cta + at, number, value);
      sum += value;
    }
    put_number(c.expected, at, number, sum);
  };
  for (size_t at = 0; at < 512; at += 4) add(at, sim::Number::kF32);
  for (size_t at = 512; at < 768; at += 2) add(at, sim::Number::kBF16);
  for (size_t at = 768; at < 1024; at += 2) add(at, sim::Number::kF16);
  c.buffers = {input(in), output(before)};
  return c;
}

Case bulk_cluster() {
  Case c{.name = "cp.async.bulk in a cluster", .file = "bulk.cu", .kernel = "bulk_cluster"};
  c.ctas = 4;
  c.threads = 64;
  c.cluster_ctas = 2;
  c.smem_bytes = 3 * kLine + 16;
  const Bytes in = Random(22).bytes(4 * kLine);
  c.expected.assign(4 * 3 * kLine, 0);
  for (size_t cta = 0; cta < 4; ++cta) {
    copy(in, kLine * (cta & ~size_t{1}), 2 * kLine, c.expected, 3 * kLine * cta);
    copy(in, kLine * (cta ^ 1), kLine, c.expected, 3 * kLine * cta + 2 * kLine);
  }
  c.buffers = {input(in), output(4 * 3 * kLine)};
  return c;
}

Case cluster_exchange() {
  Case c{.name = "distributed shared memory", .file = "cluster.cu", .kernel = "cluster_exchange"};
  c.ctas = 8;
  c.cluster_ctas = 4;
  c.smem_bytes = 1280;
  const Bytes in = Random(23).bytes(8 * 512);
  c.expected.assign(8 * 1536, 0);
  for (size_t cta = 0; cta < 8; ++cta) {
    const auto ahead = [&](size_t ctas) { return cta / 4 * 4 + (cta + ctas) % 4; };
    // Words of thread t of a CTA.
    const auto of = [&](size_t from, size_t t, size_t i) {
      return word(in, 128 * from + 4 * t + i);
    };
    const size_t to = 1536 * cta;
    for (size_t t = 0; t < 32; ++t) {
      const size_t o = 31 - t;
      for (size_t i = 0; i < 4; ++i) {
        put(c.expected, to + 16 * t + 4 * i, of(ahead(1), o, i));
        put(c.expected, to + 768 + 16 * t + 4 * i, of(ahead(2), o, (i + 3) % 4));
      }
      put(c.expected, to + 512 + 4 * t, of(ahead(1), t, 0));
      put(c.expected, to + 640 + 4 * t, of(ahead(1), t, 1));
      put(c.expected, to + 1280 + 4 * t, of(ahead(2), o, 0));
      put(c.expected, to + 1408 + 4 * t, of(ahead(2), o, 1) + static_cast<u32>(cta % 4) + 64);
    }
  }
  c.buffers = {input(in), output(8 * 1536)};
  return c;
}

Case cluster_async() {
  Case c{.name = "asynchronous stores", .file = "cluster.cu", .kernel = "cluster_async"};
  c.ctas = 8;
  c.cluster_ctas = 4;
  c.smem_bytes = 904;
  const Bytes in = Random(24).bytes(8 * 512);
  c.expected.assign(8 * 896, 0);
  for (size_t cta = 0; cta < 8; ++cta) {
    const size_t from = cta / 4 * 4 + (cta + 3) % 4;
    for (size_t t = 0; t < 32; ++t) {
      const size_t at = 128 * from + 4 * (31 - t);
      const size_t to = 896 * cta;
      copy(in, 4 * at, 16, c.expected, to + 16 * t);
      put(c.expected, to + 512 + 8 * t, word(in, at + 1));
      put(c.expected, to + 516 + 8 * t, word(in, at));
      put(c.expected, to + 768 + 4 * t, word(in, at + 2));
    }
  }
  c.buffers = {input(in), output(8 * 896)};
  return c;
}

}  // namespace

void add_bulk_cases(std::vector<Case>& cases) {
  cases.push_back(bulk_lines());
  cases.push_back(bulk_sums());
  cases.push_back(bulk_cluster());
  cases.push_back(cluster_exchange());
  cases.push_back(cluster_async());
}

}  // namespace catenary::instructions
