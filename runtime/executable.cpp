// SPDX-License-Identifier: Apache-2.0
// Executable: arguments -> launches. A successful launch reads tables, fills one stack buffer per
// kernel and calls the driver; only the error paths format or allocate.
#include "runtime/executable.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace catenary {
namespace {

// The bytes of one tensor argument, or of the workspace (tensor == number of tensors).
struct Range {
  std::uintptr_t begin;
  std::uintptr_t end;
  int tensor;
  bool written;
};

Error wrong_count(const ChainRecord& record, const char* what, size_t want, size_t got) {
  return make_error(ErrorCode::kInvalidArgument,
                    "chain '{}' takes {} {}, got {}: pass one each, in the order of its parameters "
                    "and then its outputs",
                    record.name, want, what, got);
}

Error wrong_workspace(i64 bytes, void* workspace) {
  if (workspace == nullptr) {
    return make_error(ErrorCode::kInvalidArgument,
                      "workspace is null: pass {} bytes of device memory, aligned to {}", bytes,
                      kWorkspaceAlign);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "workspace {} is not a multiple of {} bytes: align it to {}", workspace,
                    kWorkspaceAlign, kWorkspaceAlign);
}

bool misaligned(const void* address, i64 align) {
  return reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(align) != 0;
}

void add_cluster(const BoundKernel& kernel, cuda::LaunchConfig& config) {
  if (kernel.cluster > 1) {
    cuda::LaunchAttribute& attribute = config.attributes[config.num_attributes++] = {};
    attribute.id = cuda::kAttributeClusterDimension;
    attribute.value.cluster = {kernel.cluster, 1, 1};
  }
  // The default policy places clusters of four on half of the SMs where an SM has room for two CTAs
  // (RESULTS hw-40).
  if (kernel.cluster > 2) {
    cuda::LaunchAttribute& attribute = config.attributes[config.num_attributes++] = {};
    attribute.id = cuda::kAttributeClusterSchedulingPolicy;
    attribute.value.cluster_policy = cuda::kClusterPolicyLoadBalancing;
  }
}

}  // namespace

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::~Executable() = default;

const std::shared_ptr<const ChainRecord>& Executable::record() const { return state_->record; }
i64 Executable::workspace_bytes() const { return state_->workspace_bytes; }
int Executable::device() const { return state_->device; }

Error Executable::launch(const LaunchArguments& arguments) const {
  const State& state = *state_;
  if (cuda::Driver::forked()) return cuda::Driver::get().takeError();
  const BoundBucket* bucket = state.find(arguments.symbol);
  if (bucket == nullptr) return state.wrong_symbol(arguments.symbol);
  if (Error error = state.check(arguments)) return error;
  // Encoding a tensor map and launching need a current context (CUDA_ERROR_INVALID_CONTEXT).
  auto scope = cuda::ScopedContext::unless_current(*state.driver, state.context);
  if (!scope) return scope.takeError();

  // The caller allows PDL for the first kernel, the plan for the others. A kernel without CTAs is
  // not launched; the next one then follows a kernel that the plan did not consider, so without
  // PDL.
  bool may_use_pdl = arguments.allow_pdl && !arguments.disable_pdl;
  bool first = true;
  for (const BoundKernel& kernel : bucket->kernels) {
    const i64 ctas = kernel.grid.ctas(arguments.symbol);
    if (ctas > 0) {
      const State::LaunchOrder order{first, may_use_pdl && kernel.pdl};
      if (Error error = state.launch_kernel(kernel, ctas, order, arguments)) return error;
      first = false;
    }
    may_use_pdl = ctas > 0 && !arguments.disable_pdl;
  }
  return Error::success();
}

const BoundBucket* Executable::State::find(i64 symbol) const {
  if (!record->symbol) return symbol == 0 ? &buckets.front() : nullptr;
  for (const BoundBucket& bucket : buckets) {
    if (symbol >= bucket.lo && symbol <= bucket.hi) return &bucket;
  }
  return nullptr;
}

Error Executable::State::wrong_symbol(i64 symbol) const {
  if (!record->symbol) {
    return make_error(ErrorCode::kInvalidArgument,
                      "chain '{}' has no symbolic size, got {}: pass 0", record->name, symbol);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "{} = {} is outside {}..{}, which chain '{}' was compiled for: pass a size "
                    "inside as the launch's symbol, or compile it for a wider range",
                    record->symbol->name, symbol, record->symbol->lo, record->symbol->hi,
                    record->name);
}

