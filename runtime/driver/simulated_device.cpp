// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/simulated_device.h"

#include <algorithm>
#include <cstring>

#include "ir/reference/reference_program.h"

namespace catenary::cuda {
namespace {

constexpr size_t kMaxQueue = 4096;

void* address(DevicePtr pointer) { return reinterpret_cast<void*>(pointer); }

bool is_written(const sim::Region& region) {
  return region.role == sim::RegionRole::kOutput || region.role == sim::RegionRole::kWorkspace;
}

bool overlap(const sim::Region& a, const sim::Region& b) {
  return a.begin < b.begin + static_cast<u64>(b.bytes) &&
         b.begin < a.begin + static_cast<u64>(a.bytes);
}

// Marks the elements of `tensor` as unwritten, one contiguous row at a time.
void mark_unwritten(sim::Memory& memory, const SimulatedTensor& tensor) {
  const auto mark = [&](i64 offset, i64 bytes) {
    memory.mark(reinterpret_cast<void*>(tensor.region.begin + static_cast<u64>(offset)), bytes,
                false);
  };
  TensorType rows = tensor.layout;
  const bool whole = tensor.region.role == sim::RegionRole::kWorkspace || rows.strides.empty() ||
                     rows.strides == contiguous_strides(rows.shape);
  if (whole) return mark(0, tensor.region.bytes);
  i64 row = dtype_bytes(rows.dtype);
  if (rows.strides.back() == 1) {
    row *= rows.shape.back().size;
    rows.shape.pop_back();
  }
  llvm::SmallVector<i64, 4> at(rows.rank(), 0);
  for (i64 left = num_elements(rows); left > 0; --left) {
    i64 offset = 0;
    for (int d = 0; d < rows.rank(); ++d) offset += at[d] * rows.strides[d];
    mark(offset * dtype_bytes(rows.dtype), row);
    advance(rows.shape, at);
  }
}

// Copies which bytes are written, for `granules` granules.
void copy_written(const sim::Allocation& from, u64 first_from, sim::Allocation& to, u64 first_to,
                  u64 granules) {
  const auto begin = from.written.begin() + static_cast<i64>(first_from);
  const std::vector<bool> flags(begin, begin + static_cast<i64>(granules));
  std::copy(flags.begin(), flags.end(), to.written.begin() + static_cast<i64>(first_to));
}

}  // namespace

void SimulatedDevice::set_seed(u64 seed) {
  const std::lock_guard lock(mutex_);
  options_.seed = seed;
}

void SimulatedDevice::set_progress(std::function<void(u64 done, u64 all)> progress) {
  const std::lock_guard lock(mutex_);
  options_.progress = std::move(progress);
}

Result SimulatedDevice::allocate(DevicePtr* pointer, size_t bytes) {
  if (bytes == 0) return kErrorInvalidValue;
  const std::lock_guard lock(mutex_);
  void* memory = memory_.allocate(static_cast<i64>(bytes));
  if (memory == nullptr) return kErrorOutOfMemory;
  *pointer = reinterpret_cast<DevicePtr>(memory);
  return kSuccess;
}

Result SimulatedDevice::release(DevicePtr pointer) {
  if (pointer == 0) return kSuccess;
  const std::lock_guard lock(mutex_);
  const Result result = run_queue();
  return memory_.release(address(pointer)) ? result : kErrorInvalidValue;
}

Result SimulatedDevice::upload(DevicePtr to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const Result result = run_queue(); result != kSuccess || bytes == 0) return result;
  if (memory_.find(address(to), static_cast<i64>(bytes)) == nullptr) return kErrorInvalidValue;
  std::memcpy(address(to), from, bytes);
  memory_.mark(address(to), static_cast<i64>(bytes), true);
  return kSuccess;
}

Result SimulatedDevice::download(void* to, DevicePtr from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const Result result = run_queue(); result != kSuccess || bytes == 0) return result;
  if (memory_.find(address(from), static_cast<i64>(bytes)) == nullptr) return kErrorInvalidValue;
  std::memcpy(to, address(from), bytes);
  return kSuccess;
}

Result SimulatedDevice::copy(DevicePtr to, DevicePtr from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const Result result = run_queue(); result != kSuccess || bytes == 0) return result;
  const sim::Allocation* source = memory_.find(address(from), static_cast<i64>(bytes));
  sim::Allocation* target = memory_.find(address(to), static_cast<i64>(bytes));
  if (source == nullptr || target == nullptr) return kErrorInvalidValue;
  std::memmove(address(to), address(from), bytes);
  const u64 offset_from = from - source->begin;
  const u64 offset_to = to - target->begin;
  if (offset_from % sim::kGranule != offset_to % sim::kGranule) {
    memory_.mark(address(to), static_cast<i64>(bytes), true);
    return kSuccess;
  }
  const u64 first = offset_from / sim::kGranule;
  const u64 end = (offset_from + bytes + sim::kGranule - 1) / sim::kGranule;
  copy_written(*source, first, *target, offset_to / sim::kGranule, end - first);
  return kSuccess;
}

