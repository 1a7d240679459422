// SPDX-License-Identifier: Apache-2.0
// Catenary for C++20, header-only over the C ABI (catenary.h): build a chain from values and
// operators, compile and load it by an Engine, launch it by an Executable. A failed call throws
// ctn::Error; a misuse that C cannot see throws std::invalid_argument. Threads and lifetimes are
// those of catenary.h.
// Example: examples/quickstart.cpp.
#ifndef CATENARY_CATENARY_HPP
#define CATENARY_CATENARY_HPP

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "Catenary's C++ headers need C++20: compile with -std=c++20 (C: include catenary/catenary.h)"
#else

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catenary/catenary.h"
#include "catenary/device.hpp"
#include "catenary/error.hpp"
#include "catenary/log.hpp"

namespace ctn {

enum class DType : ctn_dtype { bf16 = CTN_BF16, f16 = CTN_F16, f32 = CTN_F32, i32 = CTN_I32 };
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f16 = DType::f16;
inline constexpr DType f32 = DType::f32;
inline constexpr DType i32 = DType::i32;

// As the size of a dimension: the chain's symbol (Chain::symbol).
inline constexpr std::int64_t symbol = CTN_SYMBOL;

namespace detail {

template <typename T, void (*destroy)(T*)>
struct Destroy {
  void operator()(T* handle) const noexcept { destroy(handle); }
};
using ChainHandle = std::unique_ptr<ctn_chain, Destroy<ctn_chain, ctn_chain_destroy> >;
using EngineHandle = std::unique_ptr<ctn_engine, Destroy<ctn_engine, ctn_engine_destroy> >;
using CompiledHandle = std::unique_ptr<ctn_compiled, Destroy<ctn_compiled, ctn_compiled_destroy> >;
using ExecutableHandle =
    std::unique_ptr<ctn_executable, Destroy<ctn_executable, ctn_executable_destroy> >;

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
  Tensor(ctn_chain* chain, ctn_value value, int rank) : chain_(chain), value_(value), rank_(rank) {}

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
  std::vector<std::int64_t> strides;  // elements, one per dimension; empty: contiguous
  std::int64_t align = 0;             // the address is a multiple of this many bytes; 0: 16
};

// A chain under construction. Not thread-safe while it changes.
class Chain {
 public:
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
  Tensor scalar(const std::string& name) {
    return parameter(CTN_SCALAR, name, f32, {}, Layout{{}, 4});
  }
  Tensor constant(double number, const std::string& name = "") {
    ctn_value value = 0;
    check(ctn_chain_constant(handle_.get(), number, detail::name_or_null(name), &value));
    return Tensor(handle_.get(), value, 0);
  }

  // Makes `value`, rounded to `dtype`, the next output.
  void output(const Tensor& value, DType dtype, const Layout& layout = {}) {
    if (value.chain() != handle_.get()) {
      throw std::invalid_argument("output value " + std::to_string(value.value()) +
                                  " belongs to another chain: return a value of this one");
    }
    ctn_output output{};
    output.struct_size = sizeof output;
    output.value = value.value();
    output.dtype = static_cast<ctn_dtype>(dtype);
    output.num_strides = static_cast<std::int32_t>(layout.strides.size());
    output.strides = layout.strides.data();
    output.align = layout.align;
    check(ctn_chain_return(handle_.get(), &output));
  }

  // Throws the first rule that the chain breaks.
  void verify() const { check(ctn_chain_verify(handle_.get())); }

  // Canonical chain text.
  std::string text() const {
    char* text = nullptr;
    check(ctn_chain_print(handle_.get(), &text));
    return detail::take(text);
  }

  const ctn_chain* get() const { return handle_.get(); }

