// SPDX-License-Identifier: Apache-2.0
// Building a chain in C++20: Chain, its values as Tensor, and functions and operators that make
// further values. Included by catenary.hpp; errors as there.
#ifndef CATENARY_CHAIN_HPP
#define CATENARY_CHAIN_HPP

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "Catenary's C++ headers need C++20: compile with -std=c++20 (C: include catenary/catenary.h)"
#else

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catenary/catenary.h"
#include "catenary/error.hpp"

namespace ctn {

// The type of elements in memory.
enum class DType : ctn_dtype {
  bf16 = CTN_BF16,
  f16 = CTN_F16,
  f32 = CTN_F32,
  i32 = CTN_I32,
  i8 = CTN_I8,
  i4 = CTN_I4,
  u4 = CTN_U4,
  e4m3 = CTN_E4M3,
  e5m2 = CTN_E5M2
};
// The types without their scope.
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f16 = DType::f16;
inline constexpr DType f32 = DType::f32;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i8 = DType::i8;
inline constexpr DType i4 = DType::i4;
inline constexpr DType u4 = DType::u4;
inline constexpr DType e4m3 = DType::e4m3;
inline constexpr DType e5m2 = DType::e5m2;

// As the size of a dimension: the chain's symbol (Chain::symbol).
inline constexpr std::int64_t symbol = CTN_SYMBOL;

namespace detail {

template <typename T, void (*destroy)(T*)>
struct Destroy {
  void operator()(T* handle) const noexcept { destroy(handle); }
};
using ChainHandle = std::unique_ptr<ctn_chain, Destroy<ctn_chain, ctn_chain_destroy> >;

// Copies and frees text that the library returned.
inline std::string take(char* text) {
  const std::unique_ptr<char, Destroy<char, ctn_string_free> > owner(text);
  return std::string(text);
}

inline const char* name_or_null(const std::string& name) {
  return name.empty() ? nullptr : c_text(name);
}

}  // namespace detail

// A reference to a value of a chain. The chain must outlive it.
class Tensor {
 public:
  // Value `value` of a chain of the C ABI.
  Tensor(ctn_chain* chain, ctn_value value, int rank) : chain_(chain), value_(value), rank_(rank) {}

  // What it refers to, its number of dimensions, and its labels; "" without labels.
  ctn_chain* chain() const { return chain_; }
  ctn_value value() const { return value_; }
  int rank() const { return rank_; }
  const std::string& labels() const { return labels_; }

  // With a label per dimension, to broadcast by label: y.labeled("mn") * s.labeled("m").
  Tensor labeled(std::string labels) const {
    Tensor named = *this;
    named.labels_ = std::move(labels);
    return named;
  }

 private:
  ctn_chain* chain_;
  ctn_value value_;
  int rank_;
  std::string labels_;
};

// The memory layout of a parameter or an output; default: contiguous, address a multiple of 16.
struct Layout {
  std::vector<std::int64_t> strides{};  // elements, one per dimension; empty: contiguous
  std::int64_t align = 0;               // the address is a multiple of this many bytes; 0: 16
  bool packed = false;  // a parameter in the packed layout: i8, i4 or u4, as repack() writes it
};

// A chain under construction. Not thread-safe while it changes.
class Chain {
 public:
  // An empty chain.
  explicit Chain(const std::string& name) {
    ctn_chain* chain = nullptr;
    check(ctn_chain_create(detail::c_text(name), &chain));
    handle_.reset(chain);
  }

  // From chain text. Error::line and column say where a mistake is.
  static Chain parse(std::string_view text) {
    ctn_chain* chain = nullptr;
    check(ctn_chain_parse(text.data(), text.size(), &chain));
    return Chain(detail::ChainHandle(chain));
  }

  // Gives the chain a word, as after its name in text: "batch_invariant", "algebraic_norms" or
  // "rounded_weights".
  void word(const std::string& word) { check(ctn_chain_word(handle_.get(), detail::c_text(word))); }

  // Declares the symbolic size, lo <= name <= hi, before the first shape with ctn::symbol.
  void symbol(const std::string& name, std::int64_t lo, std::int64_t hi) {
    check(ctn_chain_symbol(handle_.get(), detail::c_text(name), lo, hi));
  }

