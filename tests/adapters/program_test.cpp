// SPDX-License-Identifier: Apache-2.0
// Chains of adapters on host memory: the bytes of every dtype and layout, and that a run touches
// no others.
#include "adapters/program/program.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>

#include "tests/support/simulated_device.h"

using catenary::adapters::Host;
using catenary::adapters::Program;

namespace {

std::shared_ptr<Program> program(const std::string& text) {
  return Program::of(ctn::Chain::parse(text));
}

// A tensor of `bytes` bytes, each `fill`, between bytes that no run may change.
struct Guarded {
  static constexpr size_t kGuard = 256;
  Guarded(size_t bytes, int fill) : size(bytes), all(bytes + 2 * kGuard, std::byte{0x5a}) {
    std::memset(data(), fill, bytes);
  }
  void* data() { return all.data() + kGuard; }
  bool intact() const {
    for (size_t i = 0; i < all.size(); ++i) {
      if (i >= kGuard && i < kGuard + size) continue;
      if (all[i] != std::byte{0x5a}) return false;
    }
    return true;
  }
  size_t size;
  std::vector<std::byte> all;
};

}  // namespace

TEST_CASE("the bytes of a tensor are those of its dtype and layout, at every size of the symbol") {
  const auto made = program(
      "chain c[M in 1..64](input x: bf16[M, 64], weight q: u4[48, 64] packed,\n"
      "    weight i: i8[48, 64], weight n: i4[48, 64], weight s: f32[48, 1], input e: e4m3[M, "
      "64],\n"
      "    weight f: e4m3[48, 64] strides[80, 1]) {\n"
      "  a = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 64))\n"
      "  b = contract \"mk,nk->mn\"(x, dequant(i, s) block (1, 64))\n"
      "  c = contract \"mk,nk->mn\"(x, dequant(n, s) block (1, 64))\n"
      "  d = contract \"mk,nk->mn\"(e, f)\n"
      "  y = add(add(a, b), add(c, d))\n  return y: e5m2\n}\n");
  const std::vector<ctn::Operand>& tensors = made->tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    CAPTURE(tensors[i].name);
    CHECK(made->bytes(i, 64) == tensors[i].bytes);
  }
  CHECK(made->bytes(0, 3) == 3 * 64 * 2);
  CHECK(made->bytes(5, 3) == 3 * 64);
  CHECK(made->bytes(6, 3) == 47 * 80 + 64);
  CHECK(made->bytes(7, 3) == 3 * 48);
  CHECK(made->bytes(0, 0) == 0);
}

TEST_CASE("the simulator reads and writes the bytes of fp8 tensors and no others") {
  if (catenary::testing::skipped()) return;
  const auto made = program(
      "chain c(input x: e4m3[16, 32], weight w: e4m3[16, 32]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: e4m3\n}\n");
  Guarded x(16 * 32, 0x38), w(16 * 32, 0x38), y(16 * 16, 0);  // 0x38: 1
  void* const tensors[] = {x.data(), w.data(), y.data()};
  made->run_on_host(Host::kSimulator, tensors, {}, 0);
  CHECK(x.intact());
  CHECK(w.intact());
  CHECK(y.intact());
  const std::vector<std::byte> sums(16 * 16, std::byte{0x60});  // 32
  CHECK(std::memcmp(y.data(), sums.data(), sums.size()) == 0);
}