 private:
  explicit Chain(detail::ChainHandle handle) : handle_(std::move(handle)) {}

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

// An elementwise operation by its name in chain text.
inline Tensor elementwise(const char* op, std::initializer_list<Tensor> operands,
                          std::initializer_list<double> attributes = {},
                          const std::string& name = "") {
  std::vector<ctn_use> uses;
  int rank = 0;
  for (const Tensor& operand : operands) {
    detail::check_same_chain(*operands.begin(), operand);
    uses.push_back({operand.value(), detail::name_or_null(operand.labels())});
    if (operand.rank() > rank) rank = operand.rank();
  }
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
                       const ctn_ragged* ragged, const std::string& name, bool true_f32) {
  check_same_chain(left, right);
  ctn_value value = 0;
  check(ctn_chain_contract(left.chain(), c_text(equation), left.value(), right.value(),
                           true_f32 ? CTN_CONTRACT_TRUE_F32 : 0u, ragged, name_or_null(name),
                           &value));
  return Tensor(left.chain(), value, result_rank(equation));
}

}  // namespace detail

// contract("mk,nk->mn", x, w); labels as for ctn_chain_contract. `true_f32`: f32 operands are not
// rounded to tf32.
inline Tensor contract(const std::string& equation, const Tensor& left, const Tensor& right,
                       const std::string& name = "", bool true_f32 = false) {
  return detail::contract(equation, left, right, nullptr, name, true_f32);
}

// Divides label `label` into groups: group g, an index of label `group`, has indices ends[g-1] to
// ends[g] - 1. What the rest is and what `ends` must be: ctn_ragged in catenary.h.
struct Ragged {
  char label;
  Tensor ends;
  char group;
};

// contract("mk,enk->mn", x, w, {'m', ends, 'e'}): rows grouped by expert, without padding.
inline Tensor contract(const std::string& equation, const Tensor& left, const Tensor& right,
                       const Ragged& ragged, const std::string& name = "", bool true_f32 = false) {
  detail::check_same_chain(left, ragged.ends);
  ctn_ragged parts{};
  parts.struct_size = sizeof parts;
  parts.label = ragged.label;
  parts.group = ragged.group;
  parts.ends = ragged.ends.value();
  return detail::contract(equation, left, right, &parts, name, true_f32);
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

// Rounds to `dtype`. Besides casts, a chain rounds its outputs only.
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
  return linear(x, w) + bias;
}

struct Kernel {
  std::string name;
  std::string arch;
  std::string source;                // the emitted CUDA source
  std::span<const std::byte> cubin;  // valid until the Compiled is destroyed
  int threads = 0;                   // per CTA
  int registers = 0;                 // per thread
  std::int64_t smem_bytes = 0;       // dynamic shared memory per CTA
};

// Machine code for one architecture.
class Compiled {
 public:
  explicit Compiled(ctn_compiled* handle) : handle_(handle) {}

  // The plan as text or as JSON.
  std::string explain(bool json = false) const {
    char* text = nullptr;
    check(ctn_compiled_explain(handle_.get(), json ? CTN_JSON : CTN_TEXT, &text));
    return detail::take(text);
  }

  std::vector<Kernel> kernels() const {
    std::size_t count = 0;
    check(ctn_compiled_kernel_count(handle_.get(), &count));
    std::vector<Kernel> kernels;
    for (std::size_t i = 0; i < count; ++i) {
      ctn_kernel facts{};
      facts.struct_size = sizeof facts;
      check(ctn_compiled_kernel(handle_.get(), i, &facts));
      char* source = nullptr;
      check(ctn_compiled_kernel_source(handle_.get(), i, &source));
      kernels.push_back({facts.name,
                         facts.arch,
                         detail::take(source),
                         {static_cast<const std::byte*>(facts.cubin), facts.cubin_bytes},
                         facts.threads,
                         facts.registers,
                         facts.smem_bytes});
    }
    return kernels;
  }

  const ctn_compiled* get() const { return handle_.get(); }

 private:
  detail::CompiledHandle handle_;
};

struct LaunchOptions {
  std::vector<float> scalars = {};  // the scalar parameters in order
  std::int64_t symbol = 0;          // the symbolic size; 0 for a chain without one
  void* workspace = nullptr;        // workspace_bytes() of device memory, aligned to 256 bytes
  bool allow_pdl = false;  // the first kernel may start while the stream's previous one still runs
  bool disable_pdl = false;  // no kernel starts before the previous one has ended; wins
};

// A compiled chain on one device. Must outlive its launches and the graphs that captured them.
class Executable {
 public:
  explicit Executable(ctn_executable* handle) : handle_(handle) {}

