// SPDX-License-Identifier: Apache-2.0
// Quantised weights of other libraries in the packed layout, for C++20. Header-only over
// catenary.h; included by the user.
#ifndef CATENARY_REPACK_HPP
#define CATENARY_REPACK_HPP

#include "catenary/catenary.hpp"

namespace ctn {

// How a weight is stored; see ctn_weight_format.
enum class WeightFormat : ctn_weight_format {
  plain = CTN_WEIGHT_PLAIN,
  compressed_tensors = CTN_WEIGHT_COMPRESSED_TENSORS,
  gptq = CTN_WEIGHT_GPTQ,
  gptq_v2 = CTN_WEIGHT_GPTQ_V2,
  awq = CTN_WEIGHT_AWQ
};

// Bytes of a packed matrix of `dtype` (i8, i4 or u4), padding included.
inline std::int64_t packed_bytes(DType dtype, std::int64_t rows, std::int64_t columns) {
  std::int64_t bytes = 0;
  check(ctn_packed_bytes(static_cast<ctn_dtype>(dtype), rows, columns, &bytes));
  return bytes;
}

namespace detail {

inline ctn_repack_args repack_args(WeightFormat format, DType dtype, std::int64_t rows,
                                   std::int64_t columns) {
  ctn_repack_args args{};
  args.struct_size = sizeof args;
  args.format = static_cast<ctn_weight_format>(format);
  args.dtype = static_cast<ctn_dtype>(dtype);
  args.rows = rows;
  args.columns = columns;
  return args;
}

}  // namespace detail

// The packed form of a weight of `rows` (N) x `columns` (K) values; `dtype` of the packed weight.
inline std::vector<std::byte> repack(WeightFormat format, DType dtype, std::int64_t rows,
                                     std::int64_t columns, std::span<const std::byte> weight) {
  std::vector<std::byte> packed(static_cast<std::size_t>(packed_bytes(dtype, rows, columns)));
  ctn_repack_args args = detail::repack_args(format, dtype, rows, columns);
  args.weight = weight.data();
  args.weight_bytes = weight.size();
  args.packed = packed.data();
  args.packed_bytes = packed.size();
  check(ctn_repack(&args));
  return packed;
}

// The zeros of such a weight, for `groups` groups of columns, as i8 [rows, groups].
inline std::vector<std::int8_t> repack_zeros(WeightFormat format, DType dtype, std::int64_t rows,
                                             std::int64_t columns, std::int64_t groups,
                                             std::span<const std::byte> zeros) {
  packed_bytes(dtype, rows, columns);  // refuses a wrong number of rows
  // A group has a column or more; ctn_repack refuses other numbers of groups.
  const bool fits = groups >= 0 && groups <= (columns > 1 ? columns : 1);
  std::vector<std::int8_t> packed(fits ? static_cast<std::size_t>(rows * groups) : 1);
  ctn_repack_args args = detail::repack_args(format, dtype, rows, columns);
  args.groups = groups;
  args.zeros = zeros.data();
  args.zeros_bytes = zeros.size();
  args.packed_zeros = packed.data();
  args.packed_zeros_bytes = packed.size();
  check(ctn_repack(&args));
  return packed;
}

}  // namespace ctn

#endif  // CATENARY_REPACK_HPP
