// SPDX-License-Identifier: Apache-2.0
// Cases of global.cu, shared.cu and cp_async.cu: bytes that move unchanged.
#include "tests/instructions/bytes.h"

namespace catenary::instructions {
namespace {

constexpr size_t kSection = 2048;

Case global_copies() {
  Case c{.name = "global copies", .file = "global.cu", .kernel = "global_copies"};
  c.ctas = 2;
  c.threads = 64;
  const Bytes in = Random(1).bytes(kSection);
  constexpr size_t kWidths[] = {2, 4, 8, 16, 2, 4, 8, 16, 8, 16, 16};
  c.expected.assign(13 * kSection, kUntouched);
  for (size_t s = 0; s < 11; ++s) copy(in, 0, 128 * kWidths[s], c.expected, s * kSection);
  for (size_t t = 0; t < 128; ++t) put(c.expected, 11 * kSection + 2 * t, u16{in[t]});
  copy(in, 0, 128, c.expected, 12 * kSection);
  c.buffers = {input(in), output(13 * kSection)};
  return c;
}

// Thread t gets what thread 127 - t has stored: a piece of its 16 bytes of input.
Case shared_copies() {
  Case c{.name = "shared copies", .file = "shared.cu", .kernel = "shared_copies"};
  c.threads = 128;
  c.smem_bytes = 6 * kSection;
  const Bytes in = Random(2).bytes(kSection);
  c.expected.assign(6 * kSection, kUntouched);
  for (size_t t = 0; t < 128; ++t) {
    const size_t from = 16 * (127 - t);
    copy(in, from, 2, c.expected, 2 * t);
    copy(in, from, 4, c.expected, kSection + 4 * t);
    copy(in, from + 4, 4, c.expected, 2 * kSection + 4 * t);
    copy(in, from + 8, 8, c.expected, 3 * kSection + 8 * t);
    copy(in, from, 4, c.expected, 4 * kSection + 8 * t);
    copy(in, from + 8, 4, c.expected, 4 * kSection + 8 * t + 4);
    copy(in, from, 16, c.expected, 5 * kSection + 16 * t);
  }
  c.buffers = {input(in), output(6 * kSection)};
  return c;
}

Case cp_async_zero_fill(const char* name, i64 beyond) {
  Case c{.name = name, .file = "cp_async.cu", .kernel = "cp_async_zero_fill"};
  c.threads = 64;
  c.symbol = beyond;
  c.smem_bytes = 1792;
  const Bytes in = Random(3).bytes(1024);
  c.expected.assign(1792, 0);
  for (size_t t = 0; t < 64; ++t) {
    copy(in, 16 * t, t % 17, c.expected, 16 * t);
    copy(in, 8 * t, t % 9, c.expected, 1024 + 8 * t);
    copy(in, 4 * t, t % 5, c.expected, 1536 + 4 * t);
  }
  c.buffers = {input(in), output(1792)};
  return c;
}

}  // namespace

void add_memory_cases(std::vector<Case>& cases) {
  cases.push_back(global_copies());
  cases.push_back(shared_copies());
  cases.push_back(cp_async_zero_fill("cp.async with zero fill", 0));
}

void add_unmapped_cases(std::vector<Case>& cases) {
  cases.push_back(cp_async_zero_fill("cp.async of nothing from nowhere", i64{1} << 40));
}

}  // namespace catenary::instructions
