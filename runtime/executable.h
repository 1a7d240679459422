// SPDX-License-Identifier: Apache-2.0
// The state of an Executable: all launch facts as tables, fixed at load; launch() only reads them.
// Internal: engine.cpp and bind.cpp fill it, executable.cpp launches it.
#pragma once

#include <optional>
#include <vector>

#include "runtime/driver/simulated_launch.h"
#include "runtime/driver/tensor_map.h"
#include "runtime/engine.h"
#include "runtime/loaded_kernel.h"
#include "shared/params.h"

namespace catenary {

// The parameters of a kernel are one struct by value. Every supported driver takes 4096 bytes.
inline constexpr i64 kMaxParameterBytes = 4096;
inline constexpr int kMaxTensors = 512;
inline constexpr i64 kMaxCtas = 0x7fffffff;
inline constexpr i64 kWorkspaceAlign = 256;

// The bytes from a tensor's first element to its last, as a function of the symbol.
struct ByteSpan {
  DType dtype = DType::kF32;
  i64 fixed = 0;       // elements spanned where every symbolic dimension is 1; 0: always empty
  i64 per_symbol = 0;  // elements that an increment of the symbol adds
  bool symbolic = false;
  i64 bytes(i64 symbol) const {
    if (!symbolic) return storage_bytes(dtype, fixed);
    if (symbol == 0 || fixed == 0) return 0;
    return storage_bytes(dtype, fixed + (symbol - 1) * per_symbol);
  }
};
ByteSpan byte_span(const TensorType& type);

// One tensor argument. Order: the tensor parameters of the chain, then its outputs.
struct BoundTensor {
  std::string name;
  bool output = false;
  i64 align = 1;
  ByteSpan span;
  bool weight = false;
  int in_place = -1;         // output: the tensor whose memory it takes
  bool overwritten = false;  // input: by an output in place
};

// A tensor map, as far as it is known before a launch.
struct BoundMap {
  size_t slot = 0;
  TensorMapSpec spec;  // without the base and the sizes
  Extent sizes[kMaxTensorMapRank] = {};
  // Empty: the tensor has no elements, and no TMA instruction uses the map.
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
  bool pdl = false;      // planned to start before the previous kernel has ended
  std::vector<SlotRecord> slots;
  std::vector<BoundMap> maps;
  std::vector<int> scalars;  // indices into the scalar arguments
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
  std::shared_ptr<const ChainRecord> record;
  const cuda::Driver* driver = nullptr;
  int device = 0;
  cuda::Context context = nullptr;  // the primary context of `device`
  i64 workspace_bytes = 0;
  size_t num_inputs = 0;  // tensors before the outputs
  size_t num_scalars = 0;
  std::vector<BoundTensor> tensors;
  std::vector<BoundBucket> buckets;

  // bind.cpp. Fills the tables from `record`, all but the functions. kResourceLimit: the tensors,
  // or the parameters of one kernel, exceed what a launch takes.
  Error bind();
  Error bind_tensors();
  Expected<BoundKernel> bind_kernel(const KernelRecord& facts, const BucketRecord& bucket);
  // Limits a persistent grid to the clusters that the device runs at once. A further cluster would
  // begin only after others have ended. The kernel is loaded.
  Error fit_clusters(BoundKernel& kernel) const;

  // executable.cpp.
  const BoundBucket* find(i64 symbol) const;
  Error check(const LaunchArguments& arguments) const;
  Error check_tensor(const LaunchArguments& arguments, size_t i) const;
  Error wrong_place(const LaunchArguments& arguments, size_t i) const;
  Error check_overlap(const LaunchArguments& arguments) const;
  Error overlapping(int a, int b) const;
  Error wrong_symbol(i64 symbol) const;
  struct LaunchOrder {
    bool first = false;  // of the chain's kernels
    bool pdl = false;    // may start before the previous kernel has ended
  };
  // Writes the maps to the front of the parameter struct `image`; `pointers` are its pointers.
  Error encode_maps(const BoundKernel& kernel, i64 symbol, const u64* pointers,
                    unsigned char* image) const;
  Error launch_kernel(const BoundKernel& kernel, i64 ctas, LaunchOrder order,
                      const LaunchArguments& arguments) const;
  // For the simulator only: allocates.
  cuda::SimulatedLaunch describe(const BoundKernel& kernel, LaunchOrder order,
                                 const LaunchArguments& arguments) const;
};

}  // namespace catenary
