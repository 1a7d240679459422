// SPDX-License-Identifier: Apache-2.0
// Sources of the formats: compressed-tensors 0.20.0, compressors/quantized_compressors
// (pack_to_int32: value + offset, along the columns; zeros along dimension 0); vLLM,
// model_executor/layers/quantization: gptq (qweight packed along the input, zeros + 1 except v2),
// awq (reverse order [0, 4, 1, 5, 2, 6, 3, 7]); torchao 0.18.0, Int4Tensor: plain i4.
#include "ir/repack.h"

#include <cstring>

#include "ir/parallel.h"
#include "ir/reference/reference.h"

namespace catenary {
namespace {

constexpr i64 kMaxElements = i64{1} << 46;

// Fields of unsigned values in 32-bit words.
class Words {
 public:
  Words(llvm::ArrayRef<u8> bytes, int bits) : bytes_(bytes), bits_(bits) {}
  i64 fields() const { return 32 / bits_; }
  i32 at(i64 word, i64 field) const {
    u32 value;
    std::memcpy(&value, bytes_.data() + word * 4, 4);
    return static_cast<i32>(value >> (field * bits_) & ((u32{1} << bits_) - 1));
  }

 private:
  llvm::ArrayRef<u8> bytes_;
  int bits_;
};

int bits_of(const RepackSource& source) { return dtype_info(source.dtype).bits; }

// What is subtracted from an unsigned value that becomes `dtype`.
i32 offset_of(DType dtype) { return dtype == DType::kU4 ? 0 : dtype == DType::kI4 ? 8 : 128; }

// The field of a word of eight that holds its column `column`.
i64 awq_field(i64 column) { return column / 2 + column % 2 * 4; }

i64 words_bytes(i64 outer, i64 inner, int bits) { return outer * ceil_div(inner * bits, 32) * 4; }

i64 weight_bytes(const RepackSource& s) {
  switch (s.format) {
    case WeightFormat::kPlain:
      return s.rows * storage_bytes(s.dtype, s.columns);
    case WeightFormat::kCompressedTensors:
      return words_bytes(s.rows, s.columns, bits_of(s));
    case WeightFormat::kGptq:
    case WeightFormat::kGptqV2:
      return words_bytes(s.rows, s.columns, bits_of(s));
    case WeightFormat::kAwq:
      return words_bytes(s.columns, s.rows, bits_of(s));
  }
  return 0;
}

i64 zeros_bytes(const RepackSource& s, i64 groups) {
  if (s.format == WeightFormat::kPlain) return s.rows * groups;
  return words_bytes(groups, s.rows, bits_of(s));
}

// The value at (row, column), as the dtype has it.
i32 value_at(const RepackSource& s, llvm::ArrayRef<u8> weight, i64 row, i64 column) {
  const Words words(weight, bits_of(s));
  const i64 fields = words.fields();
  switch (s.format) {
    case WeightFormat::kPlain: {
      const i64 start = row * storage_bytes(s.dtype, s.columns);
      return static_cast<i32>(load_element(s.dtype, weight.data() + start, column));
    }
    case WeightFormat::kCompressedTensors:
      return words.at(row * ceil_div(s.columns, fields) + column / fields, column % fields) -
             offset_of(s.dtype);
    case WeightFormat::kGptq:
    case WeightFormat::kGptqV2:
      return words.at(column / fields * s.rows + row, column % fields) - offset_of(s.dtype);
    case WeightFormat::kAwq:
      return words.at(column * ceil_div(s.rows, 8) + row / 8, awq_field(row % 8)) -
             offset_of(s.dtype);
  }
  return 0;
}

i32 zero_at(const RepackSource& s, llvm::ArrayRef<u8> zeros, i64 groups, i64 row, i64 group) {
  const Words words(zeros, bits_of(s));
  const i64 fields = words.fields();
  switch (s.format) {
    case WeightFormat::kPlain:
      return static_cast<i32>(load_element(DType::kI8, zeros.data(), row * groups + group));
    case WeightFormat::kCompressedTensors:
      return words.at(row / fields * groups + group, row % fields) - offset_of(s.dtype);
    case WeightFormat::kGptq:
    case WeightFormat::kGptqV2: {
      const i32 less = s.format == WeightFormat::kGptq ? 1 : 0;
      const i32 stored = words.at(group * ceil_div(s.rows, fields) + row / fields, row % fields);
      return ((stored + less) & ((1 << bits_of(s)) - 1)) - offset_of(s.dtype);
    }
    case WeightFormat::kAwq:
      return words.at(group * ceil_div(s.rows, 8) + row / 8, awq_field(row % 8)) -
             offset_of(s.dtype);
  }
  return 0;
}

// What a weight of any format may be.
Error check_shape(const RepackSource& s) {
  if (dtype_info(s.dtype).kind != DTypeKind::kInteger) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the packed weight is {}: only i8, i4 and u4 have the packed layout",
                      dtype_text(s.dtype));
  }
  if (s.rows >= 0 && s.columns >= 0 && s.rows <= kMaxDimSize && s.columns <= kMaxDimSize &&
      (s.rows == 0 || s.columns <= kMaxElements / s.rows)) {
    return Error::success();
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "the weight has {} rows and {} columns: give sizes of 0 or more, with at most "
                    "2^46 elements",
                    s.rows, s.columns);
}