  // A tensor that the previous kernel of the stream may write.
  Tensor input(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
               const Layout& layout = {}) {
    return parameter(CTN_INPUT, name, dtype, shape, layout);
  }
  // A tensor that does not change while the chain (with allow_pdl, also the previous kernel) runs.
  Tensor weight(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                const Layout& layout = {}) {
    return parameter(CTN_WEIGHT, name, dtype, shape, layout);
  }
  // One float, passed by value to a launch.
  Tensor scalar(const std::string& name) { return parameter(CTN_SCALAR, name, f32, {}, Layout{}); }
  Tensor constant(double number, const std::string& name = "") {
    ctn_value value = 0;
    check(ctn_chain_constant(handle_.get(), number, detail::name_or_null(name), &value));
    return Tensor(handle_.get(), value, 0);
  }

  // Makes `value`, rounded to `dtype`, the next output. Throws std::invalid_argument for a packed
  // layout.
  void output(const Tensor& value, DType dtype, const Layout& layout = {}) {
    add_output(value, dtype, layout, nullptr);
  }

  // The same in place of `input`, of that dtype and the value's shape: x += f(x). A launch takes
  // the input's address for both.
  void output_in_place(const Tensor& value, DType dtype, const Tensor& input) {
    add_output(value, dtype, {}, &input);
  }

  // Throws for the first rule that the chain breaks.
  void verify() const { check(ctn_chain_verify(handle_.get())); }

  // Canonical chain text.
  std::string text() const {
    char* text = nullptr;
    check(ctn_chain_print(handle_.get(), &text));
    return detail::take(text);
  }

  // For the C ABI.
  const ctn_chain* get() const { return handle_.get(); }

  // Takes the handle of the C ABI.
  explicit Chain(detail::ChainHandle handle) : handle_(std::move(handle)) {}

 private:
  void add_output(const Tensor& value, DType dtype, const Layout& layout, const Tensor* input) {
    for (const Tensor* tensor : {&value, input}) {
      if (tensor == nullptr || tensor->chain() == handle_.get()) continue;
      throw std::invalid_argument("output value " + std::to_string(tensor->value()) +
                                  " belongs to another chain: return a value of this one");
    }
    if (layout.packed) {
      throw std::invalid_argument("output value " + std::to_string(value.value()) +
                                  " is packed: only a parameter has that layout, so leave it out");
    }
    ctn_output output{};
    output.struct_size = sizeof output;
    output.value = value.value();
    output.dtype = static_cast<ctn_dtype>(dtype);
    output.num_strides = static_cast<std::int32_t>(layout.strides.size());
    output.strides = layout.strides.data();
    output.align = layout.align;
    if (input != nullptr) output.in_place = input->value() + 1;
    check(ctn_chain_return(handle_.get(), &output));
  }

  Tensor parameter(ctn_role role, const std::string& name, DType dtype,
                   const std::vector<std::int64_t>& shape, const Layout& layout) {
    if (!layout.strides.empty() && layout.strides.size() != shape.size()) {
      throw std::invalid_argument("parameter " + detail::quoted(name) + " has " +
                                  std::to_string(layout.strides.size()) + " strides and " +
                                  std::to_string(shape.size()) +
                                  " dimensions: give one stride per dimension");
    }
    ctn_parameter parameter{};
    parameter.struct_size = sizeof parameter;
    parameter.name = detail::c_text(name);
    parameter.role = role;
    parameter.dtype = static_cast<ctn_dtype>(dtype);
    parameter.rank = static_cast<std::int32_t>(shape.size());
    parameter.dims = shape.data();
    parameter.strides = layout.strides.empty() ? nullptr : layout.strides.data();
    parameter.align = layout.align;
    parameter.packed = layout.packed ? 1 : 0;
    ctn_value value = 0;
    check(ctn_chain_parameter(handle_.get(), &parameter, &value));
    return Tensor(handle_.get(), value, static_cast<int>(shape.size()));
  }

