// SPDX-License-Identifier: Apache-2.0
// What an Executable knows: every launch fact, fixed at load. Plain tables, so that launch() only
// reads them. Internal to engine.cpp and bind.cpp (which fill it) and executable.cpp (which
// launches it).
#pragma once

#include <optional>
#include <vector>

#include "runtime/driver/simulated_launch.h"
#include "runtime/driver/tensor_map.h"
#include "runtime/engine.h"
#include "runtime/loaded_kernel.h"
#include "shared/params.h"

namespace catenary {

// Kernel parameters are one struct by value; this is what every driver takes.
inline constexpr i64 kMaxParameterBytes = 4096;
inline constexpr int kMaxTensors = 512;
inline constexpr i64 kMaxCtas = 0x7fffffff;
inline constexpr i64 kWorkspaceAlign = 256;

// Bytes that a tensor spans, as a function of the symbol.
struct ByteSpan {
  i64 element = 1;     // bytes of one element
  i64 fixed = 0;       // elements spanned when every symbolic dimension is 1; 0: always empty
  i64 per_symbol = 0;  // elements that one more step of the symbol adds
  bool symbolic = false;
  i64 bytes(i64 symbol) const {
    if (!symbolic) return fixed * element;
    if (symbol == 0 || fixed == 0) return 0;
    return (fixed + (symbol - 1) * per_symbol) * element;
  }
};
ByteSpan byte_span(const TensorType& type);

// One tensor argument: the chain's parameters that are not scalars, then its outputs.
struct BoundTensor {
  std::string name;
  bool output = false;
  i64 align = 1;
  ByteSpan span;
  bool weight = false;
};

// Where one pointer of the parameter image comes from.
struct BoundSlot {
  int tensor = -1;  // -1: the workspace, `offset` bytes in
  i64 offset = 0;
};

// A tensor map as far as it is known before a launch.
struct BoundMap {
  size_t slot = 0;
  TensorMapSpec spec;  // but for the base and symbolic sizes
  Extent sizes[kMaxTensorMapRank] = {};
  // Nothing: the tensor has no elements, and no copy takes the map.
  std::optional<TensorMapSpec> at(u64 base, i64 symbol) const;
};
BoundMap bind_map(const MapBinding& map);

struct BoundKernel {
  std::shared_ptr<const LoadedKernel> loaded;
  cuda::Function function = nullptr;
  GridRule grid;
  unsigned threads = 0;
  unsigned smem_bytes = 0;
  unsigned cluster = 1;  // CTAs
  size_t pointers = 0;   // of Params: at least one
  bool overlap = false;  // may start before the kernel before it has ended
  std::vector<BoundSlot> slots;
  std::vector<BoundMap> maps;
  std::vector<int> scalars;  // numbers among the chain's scalars
  std::string symbol;
  i64 parameter_bytes() const {
    return params_bytes(static_cast<i64>(pointers), static_cast<i64>(scalars.size()),
                        static_cast<i64>(maps.size()));
  }
};

struct BoundBucket {
  i64 lo = 0;
  i64 hi = 0;
  std::vector<BoundKernel> kernels;
};

struct Executable::State {
  std::shared_ptr<const CompiledChain> compiled;
  const cuda::Driver* driver = nullptr;
  int device = 0;
  i64 workspace_bytes = 0;
  size_t num_inputs = 0;  // tensors before the outputs
  size_t num_scalars = 0;
  std::vector<BoundTensor> tensors;
  std::vector<BoundBucket> buckets;

  // bind.cpp. The tables of `compiled` but for the functions. kResourceLimit when its tensors or
  // one kernel's parameters do not fit a launch.
  Error bind();
  Error bind_tensors();
  Expected<BoundKernel> bind_kernel(const KernelPlan& plan, const PlanBucket& bucket);

  // executable.cpp.
  const BoundBucket* find(i64 symbol) const;
  Error check(const LaunchArguments& arguments) const;
  Error check_tensor(const LaunchArguments& arguments, size_t i) const;
  Error check_overlap(const LaunchArguments& arguments) const;
  Error overlapping(int a, int b) const;
  Error wrong_symbol(i64 symbol) const;
  struct Edge {
    bool first = false;    // of the chain's kernels
    bool overlap = false;  // may start before the kernel before has ended
  };
  // Writes the maps to the front of a parameter image whose pointers are at `pointers`.
  Error encode_maps(const BoundKernel& kernel, i64 symbol, const u64* pointers,
                    unsigned char* image) const;
  Error launch_kernel(const BoundKernel& kernel, i64 ctas, Edge edge,
                      const LaunchArguments& arguments) const;
  // For the simulator alone; allocates.
  cuda::SimulatedLaunch describe(const BoundKernel& kernel, Edge edge,
                                 const LaunchArguments& arguments) const;
};

}  // namespace catenary
