// SPDX-License-Identifier: Apache-2.0
// Catenary for C++20, header-only over the C ABI (catenary.h): build a chain from values and
// operators, compile and load it with an Engine, launch it with an Executable. A failed call throws
// ctn::Error; a misuse that the C ABI cannot detect throws std::invalid_argument. Threads and
// lifetimes are those of catenary.h. Example: examples/quickstart.cpp.
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
#include <string>
#include <utility>
#include <vector>

#include "catenary/catenary.h"
#include "catenary/chain.hpp"
#include "catenary/device.hpp"
#include "catenary/error.hpp"
#include "catenary/log.hpp"

// The C++ API of Catenary.
namespace ctn {

namespace detail {

using EngineHandle = std::unique_ptr<ctn_engine, Destroy<ctn_engine, ctn_engine_destroy> >;
using CompiledHandle = std::unique_ptr<ctn_compiled, Destroy<ctn_compiled, ctn_compiled_destroy> >;
using ExecutableHandle =
    std::unique_ptr<ctn_executable, Destroy<ctn_executable, ctn_executable_destroy> >;

}  // namespace detail

// Facts of one kernel.
struct Kernel {
  std::string name;                  // the entry point in the cubin
  std::string arch;                  // "sm_90a"
  std::string source;                // the emitted CUDA source
  std::span<const std::byte> cubin;  // valid until the Compiled is destroyed
  int threads = 0;                   // per CTA
  int registers = 0;                 // per thread
  std::int64_t smem_bytes = 0;       // dynamic shared memory per CTA
};

// Machine code for one architecture.
class Compiled {
 public:
  // Takes the handle of the C ABI.
  explicit Compiled(ctn_compiled* handle) : handle_(handle) {}

  // The plan as text or as JSON.
  std::string explain(bool json = false) const {
    char* text = nullptr;
    check(ctn_compiled_explain(handle_.get(), json ? CTN_JSON : CTN_TEXT, &text));
    return detail::take(text);
  }

  // Over all buckets of the symbol. The source is empty where a pack has none.
  std::vector<Kernel> kernels() const {
    std::size_t count = 0;
    check(ctn_compiled_kernel_count(handle_.get(), &count));
    std::vector<Kernel> kernels;
    for (std::size_t i = 0; i < count; ++i) {
      ctn_kernel facts{};
      facts.struct_size = sizeof facts;
      check(ctn_compiled_kernel(handle_.get(), i, &facts));
      char* source = nullptr;  // a pack may have none
      const ctn_status status = ctn_compiled_kernel_source(handle_.get(), i, &source);
      if (status != CTN_UNSUPPORTED) check(status);
      kernels.push_back({facts.name,
                         facts.arch,
                         source == nullptr ? "" : detail::take(source),
                         {static_cast<const std::byte*>(facts.cubin), facts.cubin_bytes},
                         facts.threads,
                         facts.registers,
                         facts.smem_bytes});
    }
    return kernels;
  }

  // For the C ABI.
  const ctn_compiled* get() const { return handle_.get(); }

 private:
  detail::CompiledHandle handle_;
};

// What a launch takes besides its tensors.
struct LaunchOptions {
  std::vector<float> scalars = {};  // the scalar parameters in order
  std::int64_t symbol = 0;          // the symbolic size; 0 for a chain without one
  void* workspace = nullptr;        // workspace_bytes() of device memory, aligned to 256 bytes
  bool allow_pdl = false;  // the first kernel may start while the stream's previous one still runs
  bool disable_pdl = false;  // every kernel waits for the previous one; overrides allow_pdl
};

// A compiled chain on one device. Must outlive its launches and the graphs that captured them.
class Executable {
 public:
  // Takes the handle of the C ABI.
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

  // What was compiled.
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
  // `options.struct_size` need not be set.
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

  // For the C ABI.
  ctn_engine* get() const { return handle_.get(); }

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
