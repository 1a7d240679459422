// SPDX-License-Identifier: Apache-2.0
// Engine: chains in, executables out. Compiles through the cache, loads by cuLibrary, binds every
// launch fact; Executable::launch then allocates nothing, formats nothing and takes no lock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/compile/helper/options.h"
#include "compiler/compile/kernel_compiler.h"
#include "compiler/plan.h"
#include "runtime/cache/cache.h"
#include "runtime/driver/driver.h"
#include "runtime/lookup/lookup_options.h"
#include "runtime/record/chain_record.h"
#include "runtime/tuning/tuning.h"

namespace catenary {

// Arguments of one launch. Device addresses in the order of the chain's parameters that are not
// scalars, then outputs in order. Null is allowed where the tensor has no elements.
struct LaunchArguments {
  llvm::ArrayRef<void*> tensors;
  llvm::ArrayRef<float> scalars;  // in the order of the chain's scalar parameters
  i64 symbol = 0;
  void* workspace = nullptr;  // plan.workspace_bytes, aligned to 256
  cuda::Stream stream = nullptr;
  bool allow_pdl = false;  // the stream's previous kernel may still run when this one starts
  // No kernel starts before the previous one has ended; overrides allow_pdl.
  bool disable_pdl = false;
};

class Executable {
 public:
  ~Executable();
  const std::shared_ptr<const ChainRecord>& record() const;  // not null
  i64 workspace_bytes() const;
  int device() const;

  // Checks the arguments (null, alignment, overlap of outputs with other tensors, symbol range,
  // counts: kInvalidArgument), then launches the bucket's kernels in order on the stream, which
  // must belong to this device's primary context (null: that context must be current). Safe during
  // stream capture. Thread-safe.
  Error launch(const LaunchArguments& arguments) const;

 private:
  friend class Engine;
  struct State;
  explicit Executable(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What makes machine code: NVRTC for GPUs, the host's C++ compiler for the simulator.
enum class Backend : u8 { kNvrtc, kHost };

struct EngineOptions {
  Backend backend = Backend::kNvrtc;
  CacheOptions cache;
  TuningOptions tuning;  // without a `warn` of its own, warnings go where the cache's go
  CompileOptions compile;
  HelperOptions helper;  // of NVRTC; without effect on keys and machine code
  // "nvrtc 13.0.88 CL-36424714": the keys of kernels name this build, and NVRTC is opened only for
  // kernels that are not in the cache. Empty: CATENARY_NVRTC_BUILD, else NVRTC's own.
  std::string nvrtc_build = "";
  PlanOptions plan;
  // Called on any thread when a kernel has been compiled or found in the cache: the number of
  // kernels that are ready, and of all kernels of the plan.
  std::function<void(i64 done, i64 all)> progress;
  // Used as given: with_environment() adds the environment. Warnings as for `tuning`.
  LookupOptions lookup;
};

class Engine {
 public:
  explicit Engine(EngineOptions options = {});
  ~Engine();

  // Verify, plan (by the records of `catenary tune` for this target, if there are any), emit,
  // compile (all kernels in parallel; cache first). A candidate that the compiler rejects
  // (kKernelRejected) is dropped and the next best is planned. Needs no GPU; looks into no pack.
  // Errors are those of the steps; kNvrtcMissing, kHostCompilerMissing: the backend's compiler is
  // missing; kPackMiss: compiling is off; kCompileTimeout, kCompilerEnded: of a helper process.
  // With `nvrtc_build`, kNvrtcMissing also: a kernel is not in the cache, and NVRTC is another
  // build.
  Expected<std::shared_ptr<const CompiledChain>> compile(Chain chain, const Target& target);

  // The plan that compile() begins with, before a compiler refuses a candidate.
  Expected<Plan> plan(const VerifiedChain& chain, const Target& target) const;

  // From a pack that has the chain for `target`, else by compile(). A chain of a pack needs no
  // compiler, no planner and no cache. Errors: those of verify() and compile(); with compiling off,
  // kPackMiss, and those of a pack that cannot be read.
  Expected<std::shared_ptr<const ChainRecord>> obtain(Chain chain, const Target& target);

  // A pack with a higher priority is asked first; among equals the one that was added first.
  void add_pack(std::shared_ptr<const Pack> pack, int priority = 0);

  // The chains that no pack had, each once, as the lines of a trace; "" if there is none. Counts
  // only while there is a pack or a trace, or compiling is not kAuto.
  std::string missed() const;

  // Loads into the primary context of `device`. Refused with kNotWarmedCapture while `stream` is
  // being captured (null: any blocking stream of the device; a non-blocking one is only seen when
  // it is given, but loading never breaks its capture). kArchMismatch: the machine code is of
  // another architecture, of a GPU for the simulator, or of the simulator for a GPU.
  Expected<std::shared_ptr<const Executable>> load(std::shared_ptr<const ChainRecord> record,
                                                   int device, cuda::Stream stream = nullptr);
  Expected<std::shared_ptr<const Executable>> load(std::shared_ptr<const CompiledChain> compiled,
                                                   int device, cuda::Stream stream = nullptr);

  // obtain() for the device's own target, then load(). Refuses like load() before it compiles.
  Expected<std::shared_ptr<const Executable>> prepare(Chain chain, int device,
                                                      cuda::Stream stream = nullptr);

  // What this engine compiles with. Errors as those of compile().
  Expected<const KernelCompiler*> compiler() const;
  CubinCache& cache();
  TuningStore& tuning();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace catenary
