// SPDX-License-Identifier: Apache-2.0
// Formats of other libraries -> the packed layout: golden words, derived by hand from each format's
// rule; every element of larger weights; zeros; what is refused.
#include "ir/repack.h"

#include <doctest/doctest.h>

#include <cstring>

#include "catenary/repack.hpp"
#include "ir/random/random.h"
#include "ir/reference/reference.h"

using namespace catenary;

namespace {

std::vector<u8> words(llvm::ArrayRef<u32> list) {
  std::vector<u8> bytes(list.size() * 4);
  std::memcpy(bytes.data(), list.data(), bytes.size());
  return bytes;
}

// The values of the packed weight, row-major.
std::vector<int> repacked(const RepackSource& source, llvm::ArrayRef<u8> weight) {
  std::vector<u8> packed(static_cast<size_t>(llvm::cantFail(packed_bytes(source))), 0xa5);
  if (Error error = repack(source, weight, packed)) FAIL(take_report(std::move(error)).message);
  std::vector<int> values;
  for (i64 row = 0; row < source.rows; ++row) {
    for (i64 column = 0; column < source.columns; ++column) {
      const i64 at = packed_index(source.dtype, row, column, source.columns);
      values.push_back(static_cast<int>(load_element(source.dtype, packed.data(), at)));
    }
  }
  return values;
}

std::vector<int> zeros_of(const RepackSource& source, i64 groups, llvm::ArrayRef<u8> zeros) {
  std::vector<u8> packed(static_cast<size_t>(source.rows * groups));
  if (Error error = repack_zeros(source, groups, zeros, packed))
    FAIL(take_report(std::move(error)).message);
  std::vector<int> values;
  for (const u8 byte : packed) values.push_back(static_cast<signed char>(byte));
  return values;
}

void refused(Error error, std::string_view says) {
  REQUIRE(static_cast<bool>(error));
  const ErrorReport report = take_report(std::move(error));
  CHECK(report.code == ErrorCode::kInvalidArgument);
  CHECK_MESSAGE(report.message.find(says) != std::string::npos, report.message);
}

}  // namespace

// Values 0 to 7 stored: the field of value v is v.
TEST_CASE("golden words: the fields of a word") {
  using V = std::vector<int>;
  // One row of eight columns, the first in the lowest nibble.
  const V ascending = {0, 1, 2, 3, 4, 5, 6, 7};
  const V less_eight = {-8, -7, -6, -5, -4, -3, -2, -1};
  CHECK(repacked({WeightFormat::kCompressedTensors, DType::kI4, 1, 8}, words({0x76543210})) ==
        less_eight);
  CHECK(repacked({WeightFormat::kGptq, DType::kU4, 1, 8}, words({0x76543210})) == ascending);
  CHECK(repacked({WeightFormat::kGptqV2, DType::kI4, 1, 8}, words({0x76543210})) == less_eight);
  // Eight rows of one column; the even rows are in the low fields.
  CHECK(repacked({WeightFormat::kAwq, DType::kU4, 8, 1}, words({0x75316420})) == ascending);
  CHECK(repacked({WeightFormat::kAwq, DType::kI4, 8, 1}, words({0x75316420})) == less_eight);
  // 8 bits: four fields.
  CHECK(repacked({WeightFormat::kCompressedTensors, DType::kI8, 1, 4}, words({0xff810080})) ==
        V{0, -128, 1, 127});
  CHECK(repacked({WeightFormat::kGptq, DType::kI8, 1, 4}, words({0x03020100})) ==
        V{-128, -127, -126, -125});
  // Plain: two's complement, the low nibble first.
  const u8 nibbles[] = {0xf0, 0x78};
  CHECK(repacked({WeightFormat::kPlain, DType::kI4, 1, 4}, nibbles) == V{0, -1, -8, 7});
  CHECK(repacked({WeightFormat::kPlain, DType::kU4, 1, 4}, nibbles) == V{0, 15, 8, 7});
  const u8 bytes[] = {0x00, 0xff, 0x80, 0x7f};
  CHECK(repacked({WeightFormat::kPlain, DType::kI8, 2, 2}, bytes) == V{0, -1, -128, 127});
}