Error check_source(const RepackSource& s) {
  if (Error error = check_shape(s)) return error;
  if (s.format == WeightFormat::kAwq && bits_of(s) != 4) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the packed weight is {} and AWQ stores 4 bits: use i4 or u4",
                      dtype_text(s.dtype));
  }
  if (s.format == WeightFormat::kCompressedTensors && s.dtype == DType::kU4) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "the packed weight is u4 and compressed-tensors stores signed values: use i4");
  }
  const i64 whole = s.format == WeightFormat::kPlain ? 1 : 32 / bits_of(s);
  const i64 along = s.format == WeightFormat::kAwq ? s.rows : s.columns;
  if (along % whole == 0) return Error::success();
  return make_error(
      ErrorCode::kInvalidArgument,
      "the weight has {} {}, and the format stores {} of them a word: give a multiple", along,
      s.format == WeightFormat::kAwq ? "rows" : "columns", whole);
}

Error check_bytes(std::string_view what, i64 given, i64 wanted) {
  if (given == wanted) return Error::success();
  return make_error(ErrorCode::kInvalidArgument,
                    "{} has {} bytes, and the format and the sizes make it {}: check both", what,
                    given, wanted);
}

}  // namespace

Expected<i64> packed_bytes(const RepackSource& source) {
  if (Error error = check_shape(source)) return error;
  return storage_bytes(source.dtype, packed_elements(source.rows, source.columns));
}

Error check_repack(const RepackSource& source, i64 given, i64 packed) {
  if (Error error = check_source(source)) return error;
  if (Error error = check_bytes("the weight", given, weight_bytes(source))) return error;
  const i64 elements = packed_elements(source.rows, source.columns);
  return check_bytes("the packed weight", packed, storage_bytes(source.dtype, elements));
}

Error check_repack_zeros(const RepackSource& source, i64 groups, i64 given, i64 packed) {
  if (Error error = check_source(source)) return error;
  if (groups < 0 || groups > std::max<i64>(source.columns, 1)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the weight has {} columns and {} groups: a group has one column or more",
                      source.columns, groups);
  }
  if (Error error = check_bytes("zeros", given, zeros_bytes(source, groups))) return error;
  return check_bytes("the packed zeros", packed, source.rows * groups);
}

Error repack(const RepackSource& source, llvm::ArrayRef<u8> weight,
             llvm::MutableArrayRef<u8> packed) {
  if (Error error =
          check_repack(source, static_cast<i64>(weight.size()), static_cast<i64>(packed.size()))) {
    return error;
  }
  // A tile of rows is whole bytes of the result.
  parallel_for(packed_tiles(source.rows, kPackedRows), 0, [&](i64 tile) {
    const i64 first = tile * kPackedRows;
    const i64 bytes =
        packed_tiles(source.columns, kPackedColumns) * packed_tile_bytes(source.dtype);
    std::memset(packed.data() + tile * bytes, 0, static_cast<size_t>(bytes));
    for (i64 row = first; row < std::min(first + kPackedRows, source.rows); ++row) {
      for (i64 column = 0; column < source.columns; ++column) {
        store_element(source.dtype, packed.data(),
                      packed_index(source.dtype, row, column, source.columns),
                      value_at(source, weight, row, column));
      }
    }
  });
  return Error::success();
}

Error repack_zeros(const RepackSource& source, i64 groups, llvm::ArrayRef<u8> zeros,
                   llvm::MutableArrayRef<u8> packed) {
  if (Error error = check_repack_zeros(source, groups, static_cast<i64>(zeros.size()),
                                       static_cast<i64>(packed.size()))) {
    return error;
  }
  for (i64 row = 0; row < source.rows; ++row) {
    for (i64 group = 0; group < groups; ++group) {
      store_element(DType::kI8, packed.data(), row * groups + group,
                    zero_at(source, zeros, groups, row, group));
    }
  }
  return Error::success();
}

}  // namespace catenary