Error Executable::State::check(const LaunchArguments& arguments) const {
  if (arguments.tensors.size() != tensors.size()) {
    return wrong_count(*record, "tensors", tensors.size(), arguments.tensors.size());
  }
  if (arguments.scalars.size() != num_scalars) {
    return wrong_count(*record, "scalars", num_scalars, arguments.scalars.size());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const void* address = arguments.tensors[i];
    if (address == nullptr || misaligned(address, tensors[i].align)) {
      if (Error error = check_tensor(arguments, i)) return error;
    }
    if (tensors[i].in_place >= 0 && address != arguments.tensors[tensors[i].in_place]) {
      if (Error error = wrong_place(arguments, i)) return error;
    }
  }
  if (workspace_bytes > 0 &&
      (arguments.workspace == nullptr || misaligned(arguments.workspace, kWorkspaceAlign))) {
    return wrong_workspace(workspace_bytes, arguments.workspace);
  }
  return check_overlap(arguments);
}

// A null or misaligned tensor is an error unless it has no elements.
Error Executable::State::check_tensor(const LaunchArguments& arguments, size_t i) const {
  const BoundTensor& tensor = tensors[i];
  const i64 bytes = tensor.span.bytes(arguments.symbol);
  if (bytes == 0) return Error::success();
  if (arguments.tensors[i] == nullptr) {
    return make_error(ErrorCode::kInvalidArgument,
                      "tensor {} ('{}') is null: pass the device address of its {} bytes", i,
                      tensor.name, bytes);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "tensor {} ('{}') at {} is not a multiple of {} bytes: align it, or declare a "
                    "smaller align in the chain",
                    i, tensor.name, arguments.tensors[i], tensor.align);
}

// An output in place has the input's address; one without elements may have any.
Error Executable::State::wrong_place(const LaunchArguments& arguments, size_t i) const {
  const BoundTensor& tensor = tensors[i];
  if (tensor.span.bytes(arguments.symbol) == 0) return Error::success();
  return make_error(ErrorCode::kInvalidArgument,
                    "tensor {} ('{}') is in place of tensor {} ('{}') but is at {} and not at {}: "
                    "pass one address for both",
                    i, tensor.name, tensor.in_place, tensors[tensor.in_place].name,
                    arguments.tensors[i], arguments.tensors[tensor.in_place]);
}

// Sweeps the byte ranges by address: a written one may overlap no other, a read one none that is
// written. An output in place has the range of its input.
Error Executable::State::check_overlap(const LaunchArguments& arguments) const {
  Range ranges[kMaxTensors + 1];
  size_t count = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const i64 bytes = tensors[i].span.bytes(arguments.symbol);
    if (bytes == 0 || tensors[i].overwritten) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(arguments.tensors[i]);
    ranges[count++] = {begin, begin + bytes, static_cast<int>(i), tensors[i].output};
  }
  if (workspace_bytes > 0) {
    const auto begin = reinterpret_cast<std::uintptr_t>(arguments.workspace);
    ranges[count++] = {begin, begin + workspace_bytes, static_cast<int>(tensors.size()), true};
  }
  std::sort(ranges, ranges + count,
            [](const Range& a, const Range& b) { return a.begin < b.begin; });

  const Range* any = nullptr;      // the range so far that ends last
  const Range* written = nullptr;  // the same among written ranges
  for (size_t i = 0; i < count; ++i) {
    const Range& range = ranges[i];
    const Range* other = range.written ? any : written;
    if (other != nullptr && range.begin < other->end)
      return overlapping(range.tensor, other->tensor);
    if (any == nullptr || range.end > any->end) any = &range;
    if (range.written && (written == nullptr || range.end > written->end)) written = &range;
  }
  return Error::success();
}

Error Executable::State::overlapping(int a, int b) const {
  const auto is_written = [&](int i) {
    return i == static_cast<int>(tensors.size()) || tensors[i].output;
  };
  const auto text = [&](int i) {
    return i == static_cast<int>(tensors.size())
               ? std::string("the workspace")
               : fmt::format("tensor {} ('{}')", i, tensors[i].name);
  };
  const int out = is_written(a) ? a : b;
  return make_error(ErrorCode::kInvalidArgument,
                    "{}, which is written, overlaps {} in memory: give it memory of its own",
                    text(out), text(out == a ? b : a));
}

cuda::SimulatedLaunch Executable::State::describe(const BoundKernel& kernel, LaunchOrder order,
                                                  const LaunchArguments& arguments) const {
  cuda::SimulatedLaunch facts;
  facts.parameter_bytes = static_cast<size_t>(kernel.parameter_bytes());
  facts.first_of_chain = order.first;
  for (const SlotRecord& slot : kernel.slots) {
    sim::Region region;
    TensorType layout;
    if (slot.tensor < 0) {
      region = {"workspace", sim::RegionRole::kWorkspace,
                reinterpret_cast<std::uintptr_t>(arguments.workspace), workspace_bytes};
    } else {
      const BoundTensor& tensor = tensors[slot.tensor];
      if (tensor.output) {
        layout = with_symbol(record->tensors[slot.tensor].type, arguments.symbol);
      }
      const auto role = tensor.output   ? sim::RegionRole::kOutput
                        : tensor.weight ? sim::RegionRole::kWeight
                                        : sim::RegionRole::kInput;
      region = {tensor.name, role, reinterpret_cast<std::uintptr_t>(arguments.tensors[slot.tensor]),
                tensor.span.bytes(arguments.symbol)};
    }
    const bool in_place = slot.tensor >= 0 && tensors[slot.tensor].in_place >= 0;
    if (region.bytes > 0) facts.tensors.push_back({std::move(region), std::move(layout), in_place});
  }
  return facts;
}

