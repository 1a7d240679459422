// SPDX-License-Identifier: Apache-2.0
// Tensors of DLPack as arguments of a launch, for C++20. DLPack's struct is declared here, so that
// its header is not needed; a DLTensor* of that header is taken too. Header-only; included by the
// user. Example: examples/embed/.
#ifndef CATENARY_DLPACK_HPP
#define CATENARY_DLPACK_HPP

#include <stdexcept>

#include "catenary/facts.hpp"

namespace ctn {

// DLTensor of dlpack.h, versions 0.8 to 1.x.
struct DLPackTensor {
  void* data = nullptr;             // the allocation's start
  std::int32_t device_type = 0;     // 1: host memory, 2: CUDA
  std::int32_t device_id = 0;       // number of the device
  std::int32_t ndim = 0;            // dimensions
  std::uint8_t code = 0;            // 0 integer, 1 unsigned, 2 float, 4 bfloat, 10 e4m3fn, 12 e5m2
  std::uint8_t bits = 0;            // of an element
  std::uint16_t lanes = 1;          // elements of a vector type; 1: no vector
  std::int64_t* shape = nullptr;    // elements in each dimension
  std::int64_t* strides = nullptr;  // elements; null: the last dimension is contiguous
  std::uint64_t byte_offset = 0;    // of the first element from `data`
};
static_assert(sizeof(DLPackTensor) == 48);

// What a launch takes of tensors.
struct DLPackArguments {
  std::vector<const void*> tensors;  // addresses
  std::int64_t symbol = 0;           // the symbolic size; 0 for a chain without one
};

namespace detail {

inline bool same_dtype(DType dtype, const DLPackTensor& tensor) {
  const bool integer = dtype == DType::i32 || dtype == DType::i8 || dtype == DType::i4;
  const bool fp8 = dtype == DType::e4m3 || dtype == DType::e5m2;
  const int code = integer                ? 0
                   : dtype == DType::u4   ? 1
                   : dtype == DType::bf16 ? 4
                   : dtype == DType::e4m3 ? 10
                   : dtype == DType::e5m2 ? 12
                                          : 2;
  const bool nibble = dtype == DType::i4 || dtype == DType::u4;
  const int bits = dtype == DType::bf16 || dtype == DType::f16 ? 16
                   : nibble                                    ? 4
                   : dtype == DType::i8 || fp8                 ? 8
                                                               : 32;
  return tensor.code == code && tensor.bits == bits && tensor.lanes == 1;
}

[[noreturn]] inline void wrong_tensor(const Operand& operand, const std::string& what) {
  throw std::invalid_argument("tensor " + quoted(operand.name) + " has " + what);
}

// Checks one tensor against its operand; the first symbolic dimension sets `symbol`.
inline void check_tensor(const Operand& operand, const DLPackTensor& tensor, std::int64_t& symbol) {
  const auto rank = static_cast<std::int32_t>(operand.dims.size());
  if (operand.packed) {
    wrong_tensor(operand, "the packed layout, which DLPack has no words for: pass its address");
  }
  if (!same_dtype(operand.dtype, tensor)) {
    wrong_tensor(operand, "DLPack's type " + std::to_string(tensor.code) + " of " +
                              std::to_string(tensor.bits) + " bits: pass the type of the chain");
  }
  if (tensor.ndim != rank) {
    wrong_tensor(operand,
                 std::to_string(tensor.ndim) + " dimensions: pass " + std::to_string(rank));
  }
  bool empty = false;
  for (int d = 0; d < rank; ++d) empty = empty || tensor.shape[d] == 0;
  std::int64_t contiguous = 1;
  for (int d = rank - 1; d >= 0; --d) {
    const std::int64_t size = tensor.shape[d];
    if (operand.dims[d] == CTN_SYMBOL && symbol < 0) symbol = size;
    const std::int64_t want = operand.dims[d] == CTN_SYMBOL ? symbol : operand.dims[d];
    if (size != want) {
      wrong_tensor(operand, "size " + std::to_string(size) + " in dimension " + std::to_string(d) +
                                ": pass " + std::to_string(want));
    }
    const std::int64_t stride = tensor.strides == nullptr ? contiguous : tensor.strides[d];
    if (size > 1 && !empty && stride != operand.strides[d]) {
      wrong_tensor(operand, "stride " + std::to_string(stride) + " in dimension " +
                                std::to_string(d) + ": pass " + std::to_string(operand.strides[d]) +
                                ", or declare its strides in the chain");
    }
    contiguous *= size;
  }
}

}  // namespace detail

// Checks dtypes, shapes and strides of `tensors` against the chain's tensor parameters in order
// (without scalars) and its outputs; the symbol is from their shapes. Throws std::invalid_argument,
// which names the tensor.
inline DLPackArguments bind_dlpack(const Operands& chain,
                                   std::span<const DLPackTensor* const> tensors) {
  std::vector<const Operand*> wanted;
  for (const Operand& operand : chain.operands) {
    if (operand.is_output || operand.role != CTN_SCALAR) wanted.push_back(&operand);
  }
  if (tensors.size() != wanted.size()) {
    throw std::invalid_argument("the chain takes " + std::to_string(wanted.size()) +
                                " tensors, got " + std::to_string(tensors.size()) +
                                ": pass its parameters without scalars, then its outputs");
  }
  DLPackArguments result;
  std::int64_t symbol = -1;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr) detail::wrong_tensor(*wanted[i], "a null address: pass a DLTensor");
    detail::check_tensor(*wanted[i], *tensors[i], symbol);
    result.tensors.push_back(static_cast<const char*>(tensors[i]->data) + tensors[i]->byte_offset);
  }
  result.symbol = chain.symbol ? symbol : 0;
  return result;
}

// The same for DLTensor* of dlpack.h.
template <typename Tensor>
DLPackArguments bind_dlpack(const Operands& chain, std::initializer_list<const Tensor*> tensors) {
  static_assert(sizeof(Tensor) == sizeof(DLPackTensor), "pass DLTensor*");
  std::vector<const DLPackTensor*> views;
  for (const Tensor* tensor : tensors) {
    views.push_back(reinterpret_cast<const DLPackTensor*>(tensor));
  }
  return bind_dlpack(chain, views);
}

}  // namespace ctn

#endif  // CATENARY_DLPACK_HPP