  detail::ChainHandle handle_;
};

namespace detail {

// A value is a number within its chain: in another chain it would name another value.
inline void check_same_chain(const Tensor& a, const Tensor& b) {
  if (a.chain() == b.chain()) return;
  throw std::invalid_argument("values " + std::to_string(a.value()) + " and " +
                              std::to_string(b.value()) +
                              " belong to two chains: combine values of one chain");
}

}  // namespace detail

namespace detail {

// The operands as the C ABI takes them, of one chain.
inline std::vector<ctn_use> uses_of(std::initializer_list<Tensor> operands) {
  std::vector<ctn_use> uses;
  for (const Tensor& operand : operands) {
    check_same_chain(*operands.begin(), operand);
    uses.push_back({operand.value(), name_or_null(operand.labels())});
  }
  return uses;
}

}  // namespace detail

// An elementwise operation by its name in chain text.
inline Tensor elementwise(const char* op, std::initializer_list<Tensor> operands,
                          std::initializer_list<double> attributes = {},
                          const std::string& name = "") {
  const std::vector<ctn_use> uses = detail::uses_of(operands);
  int rank = 0;
  for (const Tensor& operand : operands) rank = operand.rank() > rank ? operand.rank() : rank;
  ctn_chain* chain = operands.size() == 0 ? nullptr : operands.begin()->chain();
  ctn_value value = 0;
  check(ctn_chain_elementwise(chain, op, uses.data(), uses.size(), std::data(attributes),
                              attributes.size(), detail::name_or_null(name), &value));
  return Tensor(chain, value, rank);
}

namespace detail {

// The rank of an equation's result.
inline int result_rank(const std::string& equation) {
  const std::size_t arrow = equation.find("->");
  return arrow == std::string::npos ? 0 : static_cast<int>(equation.size() - arrow - 2);
}

inline Tensor contract(const std::string& equation, const Tensor& left, const Tensor& right,
                       const ctn_ragged* ragged, const std::string& name, bool true_f32,
                       bool fast_accum) {
  check_same_chain(left, right);
  ctn_value value = 0;
  const std::uint32_t flags =
      (true_f32 ? CTN_CONTRACT_TRUE_F32 : 0u) | (fast_accum ? CTN_CONTRACT_FAST_ACCUM : 0u);
  check(ctn_chain_contract(left.chain(), c_text(equation), left.value(), right.value(), flags,
                           ragged, name_or_null(name), &value));
  return Tensor(left.chain(), value, result_rank(equation));
}

}  // namespace detail

// contract("mk,nk->mn", x, w); labels as for ctn_chain_contract. `true_f32`: f32 operands are not
// rounded to tf32. `fast_accum`: sums of fp8 products stay in the tensor cores' precision.
inline Tensor contract(const std::string& equation, const Tensor& left, const Tensor& right,
                       const std::string& name = "", bool true_f32 = false,
                       bool fast_accum = false) {
  return detail::contract(equation, left, right, nullptr, name, true_f32, fast_accum);
}

// Divides label `label` into groups: group g, an index of label `group`, has indices ends[g-1] to
// ends[g] - 1. ctn_ragged in catenary.h describes the indices of no group, and `ends`.
struct Ragged {
  char label;   // the label that is divided
  Tensor ends;  // i32, one element per group
  char group;   // the label of the groups
};

namespace detail {

inline ctn_ragged c_ragged(const Ragged& ragged) {
  ctn_ragged parts{};
  parts.struct_size = sizeof parts;
  parts.label = ragged.label;
  parts.group = ragged.group;
  parts.ends = ragged.ends.value();
  return parts;
}

}  // namespace detail

// contract("mk,enk->mn", x, w, {'m', ends, 'e'}): rows grouped by expert, without padding.
inline Tensor contract(const std::string& equation, const Tensor& left, const Tensor& right,
                       const Ragged& ragged, const std::string& name = "", bool true_f32 = false,
                       bool fast_accum = false) {
  detail::check_same_chain(left, ragged.ends);
  const ctn_ragged parts = detail::c_ragged(ragged);
  return detail::contract(equation, left, right, &parts, name, true_f32, fast_accum);
}

// A linear layer: x[..., k] times w[n, k] is [..., n].
inline Tensor linear(const Tensor& x, const Tensor& w, const std::string& name = "") {
  std::string rows = x.rank() == 2 ? "m" : "";
  for (int d = 0; d + 1 < x.rank() && x.rank() != 2; ++d) rows += static_cast<char>('a' + d);
  return contract(rows + "k,nk->" + rows + "n", x, w, name);
}

// sum("mn->n", t) sums over m.
inline Tensor sum(const std::string& equation, const Tensor& x, const std::string& name = "") {
  ctn_value value = 0;
  check(ctn_chain_sum(x.chain(), detail::c_text(equation), x.value(), detail::name_or_null(name),
                      &value));
  return Tensor(x.chain(), value, detail::result_rank(equation));
}

// sum("mn->en", t, {'m', ends, 'e'}) sums over the rows of each group.
inline Tensor sum(const std::string& equation, const Tensor& x, const Ragged& ragged,
                  const std::string& name = "") {
  detail::check_same_chain(x, ragged.ends);
  const ctn_ragged parts = detail::c_ragged(ragged);
  ctn_value value = 0;
  check(ctn_chain_sum_by_group(x.chain(), detail::c_text(equation), x.value(), &parts,
                               detail::name_or_null(name), &value));
  return Tensor(x.chain(), value, detail::result_rank(equation));
}

// An elementwise operation whose operands may be taken by the group of a row, where no contraction
// says which it is: by_group("mul", {'m', ends, 'e'}, {x.labeled("mn"), s.labeled("e")}).
inline Tensor by_group(const char* op, const Ragged& ragged, std::initializer_list<Tensor> operands,
                       std::initializer_list<double> attributes = {},
                       const std::string& name = "") {
  const std::vector<ctn_use> uses = detail::uses_of(operands);
  int rank = 0;
  for (const Tensor& operand : operands) {
    detail::check_same_chain(ragged.ends, operand);
    const bool taken = operand.labels().find(ragged.group) != std::string::npos;
    const int dims = operand.rank() - (taken ? 1 : 0);
    if (dims > rank) rank = dims;
  }
  const ctn_ragged parts = detail::c_ragged(ragged);
  ctn_value value = 0;
  check(ctn_chain_elementwise_by_group(ragged.ends.chain(), op, uses.data(), uses.size(),
                                       std::data(attributes), attributes.size(), &parts,
                                       detail::name_or_null(name), &value));
  return Tensor(ragged.ends.chain(), value, rank);
}

// reduce_max("mn->m", t) is the largest element over n: NaN if one is, -inf if there is none.
inline Tensor reduce_max(const std::string& equation, const Tensor& x,
                         const std::string& name = "") {
  ctn_value value = 0;
  check(ctn_chain_reduce(x.chain(), "reduce_max", detail::c_text(equation), x.value(),
                         detail::name_or_null(name), &value));
  return Tensor(x.chain(), value, detail::result_rank(equation));
}

// The weight (q - zero) * scale of integers `q`, for linear() and contract() with a bf16 or f16
// tensor; or q * scale of e4m3 or e5m2, without zeros, with another one of that dtype. block_rows x
// block_columns elements of `q` share a scale and a zero (ctn_chain_dequant).
inline Tensor dequant(const Tensor& q, const Tensor& scale, const Tensor* zero,
                      std::int64_t block_rows, std::int64_t block_columns,
                      const std::string& name = "") {
  detail::check_same_chain(q, scale);
  if (zero != nullptr) detail::check_same_chain(q, *zero);
  ctn_value value = 0;
  check(ctn_chain_dequant(q.chain(), q.value(), scale.value(), zero ? zero->value() : -1,
                          block_rows, block_columns, detail::name_or_null(name), &value));
  return Tensor(q.chain(), value, q.rank());
}
inline Tensor dequant(const Tensor& q, const Tensor& scale, std::int64_t block_rows,
                      std::int64_t block_columns, const std::string& name = "") {
  return dequant(q, scale, nullptr, block_rows, block_columns, name);
}
inline Tensor dequant(const Tensor& q, const Tensor& scale, const Tensor& zero,
                      std::int64_t block_rows, std::int64_t block_columns,
                      const std::string& name = "") {
  return dequant(q, scale, &zero, block_rows, block_columns, name);
}

// Rounds to `dtype`. Besides casts, a chain rounds only its outputs.
inline Tensor cast(const Tensor& x, DType dtype, const std::string& name = "") {
  ctn_value value = 0;
  check(ctn_chain_cast(x.chain(), x.value(), static_cast<ctn_dtype>(dtype),
                       detail::name_or_null(name), &value));
  return Tensor(x.chain(), value, x.rank());
}

// The constant `number` in the chain of `like`.
inline Tensor constant_like(const Tensor& like, double number) {
  ctn_value value = 0;
  check(ctn_chain_constant(like.chain(), number, nullptr, &value));
  return Tensor(like.chain(), value, 0);
}

// The elementwise operations of chain text, by their names there: bounds and edge cases are in
// ir/README.md.
inline Tensor relu(const Tensor& x) { return elementwise("relu", {x}); }
inline Tensor relu2(const Tensor& x) { return elementwise("relu2", {x}); }
inline Tensor leaky_relu(const Tensor& x, double slope) {
  return elementwise("leaky_relu", {x}, {slope});
}
inline Tensor gelu(const Tensor& x) { return elementwise("gelu", {x}); }
inline Tensor gelu_tanh(const Tensor& x) { return elementwise("gelu_tanh", {x}); }
inline Tensor quick_gelu(const Tensor& x) { return elementwise("quick_gelu", {x}); }
inline Tensor silu(const Tensor& x) { return elementwise("silu", {x}); }
inline Tensor sigmoid(const Tensor& x) { return elementwise("sigmoid", {x}); }
inline Tensor tanh(const Tensor& x) { return elementwise("tanh", {x}); }
inline Tensor softplus(const Tensor& x) { return elementwise("softplus", {x}); }
inline Tensor exp(const Tensor& x) { return elementwise("exp", {x}); }
inline Tensor neg(const Tensor& x) { return elementwise("neg", {x}); }
inline Tensor clamp(const Tensor& x, double lo, double hi) {
  return elementwise("clamp", {x}, {lo, hi});
}
inline Tensor scale(const Tensor& x, const Tensor& factor) {
  return elementwise("scale", {x, factor});
}
inline Tensor min(const Tensor& a, const Tensor& b) { return elementwise("min", {a, b}); }
inline Tensor max(const Tensor& a, const Tensor& b) { return elementwise("max", {a, b}); }

// Roots, powers and functions, by their names in chain text.
inline Tensor abs(const Tensor& x) { return elementwise("abs", {x}); }
inline Tensor square(const Tensor& x) { return elementwise("square", {x}); }
inline Tensor sqrt(const Tensor& x) { return elementwise("sqrt", {x}); }
inline Tensor rsqrt(const Tensor& x) { return elementwise("rsqrt", {x}); }
inline Tensor recip(const Tensor& x) { return elementwise("recip", {x}); }
inline Tensor exp2(const Tensor& x) { return elementwise("exp2", {x}); }
inline Tensor log(const Tensor& x) { return elementwise("log", {x}); }
inline Tensor erf(const Tensor& x) { return elementwise("erf", {x}); }
inline Tensor sin(const Tensor& x) { return elementwise("sin", {x}); }
inline Tensor cos(const Tensor& x) { return elementwise("cos", {x}); }

// `exponent`: from -64 to 64. x^0 is 1 for every x, also for a NaN.
inline Tensor pow(const Tensor& x, int exponent) {
  return elementwise("pow", {x}, {static_cast<double>(exponent)});
}

// 1 where the comparison holds, else 0. With a NaN every one but ne is 0.
inline Tensor lt(const Tensor& a, const Tensor& b) { return elementwise("lt", {a, b}); }
inline Tensor le(const Tensor& a, const Tensor& b) { return elementwise("le", {a, b}); }
inline Tensor gt(const Tensor& a, const Tensor& b) { return elementwise("gt", {a, b}); }
inline Tensor ge(const Tensor& a, const Tensor& b) { return elementwise("ge", {a, b}); }
inline Tensor eq(const Tensor& a, const Tensor& b) { return elementwise("eq", {a, b}); }
inline Tensor ne(const Tensor& a, const Tensor& b) { return elementwise("ne", {a, b}); }

// a where `condition` is not 0, else b. Nothing of the other operand reaches the result.
inline Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return elementwise("select", {condition, a, b});
}

// Elementwise arithmetic of values of one chain, and with a constant. A smaller value broadcasts.
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& a, const Tensor& b) { return elementwise("add", {a, b}); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return elementwise("sub", {a, b}); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return elementwise("mul", {a, b}); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return elementwise("div", {a, b}); }
inline Tensor operator+(const Tensor& a, double b) { return a + constant_like(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return a - constant_like(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return a * constant_like(a, b); }
inline Tensor operator/(const Tensor& a, double b) { return a / constant_like(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return constant_like(b, a) + b; }
inline Tensor operator-(double a, const Tensor& b) { return constant_like(b, a) - b; }
inline Tensor operator*(double a, const Tensor& b) { return constant_like(b, a) * b; }
inline Tensor operator/(double a, const Tensor& b) { return constant_like(b, a) / b; }

// linear() plus a bias[n].
inline Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  detail::check_same_chain(x, bias);
  return linear(x, w) + bias;
}

}  // namespace ctn

#endif  // C++20
#endif  // CATENARY_CHAIN_HPP
