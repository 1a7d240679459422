// SPDX-License-Identifier: Apache-2.0
// entry_problem(): the rules that a decoded entry keeps, so that binding and launching it reads no
// table beyond its end and computes no size that overflows.
#include "ir/names.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/executable.h"
#include "runtime/pack/entry.h"

namespace catenary {
namespace {

constexpr size_t kMaxKernels = 1 << 14;  // of an entry, over all buckets
constexpr int kMaxThreads = 1024;
constexpr int kMaxCluster = 16;
constexpr i64 kMaxSmemBytes = 1 << 20;
constexpr i64 kMaxAlign = 1 << 20;
constexpr int kMaxBox = 256;
constexpr size_t kMaxSymbolBytes = 512;

bool within(i64 value, i64 lo, i64 hi) { return value >= lo && value <= hi; }
bool is_power_of_two(i64 value) { return value > 0 && (value & (value - 1)) == 0; }

bool is_dtype(DType dtype) { return dtype_info(dtype).bits > 0; }

// The largest size that the symbol gives a dimension.
i64 symbol_hi(const ChainRecord& record) { return record.symbol ? record.symbol->hi : 0; }

// Elements with the padding of the packed layout; at least the limit where they are more.
__int128 packed_span(const TensorType& type) {
  __int128 elements = 1;
  for (const Dim& dim : type.shape) {
    elements *= std::max<i64>(dim.size, 1);
    if (elements > kMaxTensorBytes) return elements;
  }
  return span_elements(type);
}

std::string type_problem(const ChainRecord& record, const TensorType& type) {
  if (!is_dtype(type.dtype)) return "has an unknown dtype";
  if (type.rank() > kMaxRank) return "has too many dimensions";
  if (!within(type.align, 1, kMaxAlign) || !is_power_of_two(type.align)) {
    return "has an alignment that is not a power of two";
  }
  if (type.packed && (type.rank() < 2 || dtype_info(type.dtype).kind != DTypeKind::kInteger)) {
    return "is packed and no integer matrix";
  }
  if (type.packed && llvm::any_of(type.shape, [](const Dim& d) { return d.symbolic; })) {
    return "is packed and symbolic";
  }
  __int128 elements = 1;
  for (int d = 0; d < type.rank(); ++d) {
    const Dim& dim = type.shape[d];
    if (dim.symbolic && !record.symbol) return "is symbolic, and the chain has no symbol";
    if (!within(dim.size, 0, kMaxDimSize) || (dim.symbolic && dim.size != symbol_hi(record))) {
      return "has a size out of range";
    }
    if (!within(type.strides[d], 0, kMaxTensorBytes)) return "has a stride out of range";
    if (dim.size > 0) elements += static_cast<__int128>(dim.size - 1) * type.strides[d];
  }
  if (type.packed) elements = packed_span(type);
  if (elements * dtype_bytes(type.dtype) > kMaxTensorBytes) return "is too large";
  return "";
}

// An output in place has the memory of an input, which no other output has.
std::string in_place_problem(const ChainRecord& record, size_t i) {
  const int input = record.tensors[i].in_place;
  if (input == -1) return "";
  const bool in_range = within(input, 0, static_cast<i64>(record.num_inputs) - 1);
  if (!record.tensors[i].output || !in_range) return "is in place of no input";
  if (record.tensors[input].type != record.tensors[i].type) return "is in place of another type";
  for (size_t other = record.num_inputs; other < i; ++other) {
    if (record.tensors[other].in_place == input) return "is in place of an input that another is";
  }
  return "";
}

std::string tensors_problem(const ChainRecord& record) {
  const size_t count = record.tensors.size();
  if (count > static_cast<size_t>(kMaxTensors)) return "it has too many tensors";
  if (record.num_inputs > count) return "it has more inputs than tensors";
  if (record.num_scalars > static_cast<size_t>(kMaxParameters)) return "it has too many scalars";
  if (!within(record.workspace_bytes, 0, kMaxTensorBytes)) return "its workspace is out of range";
  for (size_t i = 0; i < count; ++i) {
    const TensorRecord& tensor = record.tensors[i];
    std::string problem = type_problem(record, tensor.type);
    if (tensor.output != (i >= record.num_inputs)) problem = "has the place of another kind";
    if (tensor.role != Role::kInput && tensor.role != Role::kWeight) problem = "has no role";
    if (!is_power_of_two(tensor.align) || tensor.align > tensor.type.align) {
      problem = "must be aligned to more than is declared";
    }
    if (problem.empty()) problem = in_place_problem(record, i);
    if (tensor.name.size() > kMaxNameBytes) problem = "has too long a name";
    if (!problem.empty()) return fmt::format("its tensor {} {}", i, problem);
  }
  return "";
}

std::string map_problem(const ChainRecord& record, const KernelRecord& kernel,
                        const MapBinding& map) {
  if (!within(map.slot, 0, static_cast<i64>(kernel.slots.size()) - 1)) return "a map of no slot";
  if (!is_dtype(map.dtype) || map.swizzle > Swizzle::k128) return "a map of an unknown kind";
  if (map.dims.empty() || map.dims.size() > kMaxTensorMapRank) return "a map of an unknown rank";
  for (const MapBinding::Dimension& dim : map.dims) {
    const i64 scale = dim.size.scale;
    if (!within(dim.size.size, 0, kMaxTensorBytes) || !within(scale, 0, kMaxTensorBytes) ||
        static_cast<__int128>(scale) * symbol_hi(record) > kMaxTensorBytes) {
      return "a map with a size out of range";
    }
    if (!within(dim.stride, 0, kMaxTensorBytes) || !within(dim.box, 1, kMaxBox)) {
      return "a map with a box or a stride out of range";
    }
  }
  return "";
}

std::string grid_problem(const GridRule& grid) {
  for (i64 value : {grid.fixed, grid.size, grid.scale, grid.extra, grid.limit}) {
    if (!within(value, 0, kMaxTensorBytes)) return "a grid out of range";
  }
  return within(grid.block, 1, kMaxTensorBytes) ? "" : "a grid without a block";
}

std::string kernel_problem(const ChainRecord& record, const KernelRecord& kernel) {
  if (!is_identifier(kernel.symbol) || kernel.symbol.size() > kMaxSymbolBytes) return "no name";
  if (!within(kernel.threads, 1, kMaxThreads)) return "a number of threads out of range";
  if (!within(kernel.cluster, 1, kMaxCluster)) return "a cluster out of range";
  if (!within(kernel.smem_bytes, 0, kMaxSmemBytes)) return "too much shared memory";
  if (std::string problem = grid_problem(kernel.grid); !problem.empty()) return problem;
  const i64 bytes =
      params_bytes(std::max<i64>(static_cast<i64>(kernel.slots.size()), 1),
                   static_cast<i64>(kernel.scalars.size()), static_cast<i64>(kernel.maps.size()));
  if (bytes > kMaxParameterBytes) return "too many parameters";
  for (const SlotRecord& slot : kernel.slots) {
    const i64 tensors = static_cast<i64>(record.tensors.size());
    if (!within(slot.tensor, -1, tensors - 1)) return "a pointer to no tensor";
    if (!within(slot.offset, 0, slot.tensor < 0 ? record.workspace_bytes : 0)) {
      return "a pointer beyond the workspace";
    }
  }
  for (const MapBinding& map : kernel.maps) {
    if (std::string problem = map_problem(record, kernel, map); !problem.empty()) return problem;
  }
  for (int scalar : kernel.scalars) {
    if (!within(scalar, 0, static_cast<i64>(record.num_scalars) - 1)) return "an unknown scalar";
  }
  return "";
}

// The buckets cover the symbol's range, each size once.
std::string ranges_problem(const ChainRecord& record) {
  const auto& buckets = record.buckets;
  if (buckets.empty()) return "it has no kernels";
  if (!record.symbol) return buckets.size() == 1 ? "" : "it has kernels for sizes of no symbol";
  i64 next = record.symbol->lo;
  for (const BucketRecord& bucket : buckets) {
    if (bucket.lo != next || bucket.hi < bucket.lo || bucket.hi > record.symbol->hi) {
      return "the sizes of its kernels do not follow each other";
    }
    next = bucket.hi + 1;
  }
  return next == record.symbol->hi + 1 ? "" : "its kernels do not cover the symbol's range";
}

}  // namespace

std::string entry_problem(const PackEntry& entry) {
  const ChainRecord& record = entry.record;
  if (record.symbol && !(within(record.symbol->lo, 0, kMaxDimSize) &&
                         within(record.symbol->hi, record.symbol->lo, kMaxDimSize))) {
    return "the range of its symbol is out of range";
  }
  for (const std::string& text : {record.text, entry.canonical}) {
    if (text.empty() || text.size() > kMaxTextBytes) return "it has no chain";
  }
  if (record.name.size() > kMaxNameBytes) return "it has too long a name";
  if (std::string problem = tensors_problem(record); !problem.empty()) return problem;
  if (std::string problem = ranges_problem(record); !problem.empty()) return problem;
  size_t kernels = 0;
  for (const BucketRecord& bucket : record.buckets) {
    kernels += bucket.kernels.size();
    for (const KernelRecord& kernel : bucket.kernels) {
      if (std::string problem = kernel_problem(record, kernel); !problem.empty()) {
        return fmt::format("a kernel has {}", problem);
      }
    }
  }
  if (kernels > kMaxKernels) return "it has too many kernels";
  if (!entry.sources.empty() && entry.sources.size() != kernels) {
    return "it does not have one source for each kernel";
  }
  return "";
}

}  // namespace catenary