TEST_CASE("golden words: the order of words") {
  // Two rows of 16 columns: GPTQ has the words of the first eight columns first.
  const std::vector<u8> gptq = words({0x11111111, 0x22222222, 0x33333333, 0x44444444});
  auto values = repacked({WeightFormat::kGptq, DType::kU4, 2, 16}, gptq);
  CHECK(values[0] == 1);   // row 0, column 0
  CHECK(values[8] == 3);   // row 0, column 8
  CHECK(values[16] == 2);  // row 1, column 0
  CHECK(values[31] == 4);  // row 1, column 15
  // compressed-tensors has the words of the first row first.
  values = repacked({WeightFormat::kCompressedTensors, DType::kI4, 2, 16}, gptq);
  CHECK(values[0] == 1 - 8);
  CHECK(values[8] == 2 - 8);
  CHECK(values[16] == 3 - 8);
  CHECK(values[31] == 4 - 8);
  // 16 rows of two columns: AWQ has the words of the first column first.
  values = repacked({WeightFormat::kAwq, DType::kU4, 16, 2}, gptq);
  CHECK(values[0] == 1);      // row 0, column 0
  CHECK(values[1] == 3);      // row 0, column 1
  CHECK(values[2 * 8] == 2);  // row 8, column 0
  CHECK(values[2 * 15 + 1] == 4);
}

TEST_CASE("golden words: zeros") {
  using V = std::vector<int>;
  // Eight rows, one group. GPTQ stores zeros less one: a stored 15 is 0.
  const std::vector<u8> word = words({0xf6543210});
  CHECK(zeros_of({WeightFormat::kGptq, DType::kU4, 8, 8}, 1, word) == V{1, 2, 3, 4, 5, 6, 7, 0});
  CHECK(zeros_of({WeightFormat::kGptqV2, DType::kU4, 8, 8}, 1, word) == V{0, 1, 2, 3, 4, 5, 6, 15});
  CHECK(zeros_of({WeightFormat::kGptqV2, DType::kI4, 8, 8}, 1, word) ==
        V{-8, -7, -6, -5, -4, -3, -2, 7});
  CHECK(zeros_of({WeightFormat::kCompressedTensors, DType::kI4, 8, 8}, 1, word) ==
        V{-8, -7, -6, -5, -4, -3, -2, 7});
  CHECK(zeros_of({WeightFormat::kAwq, DType::kU4, 8, 8}, 1, words({0x75316420})) ==
        V{0, 1, 2, 3, 4, 5, 6, 7});
  // Two groups: compressed-tensors has them side by side, GPTQ one after the other; for both the
  // second word is group 1.
  const auto two = words({0, 0x11111111});
  CHECK(zeros_of({WeightFormat::kCompressedTensors, DType::kI4, 8, 16}, 2, two)[1] == -7);
  CHECK(zeros_of({WeightFormat::kGptqV2, DType::kU4, 8, 16}, 2, two)[1] == 1);
  // 16 rows, two groups: words [2, 2].
  const auto four = words({0, 0x11111111, 0x22222222, 0x33333333});
  CHECK(zeros_of({WeightFormat::kCompressedTensors, DType::kI4, 16, 16}, 2, four)[1] == -7);
  CHECK(zeros_of({WeightFormat::kGptqV2, DType::kU4, 16, 16}, 2, four)[1] == 2);
  CHECK(zeros_of({WeightFormat::kPlain, DType::kU4, 1, 4}, 2, {0x05, 0xfb}) == V{5, -5});
}