Error Executable::State::encode_maps(const BoundKernel& kernel, i64 symbol, const u64* pointers,
                                     unsigned char* image) const {
  for (size_t i = 0; i < kernel.maps.size(); ++i) {
    TensorMap map = {};
    if (const auto spec = kernel.maps[i].at(pointers[kernel.maps[i].slot], symbol)) {
      Expected<TensorMap> encoded = encode(*driver, *spec);
      if (!encoded) return encoded.takeError();
      map = *encoded;
    }
    std::memcpy(image + i * sizeof map, &map, sizeof map);
  }
  return Error::success();
}

Error Executable::State::fit_clusters(BoundKernel& kernel) const {
  if (kernel.cluster <= 2 || kernel.grid.limit == 0) return Error::success();
  cuda::LaunchAttribute attributes[2];
  cuda::LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(kernel.grid.limit);
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.block_x = kernel.threads;
  config.shared_mem_bytes = kernel.smem_bytes;
  config.attributes = attributes;
  add_cluster(kernel, config);
  int clusters = 0;
  const cuda::Result result =
      driver->api().occupancy_max_active_clusters(&clusters, kernel.function, &config);
  if (result != cuda::kSuccess) {
    return driver->error(result, fmt::format("asking for the clusters of kernel {} of chain '{}'",
                                             kernel.symbol, record->name));
  }
  const i64 fitting = std::max<i64>(clusters, 1) * kernel.cluster;
  kernel.grid.limit = std::min(kernel.grid.limit, fitting);
  return Error::success();
}

Error Executable::State::launch_kernel(const BoundKernel& kernel, i64 ctas, LaunchOrder order,
                                       const LaunchArguments& arguments) const {
  // Params<pointers, scalars, maps> of templates/shared/params.h: maps; pointers and the symbol,
  // 8 bytes each; the PDL flag and the scalars, 4 bytes each.
  alignas(TensorMap) u64 image[kMaxParameterBytes / 8];
  u64* words = image + kernel.maps.size() * sizeof(TensorMap) / 8;
  words[0] = 0;
  for (size_t i = 0; i < kernel.slots.size(); ++i) {
    const SlotRecord& slot = kernel.slots[i];
    const void* base = slot.tensor < 0 ? arguments.workspace : arguments.tensors[slot.tensor];
    words[i] = reinterpret_cast<std::uintptr_t>(base) + slot.offset;
  }
  if (!kernel.maps.empty()) {
    auto* front = reinterpret_cast<unsigned char*>(image);
    if (Error error = encode_maps(kernel, arguments.symbol, words, front)) return error;
  }
  words[kernel.pointers] = static_cast<u64>(arguments.symbol);
  auto* rest = reinterpret_cast<unsigned char*>(words + kernel.pointers + 1);
  const u32 pdl[2] = {order.pdl, 0};
  std::memcpy(rest, pdl, sizeof pdl);
  for (size_t i = 0; i < kernel.scalars.size(); ++i) {
    std::memcpy(rest + 4 + 4 * i, &arguments.scalars[kernel.scalars[i]], 4);
  }

  cuda::LaunchAttribute attributes[4];
  cuda::LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(ctas);
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.block_x = kernel.threads;
  config.shared_mem_bytes = kernel.smem_bytes;
  config.stream = arguments.stream;
  config.attributes = attributes;
  if (order.pdl) {
    cuda::LaunchAttribute& attribute = attributes[config.num_attributes++] = {};
    attribute.id = cuda::kAttributeProgrammaticStreamSerialization;
    attribute.value.programmatic_stream_serialization_allowed = 1;
  }
  add_cluster(kernel, config);
  cuda::SimulatedLaunch facts;
  if (driver->simulated()) {
    facts = describe(kernel, order, arguments);
    cuda::LaunchAttribute& attribute = attributes[config.num_attributes++] = {};
    attribute.id = cuda::kAttributeSimulatedLaunch;
    attribute.value.pointer = &facts;
  }
  void* parameters[] = {image};
  const cuda::Result result =
      driver->api().launch_kernel_ex(&config, kernel.function, parameters, nullptr);
  if (result == cuda::kSuccess) return Error::success();
  return driver->error(
      result, fmt::format("launching kernel {} of chain '{}'", kernel.symbol, record->name));
}

}  // namespace catenary