Result SimulatedDevice::fill(DevicePtr to, unsigned char byte, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const Result result = run_queue(); result != kSuccess || bytes == 0) return result;
  if (memory_.find(address(to), static_cast<i64>(bytes)) == nullptr) return kErrorInvalidValue;
  std::memset(address(to), byte, bytes);
  memory_.mark(address(to), static_cast<i64>(bytes), true);
  return kSuccess;
}

void SimulatedDevice::enqueue(const std::vector<QueuedLaunch>& launches) {
  const std::lock_guard lock(mutex_);
  queue_.insert(queue_.end(), launches.begin(), launches.end());
  // Bounds the queue of a program that never waits. A fault is kept until a call waits.
  if (queue_.size() >= kMaxQueue) run_queue();
}

Result SimulatedDevice::synchronize() {
  const std::lock_guard lock(mutex_);
  return run_queue();
}

Result SimulatedDevice::explain(Result result, Error error) {
  const std::lock_guard lock(mutex_);
  // One report per result: a caller that reads none gets the latest, and the list stays short.
  std::erase_if(reports_, [&](const Details& details) { return details.result == result; });
  reports_.push_back({result, catenary::take_report(std::move(error))});
  return result;
}

std::optional<ErrorReport> SimulatedDevice::take_report(Result result) {
  const std::lock_guard lock(mutex_);
  const auto it = std::find_if(reports_.begin(), reports_.end(),
                               [&](const Details& details) { return details.result == result; });
  if (it == reports_.end()) return std::nullopt;
  ErrorReport report = std::move(it->report);
  reports_.erase(it);
  return report;
}

// Runs groups of launches: a chain whose first kernel has no PDL starts a group, so that its
// outputs can be marked as unwritten before the group runs.
Result SimulatedDevice::run_queue() {
  std::vector<QueuedLaunch> queue = std::move(queue_);
  queue_.clear();
  std::vector<QueuedLaunch> group;
  Result result = kSuccess;
  for (size_t i = 0; i < queue.size() && result == kSuccess; ++i) {
    group.push_back(std::move(queue[i]));
    const bool last = i + 1 == queue.size();
    if (last || (queue[i + 1].first_of_chain && !queue[i + 1].launch.overlap)) {
      result = run_group(std::move(group));
      group.clear();
    }
  }
  const bool pending = std::any_of(reports_.begin(), reports_.end(), [](const Details& details) {
    return details.result == kErrorLaunchFailed;
  });
  return pending ? kErrorLaunchFailed : result;
}

Result SimulatedDevice::run_group(std::vector<QueuedLaunch> group) {
  mark_outputs_unwritten(group);
  std::vector<sim::Launch> launches;
  for (QueuedLaunch& queued : group) {
    for (SimulatedTensor& tensor : queued.tensors) {
      queued.launch.regions.push_back(std::move(tensor.region));
    }
    launches.push_back(std::move(queued.launch));
  }
  Error error = sim::simulate(memory_, launches, options_);
  if (!error) return kSuccess;
  reports_.push_back({kErrorLaunchFailed, catenary::take_report(std::move(error))});
  return kErrorLaunchFailed;
}

// Marks what each chain of the group writes as unwritten, except memory that an earlier chain of
// the group uses: that chain may still run when this one starts.
void SimulatedDevice::mark_outputs_unwritten(const std::vector<QueuedLaunch>& group) {
  std::vector<sim::Region> used;
  for (size_t begin = 0; begin < group.size();) {
    size_t end = begin + 1;
    while (end < group.size() && !group[end].first_of_chain) ++end;
    const size_t earlier = used.size();
    for (size_t i = begin; i < end; ++i) {
      for (const SimulatedTensor& tensor : group[i].tensors) {
        const auto is_used = [&](const sim::Region& other) {
          return overlap(tensor.region, other);
        };
        if (is_written(tensor.region) && !tensor.in_place && group[begin].first_of_chain &&
            std::none_of(used.begin(), used.begin() + static_cast<i64>(earlier), is_used)) {
          mark_unwritten(memory_, tensor);
        }
        used.push_back(tensor.region);
      }
    }
    begin = end;
  }
}

}  // namespace catenary::cuda