  // Asynchronous, thread-safe, allowed during capture. `stream`: a CUstream or cudaStream_t of the
  // device. `tensors`: device addresses of the tensor parameters in order, then of the outputs.
  void launch(void* stream, std::span<const void* const> tensors,
              const LaunchOptions& options = {}) const {
    ctn_launch_args args{};
    args.struct_size = sizeof args;
    args.tensors = const_cast<void* const*>(tensors.data());
    args.num_tensors = tensors.size();
    args.scalars = options.scalars.data();
    args.num_scalars = options.scalars.size();
    args.symbol = options.symbol;
    args.workspace = options.workspace;
    args.stream = stream;
    args.allow_pdl = options.allow_pdl ? 1 : 0;
    args.disable_pdl = options.disable_pdl ? 1 : 0;
    check(ctn_executable_launch(handle_.get(), &args));
  }
  void launch(void* stream, std::initializer_list<const void*> tensors,
              const LaunchOptions& options = {}) const {
    launch(stream, std::span<const void* const>(tensors.begin(), tensors.size()), options);
  }

  // Device memory that each concurrent launch needs as its workspace.
  std::int64_t workspace_bytes() const {
    std::int64_t bytes = 0;
    check(ctn_executable_workspace_bytes(handle_.get(), &bytes));
    return bytes;
  }

  Compiled compiled() const {
    ctn_compiled* compiled = nullptr;
    check(ctn_executable_compiled(handle_.get(), &compiled));
    return Compiled(compiled);
  }

 private:
  detail::ExecutableHandle handle_;
};

// A compiler and its cache. Thread-safe.
class Engine {
 public:
  Engine() : Engine(nullptr) {}
  explicit Engine(ctn_engine_options options) : Engine(with_size(options)) {}

  // `target`: a GPU's name ("h200") or an architecture ("sm_80"). Needs no GPU.
  Compiled compile(const Chain& chain, const std::string& target) const {
    ctn_compiled* compiled = nullptr;
    check(ctn_engine_compile(handle_.get(), chain.get(), detail::c_text(target), &compiled));
    return Compiled(compiled);
  }

  // CTN_NOT_WARMED_CAPTURE while `stream`, or for null any blocking stream, is being captured.
  Executable load(const Compiled& compiled, int device, void* stream = nullptr) const {
    ctn_executable* executable = nullptr;
    check(ctn_engine_load(handle_.get(), compiled.get(), device, stream, &executable));
    return Executable(executable);
  }

  // compile() for the GPU that `device` is, then load().
  Executable prepare(const Chain& chain, int device, void* stream = nullptr) const {
    ctn_executable* executable = nullptr;
    check(ctn_engine_prepare(handle_.get(), chain.get(), device, stream, &executable));
    return Executable(executable);
  }

 private:
  explicit Engine(const ctn_engine_options* options) {
    ctn_engine* engine = nullptr;
    check(ctn_engine_create(options, &engine));
    handle_.reset(engine);
  }
  static const ctn_engine_options* with_size(ctn_engine_options& options) {
    options.struct_size = sizeof options;
    return &options;
  }
  detail::EngineHandle handle_;
};

// Evaluates the chain in double precision. `tensors`: host addresses in the order of a launch.
inline void run_reference(const Chain& chain, std::initializer_list<void*> tensors,
                          const std::vector<float>& scalars = {}, std::int64_t symbol_size = 0) {
  ctn_reference_args args{};
  args.struct_size = sizeof args;
  args.tensors = tensors.begin();
  args.num_tensors = tensors.size();
  args.scalars = scalars.data();
  args.num_scalars = scalars.size();
  args.symbol = symbol_size;
  check(ctn_reference_run(chain.get(), &args));
}

}  // namespace ctn

#endif  // C++20
#endif  // CATENARY_CATENARY_HPP
