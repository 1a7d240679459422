// SPDX-License-Identifier: Apache-2.0
// Tensor maps: the rules of a description, the encoded form, and the global and shared addresses of
// the elements of a box, against a model that computes one element at a time.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <random>
#include <set>

#include "runtime/driver/tensor_map.h"
#include "simulator/model/number.h"
#include "simulator/model/tensor_map.h"
#include "tests/support/fake_driver.h"

using namespace catenary;
using namespace catenary::sim;

namespace {

// 200 x 96 bf16, rows 8 elements apart, boxes of 16 x 64 under the 128-byte swizzle.
TensorMapSpec matrix() {
  TensorMapSpec spec;
  spec.dtype = DType::kBF16;
  spec.rank = 2;
  spec.sizes[0] = 200;
  spec.sizes[1] = 96;
  spec.strides[0] = 416;
  spec.box[0] = 64;
  spec.box[1] = 16;
  spec.swizzle = Swizzle::k128;
  spec.base = 4096;
  return spec;
}

ErrorReport refusal(const std::function<void(TensorMapSpec&)>& change) {
  TensorMapSpec spec = matrix();
  change(spec);
  return take_report(check_tensor_map(spec));
}

u32 pick(std::mt19937& rng, u32 low, u32 high) { return low + rng() % (high - low + 1); }

// A small tensor of random rank, dense but for padding of its rows.
TensorMapSpec random_spec(std::mt19937& rng) {
  TensorMapSpec spec;
  spec.rank = pick(rng, 1, kMaxTensorMapRank);
  spec.dtype = rng() % 2 ? DType::kBF16 : DType::kF32;
  const u32 bytes = dtype_bytes(spec.dtype);
  spec.swizzle = static_cast<Swizzle>(rng() % 4);
  spec.box[0] =
      (spec.swizzle == Swizzle::kNone ? 16 * pick(rng, 1, 9) : swizzle_bytes(spec.swizzle)) / bytes;
  spec.sizes[0] = pick(rng, 1, 2 * spec.box[0]);
  u64 stride = (spec.sizes[0] * bytes + 15) / 16 * 16;
  for (u32 i = 1; i < spec.rank; ++i) {
    spec.sizes[i] = pick(rng, 1, 5);
    spec.box[i] = pick(rng, 1, 5);
    spec.element_strides[i] = pick(rng, 1, 3);
    spec.strides[i - 1] = stride + 16 * pick(rng, 0, 1);
    stride = spec.strides[i - 1] * spec.sizes[i];
  }
  return spec;
}

u64 tensor_bytes(const TensorMapSpec& spec) {
  u64 last = (spec.sizes[0] - 1) * dtype_bytes(spec.dtype);
  for (u32 i = 1; i < spec.rank; ++i) last += (spec.sizes[i] - 1) * spec.strides[i - 1];
  return last + dtype_bytes(spec.dtype);
}

// Calls `act` with the index of each element of the box and its global offset, -1 outside.
void for_each_element(const TensorMapSpec& spec, const i32* at,
                      const std::function<void(u32 index, i64 offset)>& act) {
  u32 counts[kMaxTensorMapRank];
  u32 total = 1;
  for (u32 i = 0; i < spec.rank; ++i) {
    counts[i] = (spec.box[i] + spec.element_strides[i] - 1) / spec.element_strides[i];
    total *= counts[i];
  }
  for (u32 index = 0; index < total; ++index) {
    i64 offset = 0;
    bool inside = true;
    for (u32 i = 0, rest = index; i < spec.rank; rest /= counts[i++]) {
      const i64 c = at[i] + static_cast<i64>(rest % counts[i]) * spec.element_strides[i];
      inside &= c >= 0 && c < static_cast<i64>(spec.sizes[i]);
      offset += c * (i == 0 ? dtype_bytes(spec.dtype) : static_cast<i64>(spec.strides[i - 1]));
    }
    act(index, inside ? offset : -1);
  }
}

}  // namespace

