// SPDX-License-Identifier: Apache-2.0
#include "tests/support/wgmma_program.h"

#include <algorithm>
#include <bit>

#include "ir/reference/reference.h"

namespace catenary::testing {
namespace {

using sim::Number;

u32 bits_of(Number number, i32 value) {
  u32 bits = 0;
  const DType dtype = number == Number::kBF16  ? DType::kBF16
                      : number == Number::kF16 ? DType::kF16
                                               : DType::kF32;
  store_element(dtype, &bits, 0, value);
  return bits;
}

// The offset of byte `byte` of line `line` in a TMA box with lines of `span` bytes: the swizzle
// XORs the index of the 128-byte line into the index of the 16-byte chunk.
u32 in_lines(u32 span, u32 line, u32 byte) {
  const u32 with = span == 128 ? line % 8 : span == 64 ? line / 2 % 4 : line / 4 % 2;
  return line * span + ((byte / 16 ^ with) * 16) + byte % 16;
}

}  // namespace

u32 Operand::stride() const {
  if (span > 16) return 8 * span;
  return mn_major ? k / 8 * 128 : k * element() / 16 * 128;
}

u32 Operand::leading() const {
  if (span == 16) return 128;
  return mn_major ? k * span : 0;
}

u32 Operand::offset(u32 row, u32 i) const {
  if (mn_major) {
    if (span == 16) return base + row / 8 * stride() + i / 8 * 128 + i % 8 * 16 + row % 8 * 2;
    return base + row / (span / 2) * k * span + in_lines(span, i, row % (span / 2) * 2);
  }
  const u32 byte = i * element();
  if (span == 16) return base + row / 8 * stride() + byte / 16 * 128 + row % 8 * 16 + byte % 16;
  return base + byte / span * rows * span + in_lines(span, row, byte % span);
}

u64 Operand::descriptor(u32 step) const {
  u32 start = base + 32 * step / span * rows * span + 32 * step % span;
  if (span == 16) start = base + step * 256;
  if (span != 16 && mn_major) start = base + step * 16 * span;
  return encode(start, leading(), stride(), span);
}

u64 Operand::encode(u32 start_offset, u32 leading, u32 stride, u32 span) {
  constexpr u32 kWindow = 1024;  // the address of dynamic shared memory
  const u64 mode = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
  return u64{(start_offset + kWindow) / 16} | u64{leading / 16} << 16 | u64{stride / 16} << 32 |
         mode << 62;
}

i32 a_value(u32 row, u32 k) { return static_cast<i32>((row * 3 + k * 5) % 9) - 4; }
i32 b_value(u32 n, u32 k) { return static_cast<i32>((n * 7 + k * 11) % 13) - 6; }

Program small_program() {
  Program p;
  p.b.rows = 16;
  p.b.base = p.a.bytes();
  return p;
}

void fill(sim::Machine& m, const Operand& o, i32 (*value)(u32, u32), u32 threads, u32 first) {
  for (u32 i = m.at.thread - first; i < o.rows * o.k; i += threads) {
    const u32 bits = bits_of(o.number, value(i / o.k, i % o.k));
    m.store_shared(smem(m, o.offset(i / o.k, i % o.k)), &bits, o.element(), site("st_shared"));
  }
}

void multiply(sim::Machine& m, const Program& p, float* d, u32 first, u32 last) {
  const u32 k = sim::mma_k(p.a.number);
  for (u32 step = first; step < std::min(last, p.a.k / k); ++step) {
    u32 registers[4] = {};
    for (u32 i = 0; i < 16 / p.a.element(); ++i) {
      const sim::Element e = sim::wgmma_a_element(p.a.number, m.at.thread % 128, i);
      const u32 bits = bits_of(p.a.number, a_value(e.row, step * k + e.column));
      registers[i * p.a.element() / 4] |= bits << (i * p.a.element() % 4 * 8);
    }
    sim::WgmmaOperands o{.number = p.a.number,
                         .n = p.b.rows,
                         .a_descriptor = p.a.descriptor(step),
                         .a_registers = p.a_in_registers ? registers : nullptr,
                         .b_descriptor = p.b.descriptor(step),
                         .scale_d = step > 0,
                         .trans_a = p.a.mn_major,
                         .trans_b = p.b.mn_major};
    p.spoil(o, step);
    m.wgmma(d, o, site("wgmma"));
  }
}

void take(sim::Machine& m, const float* d, u32 n, std::vector<float>& out) {
  for (u32 i = 0; i < n / 2; ++i) {
    m.use_register(std::bit_cast<u32>(d[i]), site("st_global"));
    const sim::Element e = sim::wgmma_d_element(m.at.thread % 128, i);
    out[e.row * n + e.column] = d[i];
  }
}

SimKernel kernel_of(const Program& p, std::vector<float>& out) {
  out.assign(kM * p.b.rows, -1);
  SimKernel kernel;
  kernel.threads = 128;
  kernel.smem_bytes = p.smem_bytes();
  kernel.body = [&p, &out](sim::Machine& m) {
    if (!p.a_in_registers) fill(m, p.a, a_value);
    fill(m, p.b, b_value);
    if (p.proxy_fence) fence_proxy(m);
    if (p.barrier) sync(m);
    float d[128];
    for (float& v : d) v = 77;  // scale-d = 0 ignores it
    if (p.wgmma_fence) fence(m);
    multiply(m, p, d);
    if (p.commits) commit(m);
    p.before_wait(m, d);
    if (p.waits) wait(m, 0);
    take(m, d, p.b.rows, out);
  };
  return kernel;
}

u32 count_wrong(const std::vector<float>& out, u32 n, u32 k) {
  u32 wrong = 0;
  for (u32 row = 0; row < kM; ++row) {
    for (u32 column = 0; column < n; ++column) {
      i32 want = 0;
      for (u32 i = 0; i < k; ++i) want += a_value(row, i) * b_value(column, i);
      wrong += out[row * n + column] != static_cast<float>(want);
    }
  }
  return wrong;
}

}  // namespace catenary::testing
