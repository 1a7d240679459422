// SPDX-License-Identifier: Apache-2.0
// Cases of tma.cu: boxes of two to five dimensions inside, partly inside and outside their tensor.
#include <array>
#include <cstring>

#include "tests/instructions/bytes.h"

namespace catenary::instructions {
namespace {

using Corner = std::array<i32, 5>;

size_t box_size(const TensorMapSpec& spec) {
  size_t bytes = element_bytes(sim::number_of(spec));
  for (u32 d = 0; d < spec.rank; ++d) bytes *= spec.box[d];
  return bytes;
}

size_t tensor_size(const TensorMapSpec& spec) {
  size_t bytes = spec.sizes[0] * element_bytes(sim::number_of(spec));
  for (u32 d = 1; d < spec.rank; ++d) bytes += (spec.sizes[d] - 1) * spec.strides[d - 1];
  return bytes;
}

// Calls act(offset in the box's bytes, offset in the tensor or -1) for every element.
template <class Act>
void for_each_element(const TensorMapSpec& spec, const Corner& corner, const Act& act) {
  const size_t width = element_bytes(sim::number_of(spec));
  for (size_t i = 0; i < box_size(spec) / width; ++i) {
    i64 global = 0;
    bool inside = true;
    size_t rest = i;
    for (u32 d = 0; d < spec.rank; ++d) {
      const i64 at = corner[d] + static_cast<i64>(rest % spec.box[d]);
      rest /= spec.box[d];
      inside = inside && at >= 0 && at < static_cast<i64>(spec.sizes[d]);
      global += at * static_cast<i64>(d == 0 ? width : spec.strides[d - 1]);
    }
    // Chunks of 16 bytes within a line of the span: XORed with the number of the 128-byte line.
    const size_t chunks = spec.swizzle == Swizzle::k128  ? 8
                          : spec.swizzle == Swizzle::k64 ? 4
                          : spec.swizzle == Swizzle::k32 ? 2
                                                         : 1;
    const size_t linear = i * width;
    act(linear ^ ((linear >> 7) % chunks << 4), inside ? global : -1);
  }
}

// Adjacent boxes from the tensor's low end (for loads: from outside it) to past its high end, at
// most `most` of them, and one that is far away. Only loads take negative coordinates.
std::vector<Corner> corners(const TensorMapSpec& spec, size_t most, bool negative) {
  std::vector<Corner> all = {Corner{}};
  for (u32 d = 0; d < spec.rank; ++d) {
    std::vector<Corner> next;
    const i32 box = static_cast<i32>(spec.box[d]);
    // The innermost coordinate is a multiple of 16 bytes.
    const i32 unit = d == 0 ? static_cast<i32>(16 / element_bytes(sim::number_of(spec))) : 1;
    const i32 third = (box / 3 + unit - 1) / unit * unit;
    for (i32 at = negative ? -third : 0; at < static_cast<i32>(spec.sizes[d]); at += box) {
      for (const Corner& corner : all) {
        next.push_back(corner);
        next.back()[d] = at;
      }
    }
    all = std::move(next);
  }
  std::vector<Corner> some;
  const size_t step = all.size() <= most ? 1 : all.size() / most + 1;
  for (size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
  Corner far = {};
  for (u32 d = 0; d < spec.rank; ++d) far[d] = negative && d % 2 == 1 ? -100000 : 100000;
  some.push_back(far);
  return some;
}

Buffer boxes(const TensorMapSpec& spec, const std::vector<Corner>& at, bool adds) {
  Bytes words(16 + 20 * at.size());
  put(words, 0, spec.rank);
  put(words, 4, static_cast<u32>(at.size()));
  put(words, 8, static_cast<u32>(box_size(spec)));
  put(words, 12, static_cast<u32>(adds));
  for (size_t i = 0; i < at.size(); ++i) {
    for (size_t d = 0; d < 5; ++d) put(words, 16 + 20 * i + 4 * d, at[i][d]);
  }
  return {"boxes", sim::RegionRole::kInput, std::move(words)};
}

Bytes loaded(const TensorMapSpec& spec, const std::vector<Corner>& at, const Bytes& tensor) {
  const size_t size = box_size(spec), width = element_bytes(sim::number_of(spec));
  Bytes result(at.size() * size, 0);
  for (size_t i = 0; i < at.size(); ++i) {
    for_each_element(spec, at[i], [&](size_t shared, i64 global) {
      if (global >= 0) copy(tensor, static_cast<size_t>(global), width, result, i * size + shared);
    });
  }
  return result;
}

Case load_case(const std::string& name, const TensorMapSpec& spec) {
  Case c{.name = "TMA load " + name, .file = "tma.cu", .kernel = "tma_loads"};
  const std::vector<Corner> at = corners(spec, 12, true);
  const Bytes tensor = Random(60 + spec.rank).bytes(tensor_size(spec));
  c.threads = 128;
  c.smem_bytes = static_cast<u32>(box_size(spec)) + 8;
  c.maps = {{0, spec}};
  c.expected = loaded(spec, at, tensor);
  c.buffers = {input(tensor), boxes(spec, at, false), output(c.expected.size())};
  return c;
}

// To 10 fraction bits, to nearest, ties to even; infinities stay, every NaN becomes the same NaN
// (RESULTS hw-31).
u32 rounded_to_tf32(u32 bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fffe000;
  if ((bits & 0x7f800000) == 0x7f800000) return bits;
  return (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
}

// A map of type tf32 rounds: random bits, every other value close to a tie, and special values.
Case rounding_case() {
  TensorMapSpec spec;
  spec.dtype = DType::kF32;
  spec.as_tf32 = true;
  spec.rank = 2;
  spec.sizes[0] = 96, spec.sizes[1] = 40;
  spec.strides[0] = 4 * spec.sizes[0];
  spec.box[0] = 32, spec.box[1] = 16;
  spec.swizzle = Swizzle::k128;
  Case c{.name = "TMA load rounded to tf32", .file = "tma.cu", .kernel = "tma_loads"};
  Bytes tensor = Random(66).bytes(tensor_size(spec));
  constexpr u32 kSpecial[] = {0,          0x80000000, 0x00001000, 0x00003000, 0x007fffff,
                              0x7f7fefff, 0x7f7ff000, 0x7f7fffff, 0x7f800000, 0xff800000,
                              0x7fc00000, 0x7f800001, 0xffffffff, 0x3fffffff, 0x3f801000};
  constexpr u32 kLow[] = {0x0fff, 0x1000, 0x1001, 0x1fff};
  for (size_t i = 0; i < tensor.size() / 4; i += 2) {
    u32 bits;
    std::memcpy(&bits, tensor.data() + 4 * i, 4);
    bits = i / 2 < std::size(kSpecial) ? kSpecial[i / 2] : (bits & ~0x1fffu) | kLow[i / 2 % 4];
    put(tensor, 4 * i, bits);
  }
  const std::vector<Corner> at = corners(spec, 12, true);
  c.threads = 128;
  c.smem_bytes = static_cast<u32>(box_size(spec)) + 8;
  c.maps = {{0, spec}};
  c.expected = loaded(spec, at, tensor);
  for (size_t i = 0; i < c.expected.size(); i += 4) {
    u32 bits;
    std::memcpy(&bits, c.expected.data() + i, 4);
    put(c.expected, i, rounded_to_tf32(bits));
  }
  c.buffers = {input(tensor), boxes(spec, at, false), output(c.expected.size())};
  return c;
}

// Both CTAs get both boxes.
Case multicast_case(const std::string& name, const TensorMapSpec& spec) {
  Case c{.name = "TMA multicast " + name, .file = "tma.cu", .kernel = "tma_multicast"};
  const std::vector<Corner> all = corners(spec, 12, true);
  const std::vector<Corner> at = {all[0], all[all.size() / 2]};
  const Bytes tensor = Random(70 + spec.rank).bytes(tensor_size(spec));
  c.ctas = 2;
  c.cluster_ctas = 2;
  c.threads = 128;
  c.smem_bytes = 2 * static_cast<u32>(box_size(spec)) + 8;
  c.maps = {{0, spec}};
  c.expected = loaded(spec, at, tensor);
  const Bytes once = c.expected;
  c.expected.insert(c.expected.end(), once.begin(), once.end());
  c.buffers = {input(tensor), boxes(spec, at, false), output(c.expected.size())};
  return c;
}

Case store_case(const std::string& name, const TensorMapSpec& spec) {
  Case c{.name = "TMA store " + name, .file = "tma.cu", .kernel = "tma_stores"};
  const std::vector<Corner> at = corners(spec, 12, false);
  const size_t size = box_size(spec), width = element_bytes(sim::number_of(spec));
  const Bytes in = Random(80 + spec.rank).bytes(at.size() * size);
  c.threads = 128;
  c.smem_bytes = static_cast<u32>(size);
  c.maps = {{2, spec}};
  c.expected.assign(tensor_size(spec), kUntouched);
  for (size_t i = 0; i < at.size(); ++i) {
    for_each_element(spec, at[i], [&](size_t shared, i64 global) {
      if (global >= 0) copy(in, i * size + shared, width, c.expected, static_cast<size_t>(global));
    });
  }
  c.buffers = {input(in), boxes(spec, at, false), output(c.expected.size())};
  return c;
}

// Every box is added twice, and so are its neighbours' halves.
Case add_case(const std::string& name, const TensorMapSpec& spec) {
  Case c{.name = "TMA reduce " + name, .file = "tma.cu", .kernel = "tma_stores"};
  std::vector<Corner> at = corners(spec, 6, false);
  const size_t once = at.size();
  for (size_t i = 0; i < once; ++i) {
    at.push_back(at[i]);
    at.back()[spec.rank - 1] += 1;
  }
  const size_t size = box_size(spec), width = element_bytes(sim::number_of(spec));
  Random random(90 + spec.rank);
  Bytes in(at.size() * size), before(tensor_size(spec));
  std::vector<i32> sums(before.size() / width);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = random.between(-9, 9);
    put_number(before, i * width, sim::number_of(spec), sums[i]);
  }
  for (size_t i = 0; i < at.size(); ++i) {
    for_each_element(spec, at[i], [&](size_t shared, i64 global) {
      const i32 value = random.between(-9, 9);
      put_number(in, i * size + shared, sim::number_of(spec), value);
      if (global >= 0) sums[static_cast<size_t>(global) / width] += value;
    });
  }
  c.threads = 128;
  c.smem_bytes = static_cast<u32>(size);
  c.maps = {{2, spec}};
  c.expected.resize(before.size());
  for (size_t i = 0; i < sums.size(); ++i)
    put_number(c.expected, i * width, sim::number_of(spec), sums[i]);
  c.buffers = {input(in), boxes(spec, at, true), output(before)};
  return c;
}

struct Named {
  const char* name;
  TensorMapSpec spec;
};

std::vector<Named> specs() {
  using enum DType;
  const auto make = [](DType dtype, std::vector<u64> sizes, std::vector<u64> strides,
                       std::vector<u32> box, Swizzle swizzle) {
    TensorMapSpec spec;
    spec.dtype = dtype;
    spec.rank = static_cast<u32>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), spec.sizes);
    std::copy(strides.begin(), strides.end(), spec.strides);
    std::copy(box.begin(), box.end(), spec.box);
    spec.swizzle = swizzle;
    return spec;
  };
  return {
      {"2-D", make(kBF16, {40, 10}, {96}, {16, 4}, Swizzle::kNone)},
      {"2-D swizzle 32", make(kF16, {40, 50}, {80}, {16, 16}, Swizzle::k32)},
      {"2-D swizzle 64", make(kBF16, {72, 40}, {160}, {32, 16}, Swizzle::k64)},
      {"2-D swizzle 128", make(kBF16, {104, 41}, {208}, {64, 16}, Swizzle::k128)},
      {"2-D f32 swizzle 128", make(kF32, {52, 20}, {208}, {32, 8}, Swizzle::k128)},
      {"3-D", make(kF16, {24, 6, 5}, {64, 512}, {16, 4, 4}, Swizzle::kNone)},
      {"3-D swizzle 128", make(kBF16, {72, 7, 5}, {144, 1040}, {64, 4, 2}, Swizzle::k128)},
      {"4-D", make(kF32, {12, 5, 4, 3}, {48, 256, 1024}, {8, 2, 2, 2}, Swizzle::kNone)},
      {"4-D swizzle 64", make(kF16, {40, 5, 4, 3}, {80, 400, 1600}, {32, 2, 4, 2}, Swizzle::k64)},
      {"5-D", make(kBF16, {16, 3, 4, 3, 3}, {32, 96, 400, 1200}, {8, 2, 2, 2, 2}, Swizzle::kNone)},
      {"5-D swizzle 32",
       make(kBF16, {24, 3, 4, 3, 3}, {48, 144, 576, 1728}, {16, 2, 4, 2, 2}, Swizzle::k32)}};
}

}  // namespace

void add_tma_cases(std::vector<Case>& cases) {
  for (const Named& n : specs()) {
    cases.push_back(load_case(n.name, n.spec));
    cases.push_back(store_case(n.name, n.spec));
    cases.push_back(add_case(n.name, n.spec));
    // The second box follows the first, at the start of its swizzle pattern.
    const u32 pattern = n.spec.swizzle == Swizzle::k128 ? 1024 : 512;
    if (box_size(n.spec) % pattern == 0) cases.push_back(multicast_case(n.name, n.spec));
  }
  cases.push_back(rounding_case());
}

}  // namespace catenary::instructions