TEST_CASE("a swizzle exchanges 16-byte chunks by the line number of the address") {
  for (u32 address = 0; address < 8192; ++address) {
    const u32 chunk = address / 16;
    const u32 rest = address % 16;
    const u32 line = address / 128;
    CHECK(swizzle_address(address, Swizzle::kNone) == address);
    CHECK(swizzle_address(address, Swizzle::k128) == (chunk ^ (line & 7)) * 16 + rest);
    CHECK(swizzle_address(address, Swizzle::k64) == (chunk ^ (line & 3)) * 16 + rest);
    CHECK(swizzle_address(address, Swizzle::k32) == (chunk ^ (line & 1)) * 16 + rest);
  }
  CHECK(swizzle_bytes(Swizzle::kNone) == 0);
  CHECK(swizzle_bytes(Swizzle::k32) == 32);
  CHECK(swizzle_bytes(Swizzle::k64) == 64);
  CHECK(swizzle_bytes(Swizzle::k128) == 128);
}

TEST_CASE("a map that obeys the rules is accepted, at their limits too") {
  for (const auto& change : std::vector<std::function<void(TensorMapSpec&)>>{
           [](TensorMapSpec&) {}, [](TensorMapSpec& s) { s.sizes[1] = u64{1} << 32; },
           [](TensorMapSpec& s) { s.box[1] = 256; },
           [](TensorMapSpec& s) { s.strides[0] = (u64{1} << 40) - 16; },
           [](TensorMapSpec& s) { s.element_strides[1] = 8; },
           [](TensorMapSpec& s) { s.swizzle = Swizzle::kNone, s.box[0] = 256; },
           [](TensorMapSpec& s) { s.rank = 1; }}) {
    CHECK(refusal(change).message == "");
  }
}

TEST_CASE("a map that breaks a rule is rejected, and the message names the value") {
  struct Case {
    const char* names;
    std::function<void(TensorMapSpec&)> change;
  };
  for (const Case& c : std::vector<Case>{
           {"rank 0", [](TensorMapSpec& s) { s.rank = 0; }},
           {"rank 6", [](TensorMapSpec& s) { s.rank = 6; }},
           {"0x1008", [](TensorMapSpec& s) { s.base = 0x1008; }},
           {"0x0", [](TensorMapSpec& s) { s.base = 0; }},
           {"0 elements along dimension 1", [](TensorMapSpec& s) { s.sizes[1] = 0; }},
           {"4294967297 elements along dimension 0",
            [](TensorMapSpec& s) { s.sizes[0] = (u64{1} << 32) + 1; }},
           {"box of a tensor map has 0 elements along dimension 1",
            [](TensorMapSpec& s) { s.box[1] = 0; }},
           {"257 elements along dimension 1", [](TensorMapSpec& s) { s.box[1] = 257; }},
           {"stride of 408 bytes in dimension 1", [](TensorMapSpec& s) { s.strides[0] = 408; }},
           {"stride of 0 bytes", [](TensorMapSpec& s) { s.strides[0] = 0; }},
           {"1099511627776", [](TensorMapSpec& s) { s.strides[0] = u64{1} << 40; }},
           {"element stride 9 in dimension 1", [](TensorMapSpec& s) { s.element_strides[1] = 9; }},
           {"element stride 0", [](TensorMapSpec& s) { s.element_strides[1] = 0; }},
           {"element stride 2 in dimension 0", [](TensorMapSpec& s) { s.element_strides[0] = 2; }},
           {"rows of 24 bytes",
            [](TensorMapSpec& s) { s.swizzle = Swizzle::kNone, s.box[0] = 12; }},
           {"rows of 256 bytes under the 128-byte swizzle",
            [](TensorMapSpec& s) { s.box[0] = 128; }},
           {"rows of 64 bytes under the 128-byte swizzle: make the innermost box dimension 64",
            [](TensorMapSpec& s) { s.box[0] = 32; }}}) {
    const ErrorReport report = refusal(c.change);
    CHECK(report.code == ErrorCode::kInvalidArgument);
    CHECK_MESSAGE(report.message.find(c.names) != std::string::npos, report.message);
  }
}