TEST_CASE("every element of larger weights; padding is 0") {
  Random random(7);
  for (const DType dtype : {DType::kI8, DType::kI4, DType::kU4}) {
    const RepackSource source{WeightFormat::kPlain, dtype, 37, 98};
    std::vector<u8> weight(static_cast<size_t>(37 * storage_bytes(dtype, 98)));
    for (u8& byte : weight) byte = static_cast<u8>(random.next());
    const auto values = repacked(source, weight);
    for (i64 row = 0; row < 37; ++row) {
      for (i64 column = 0; column < 98; ++column) {
        const double wanted =
            load_element(dtype, weight.data() + row * storage_bytes(dtype, 98), column);
        CHECK(values[row * 98 + column] == wanted);
      }
    }
    std::vector<u8> packed(static_cast<size_t>(llvm::cantFail(packed_bytes(source))), 0xa5);
    if (Error error = repack(source, weight, packed)) FAIL(take_report(std::move(error)).message);
    for (const auto& [row, column] : {std::pair<i64, i64>{36, 98}, {37, 0}, {47, 127}}) {
      CHECK(load_element(dtype, packed.data(), packed_index(dtype, row, column, 98)) == 0);
    }
  }
}

TEST_CASE("what is refused") {
  std::vector<u8> packed(1024 * 4);
  const u8 byte = 0;
  refused(repack({WeightFormat::kPlain, DType::kI4, 2, 2}, byte, packed),
          "the weight has 1 bytes, and the format and the sizes make it 2");
  refused(repack({WeightFormat::kPlain, DType::kBF16, 2, 2}, byte, packed), "is bf16: only i8");
  refused(repack({WeightFormat::kAwq, DType::kI8, 8, 2}, byte, packed), "AWQ stores 4 bits");
  refused(repack({WeightFormat::kCompressedTensors, DType::kU4, 8, 8}, byte, packed), "use i4");
  refused(repack({WeightFormat::kGptq, DType::kU4, 8, 9}, byte, packed),
          "has 9 columns, and the format stores 8 of them a word");
  refused(repack({WeightFormat::kPlain, DType::kI4, -1, 2}, byte, packed), "-1 rows and 2 columns");
  refused(repack({WeightFormat::kPlain, DType::kI4, 1, 2}, byte, packed),
          "the packed weight has 4096 bytes, and the format and the sizes make it 512");
  refused(repack_zeros({WeightFormat::kPlain, DType::kI4, 1, 2}, 3, byte, packed),
          "2 columns and 3 groups");
}

TEST_CASE("the C++ functions refuse sizes that are none with the library's sentence") {
  const std::vector<std::byte> zeros(16);
  const auto refusal = [&](std::int64_t rows, std::int64_t columns, std::int64_t groups) {
    try {
      ctn::repack_zeros(ctn::WeightFormat::plain, ctn::i4, rows, columns, groups, zeros);
    } catch (const ctn::Error& error) {
      CHECK(error.code() == CTN_INVALID_ARGUMENT);
      return std::string(error.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(refusal(-1, 64, 2), "-1 rows and 64 columns"));
  CHECK(has(refusal(8, -1, 2), "8 rows and -1 columns"));
  CHECK(has(refusal(8, 64, -1), "64 columns and -1 groups"));
  CHECK(has(refusal(8, 64, std::int64_t{1} << 62), "64 columns and 4611686018427387904 groups"));
  CHECK(refusal(8, 64, 2) == "");
}

TEST_CASE("in C++ only a parameter is packed") {
  ctn::Chain chain("c");
  CHECK_NOTHROW(chain.weight("q", ctn::i4, {8, 64}, {.packed = true}));
  const ctn::Tensor x = chain.input("x", ctn::bf16, {4, 64});
  CHECK_THROWS_WITH_AS(chain.output(ctn::relu(x), ctn::bf16, {.packed = true}),
                       doctest::Contains("is packed: only a parameter has that layout"),
                       std::invalid_argument);
}
