// SPDX-License-Identifier: Apache-2.0
#include "ir/types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "llvm/ADT/STLExtras.h"

namespace catenary {

std::string_view role_text(Role role) {
  switch (role) {
    case Role::kInput:
      return "input";
    case Role::kWeight:
      return "weight";
    case Role::kScalar:
      return "scalar";
  }
  return "";
}

std::optional<DType> find_dtype(std::string_view text) {
#define CATENARY_DTYPE(id, name, bits, kind, fraction, min_exponent) \
  if (text == #name) return DType::id;
#include "shared/dtype.def"
#undef CATENARY_DTYPE
  return std::nullopt;
}

llvm::SmallVector<i64, 4> contiguous_strides(llvm::ArrayRef<Dim> shape) {
  llvm::SmallVector<i64, 4> strides(shape.size());
  i64 step = 1;
  i64 exact_step = 1;  // without symbolic dimensions
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = shape[i] == Dim{1, false} ? exact_step : step;
    // Messages show types that are not verified yet: beyond 64 bits a stride is the largest number.
    const i64 size = std::max<i64>(shape[i].size, 1);
    for (i64* product : {&step, &exact_step}) {
      if (product == &exact_step && shape[i].symbolic) continue;
      if (__builtin_mul_overflow(*product, size, product))
        *product = std::numeric_limits<i64>::max();
    }
  }
  return strides;
}

i64 num_elements(const TensorType& type) {
  i64 count = 1;
  for (const Dim& dim : type.shape) count *= dim.size;
  return count;
}

i64 span_elements(const TensorType& type) {
  if (type.packed) {
    i64 matrices = 1;
    for (int i = 0; i + 2 < type.rank(); ++i) matrices *= type.shape[i].size;
    return matrices * packed_elements(type.shape.end()[-2].size, type.shape.end()[-1].size);
  }
  const auto strides = type.strides.empty() ? contiguous_strides(type.shape) : type.strides;
  i64 last = 0;
  for (int i = 0; i < type.rank(); ++i) {
    if (type.shape[i].size == 0) return 0;
    last += (type.shape[i].size - 1) * strides[i];
  }
  return last + 1;
}

i64 span_bytes(const TensorType& type) { return storage_bytes(type.dtype, span_elements(type)); }

i64 traffic_bytes(const TensorType& type) {
  constexpr i64 kSector = 32;
  const i64 span = span_bytes(type);
  if (type.packed || type.strides.empty() || span == 0) return span;
  llvm::SmallVector<std::pair<i64, i64>, 4> loops;  // stride, size; a stride of 0 reads no more
  for (int i = 0; i < type.rank(); ++i) {
    if (type.shape[i].size > 1 && type.strides[i] > 0)
      loops.emplace_back(type.strides[i], type.shape[i].size);
  }
  llvm::sort(loops);
  i64 run = 1;
  size_t outer = 0;
  for (; outer < loops.size() && loops[outer].first == run; ++outer) run *= loops[outer].second;
  i64 bytes = (storage_bytes(type.dtype, run) + kSector - 1) / kSector * kSector;
  for (; outer < loops.size(); ++outer) {
    if (bytes > span / loops[outer].second) return span;
    bytes *= loops[outer].second;
  }
  return std::min(bytes, span);
}

i64 element_index(const TensorType& type, llvm::ArrayRef<i64> at) {
  i64 index = 0;
  if (!type.packed) {
    for (int i = 0; i < type.rank(); ++i) index += at[i] * type.strides[i];
    return index;
  }
  const int outer = type.rank() - 2;
  for (int i = 0; i < outer; ++i) index = index * type.shape[i].size + at[i];
  const i64 rows = type.shape[outer].size;
  const i64 columns = type.shape[outer + 1].size;
  return index * packed_elements(rows, columns) +
         packed_index(type.dtype, at[outer], at[outer + 1], columns);
}

TensorType with_symbol(TensorType type, i64 symbol) {
  for (Dim& dim : type.shape) {
    if (dim.symbolic) dim = {symbol, false};
  }
  return type;
}

std::string to_string(const TensorType& type, std::string_view symbol) {
  std::string text(dtype_text(type.dtype));
  llvm::SmallVector<std::string, 4> dims;
  for (const Dim& dim : type.shape) {
    dims.push_back(dim.symbolic ? std::string(symbol) : fmt::to_string(dim.size));
  }
  if (!dims.empty()) text += fmt::format("[{}]", fmt::join(dims, ", "));
  if (!type.strides.empty() && type.strides != contiguous_strides(type.shape)) {
    text += fmt::format(" strides[{}]", fmt::join(type.strides, ", "));
  }
  if (type.packed) text += " packed";
  if (type.align != 16) text += fmt::format(" align {}", type.align);
  return text;
}

}  // namespace catenary