TEST_CASE("decoding gives what was encoded; other bytes are no map") {
  std::mt19937 rng(3);
  for (int i = 0; i < 200; ++i) {
    TensorMapSpec spec = random_spec(rng);
    spec.base = 16 * (1 + rng());
    if (i == 0) spec.sizes[0] = u64{1} << 32;
    REQUIRE(take_report(check_tensor_map(spec)).message == "");
    const std::optional<TensorMapSpec> back = decode_tensor_map(encode_tensor_map(spec));
    REQUIRE(back.has_value());
    CHECK(number_of(*back) == number_of(spec));
    CHECK(back->rank == spec.rank);
    CHECK(back->swizzle == spec.swizzle);
    CHECK(back->base == spec.base);
    for (u32 d = 0; d < spec.rank; ++d) {
      CHECK(back->sizes[d] == spec.sizes[d]);
      CHECK(back->box[d] == spec.box[d]);
      CHECK(back->element_strides[d] == spec.element_strides[d]);
      if (d + 1 < spec.rank) CHECK(back->strides[d] == spec.strides[d]);
    }
  }
  CHECK(!decode_tensor_map(TensorMap{}).has_value());
}

TEST_CASE("every element of a box is where the map says, anywhere in the tensor and around it") {
  std::mt19937 rng(7);
  u32 inside = 0;
  u32 outside = 0;
  for (int i = 0; i < 500; ++i) {
    TensorMapSpec spec = random_spec(rng);
    std::vector<u8> tensor(tensor_bytes(spec));
    for (u8& byte : tensor) byte = static_cast<u8>(1 + rng() % 255);
    spec.base = reinterpret_cast<u64>(tensor.data());
    i32 at[kMaxTensorMapRank];
    for (u32 d = 0; d < spec.rank; ++d) {
      at[d] = static_cast<i32>(pick(rng, 0, static_cast<u32>(spec.sizes[d]) + 2)) - 2;
    }
    const u32 address = 1024 + 128 * pick(rng, 0, 20);
    const u64 bytes = box_bytes(spec);
    std::vector<u8> shared(bytes, 0xee);
    const std::vector<BoxRow> rows = box_rows(spec, at);
    scatter_box(spec, rows, address, shared.data());
    const std::vector<u8> gathered = gather_box(spec, rows, address, shared.data());
    const u32 width = dtype_bytes(spec.dtype);
    std::set<u32> addresses;
    for_each_element(spec, at, [&](u32 index, i64 offset) {
      const u32 shared_at = swizzle_address(address + index * width, spec.swizzle) - address;
      REQUIRE(shared_at + width <= bytes);
      addresses.insert(shared_at);
      u8 expected[4] = {};
      if (offset >= 0) std::memcpy(expected, tensor.data() + offset, width);
      ++(offset >= 0 ? inside : outside);
      CHECK(std::memcmp(shared.data() + shared_at, expected, width) == 0);
      CHECK(std::memcmp(gathered.data() + u64{index} * width, expected, width) == 0);
    });
    CHECK(addresses.size() * width == bytes);
  }
  CHECK(inside > 5000);
  CHECK(outside > 10000);
}

TEST_CASE("a map of tf32 rounds loads to nearest, ties to even; every NaN becomes the same") {
  const struct {
    u32 from, to;
  } kRows[] = {
      {0x3f800fff, 0x3f800000}, {0x3f801000, 0x3f800000},  // below and at a tie, to even
      {0x3f801001, 0x3f802000}, {0x3f803000, 0x3f804000},  // above one; a tie that goes up
      {0xbf803000, 0xbf804000}, {0x3fffffff, 0x40000000},  // by magnitude; into the exponent
      {0x00001001, 0x00002000}, {0x00001000, 0x00000000},  // subnormal
      {0x7f7fffff, 0x7f800000}, {0x7f800000, 0x7f800000},  // beyond the largest; infinity
      {0x7f800001, 0x7fffe000}, {0xffffffff, 0x7fffe000},  // every NaN is one
  };
  std::vector<u32> data;
  for (const auto& row : kRows) data.push_back(row.from);
  TensorMapSpec spec;
  spec.dtype = DType::kF32;
  spec.as_tf32 = true;
  spec.rank = 2;
  spec.sizes[0] = data.size(), spec.sizes[1] = 1;
  spec.strides[0] = 4 * data.size();
  spec.box[0] = 16, spec.box[1] = 1;
  spec.base = reinterpret_cast<u64>(data.data());
  u32 shared[16];
  const i32 at[] = {0, 0};
  scatter_box(spec, box_rows(spec, at), 1024, reinterpret_cast<u8*>(shared));
  for (size_t i = 0; i < 16; ++i) {
    INFO(i);
    CHECK(shared[i] == (i < data.size() ? kRows[i].to : 0));
  }
}

TEST_CASE("coordinates at the ends of their range are outside the tensor") {
  TensorMapSpec spec = matrix();
  for (const i32 x : {-2147483647 - 1, 2147483647, -64, 200}) {
    const i32 at[] = {x, 0};
    for (const BoxRow& row : box_rows(spec, at)) CHECK(row.bytes == 0);
    const i32 swapped[] = {0, x};
    for (const BoxRow& row : box_rows(spec, swapped)) CHECK(row.bytes == 0);
  }
  const i32 edge[] = {-63, 95};
  const std::vector<BoxRow> rows = box_rows(spec, edge);
  CHECK(rows[0].first == 126);
  CHECK(rows[0].bytes == 2);
  CHECK(rows[0].global == spec.base + 95 * 416);
  CHECK(rows[1].bytes == 0);
}

TEST_CASE("encode() uses the driver's entry: the simulator's, and one that returns an error") {
  cuda::Api api = catenary::testing::fake_api();
  api.tensor_map_encode_tiled = cuda::simulated_tensor_map_encode;
  {
    const cuda::ScopedDriver scope = llvm::cantFail(cuda::ScopedDriver::over(api));
    for (const auto& [dtype, as_tf32] : std::vector<std::pair<DType, bool>>{{DType::kBF16, false},
                                                                            {DType::kF16, false},
                                                                            {DType::kF32, false},
                                                                            {DType::kF32, true},
                                                                            {DType::kI32, false}}) {
      TensorMapSpec spec = matrix();
      spec.dtype = dtype;
      spec.as_tf32 = as_tf32;
      spec.box[0] = 128 / dtype_bytes(dtype);
      const TensorMap map = llvm::cantFail(encode(scope.driver(), spec));
      const TensorMap same = encode_tensor_map(spec);
      CHECK(std::memcmp(&map, &same, sizeof map) == 0);
    }
    TensorMapSpec odd = matrix();
    odd.strides[0] = 410;
    const ErrorReport report = take_report(encode(scope.driver(), odd).takeError());
    CHECK(report.code == ErrorCode::kInvalidArgument);
    CHECK(report.message.find("410") != std::string::npos);
  }
  api.tensor_map_encode_tiled = [](TensorMap*, int, unsigned, void*, const unsigned long long*,
                                   const unsigned long long*, const unsigned*, const unsigned*, int,
                                   int, int, int) { return 1; };
  const cuda::ScopedDriver scope = llvm::cantFail(cuda::ScopedDriver::over(api));
  const ErrorReport report = take_report(encode(scope.driver(), matrix()).takeError());
  CHECK(report.code == ErrorCode::kDriver);
  CHECK(report.message.find("rank 2") != std::string::npos);
}

TEST_CASE("the simulator's entry rejects what it does not implement") {
  const TensorMapSpec s = matrix();
  const auto result = [&](int type, unsigned rank, int interleave, int swizzle, int fill) {
    TensorMap map;
    return cuda::simulated_tensor_map_encode(&map, type, rank, reinterpret_cast<void*>(s.base),
                                             s.sizes, s.strides, s.box, s.element_strides,
                                             interleave, swizzle, 0, fill);
  };
  CHECK(result(9, 2, 0, 3, 0) == 0);
  CHECK(result(0, 2, 0, 3, 0) == 1);
  CHECK(result(9, 6, 0, 3, 0) == 1);
  CHECK(result(9, 2, 1, 3, 0) == 1);
  CHECK(result(9, 2, 0, 4, 0) == 1);
  CHECK(result(9, 2, 0, 2, 0) == 1);  // rows of 128 bytes
  CHECK(result(9, 2, 0, 3, 1) == 1);
}
