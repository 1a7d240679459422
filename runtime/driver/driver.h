// SPDX-License-Identifier: Apache-2.0
// The CUDA driver (libcuda.so.1), opened at run time and resolved by cuGetProcAddress. Its types
// are declared here, so that a build needs no CUDA header; driver_test compares them with cuda.h
// where it is found.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/target.h"
#include "ir/error.h"

namespace catenary::cuda {

using Result = int;
using Device = int;
using DevicePtr = unsigned long long;
struct ContextObject;
struct StreamObject;
struct EventObject;
struct LibraryObject;
struct KernelObject;
struct FunctionObject;
struct GraphObject;
struct GraphExecObject;
using Context = ContextObject*;
using Stream = StreamObject*;
using Event = EventObject*;
using Library = LibraryObject*;
using Kernel = KernelObject*;
using Function = FunctionObject*;
using Graph = GraphObject*;
using GraphExec = GraphExecObject*;

// CUlaunchAttribute: id, 4 bytes of padding, a 64-byte value.
struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int programmatic_stream_serialization_allowed;
    struct {
      unsigned x, y, z;
    } cluster;
    int cluster_policy;
    const void* pointer;
  } value;
};
inline constexpr int kAttributeClusterDimension = 4;
inline constexpr int kAttributeClusterSchedulingPolicy = 5;
inline constexpr int kAttributeProgrammaticStreamSerialization = 6;
inline constexpr int kClusterPolicyLoadBalancing = 2;

// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_mem_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};

// The entry points: one member per row of driver.def.
struct Api;

class Driver {
 public:
  // The process's driver, opened and initialised once: CUDA's, or the simulator if chosen (below).
  // kDriverMissing: no libcuda.so.1, an error of cuInit, or no device. kDriver: this process was
  // forked after the driver was opened; CUDA does not survive fork().
  static Expected<const Driver*> get();

  // Whether this process was forked from one that had opened the driver. Costs one load.
  static bool forked();

  ~Driver();
  const Api& api() const { return *api_; }
  int version() const { return version_; }  // 13000 for 13.0
  int device_count() const { return device_count_; }
  bool simulated() const { return simulated_; }

  // A result as an Error, with the driver's name and text for it; `what` is the operation that
  // failed. Sticky errors (700, 714 to 719, ...) are kContextPoisoned: the context is unusable
  // until the process ends. 2 is kOutOfMemory, 209 and 222 kArchMismatch, 900 to 908
  // kNotWarmedCapture, others kDriver. A kernel's fault in the simulator is kSimulatorFault; the
  // simulator stays usable.
  Error error(Result result, const std::string& what) const;

  // The primary context of `ordinal`, retained once and never released.
  Expected<Context> primary_context(int ordinal) const;

 private:
  friend class ScopedDriver;
  Driver();
  static Expected<std::unique_ptr<Driver>> open();
  static Expected<std::unique_ptr<Driver>> open_simulator();
  static Expected<std::unique_ptr<Driver>> over(const Api& api);
  std::unique_ptr<const Api> api_;
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
  int version_ = 0;
  int device_count_ = 0;
  bool simulated_ = false;
};

// The oldest driver that loads machine code of this compiler ("nvrtc 13.0.88 CL-36424714"), as
// Driver::version() gives it: a CUDA release's code runs on every driver of its major version
// (CUDA Compatibility, "Minor Version Compatibility"). kMinimumDriver for another text.
int oldest_driver_for(std::string_view compiler_id);

// Makes Driver::get() return the simulator. kInvalidArgument: it has already returned CUDA's
// driver.
Error use_simulator();

// Whether use_simulator() or CATENARY_DEVICE=sim chose the simulator. kInvalidArgument:
// CATENARY_DEVICE is neither sim nor cuda.
Expected<bool> simulator_chosen();

struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int compute_capability = 0;  // 90
  Target target;               // sizes of the device, rates of a row of targets.def
  i64 memory_bytes = 0;
};

// Device `ordinal` as a planning target: SM count, clock, shared memory and L2 of the device, rates
// of the nearest row of targets.def.
Expected<DeviceInfo> probe(int ordinal);

// Makes the primary context of `ordinal` current on this thread, and restores the previous one in
// the destructor.
class ScopedContext {
 public:
  static Expected<ScopedContext> primary(int ordinal);
  // The same for `context`, without effect where it is current already. For launches: a thread may
  // have no context, or that of another device. Takes no lock.
  static Expected<ScopedContext> unless_current(const Driver& driver, Context context);
  ScopedContext(ScopedContext&& other) noexcept;
  ScopedContext& operator=(ScopedContext&&) = delete;
  ~ScopedContext();

 private:
  ScopedContext() = default;
  static Expected<ScopedContext> push(const Driver& driver, Context context);
  bool active_ = false;
};

// Device memory of the current context, freed by the destructor. `bytes` and `offset` are in bytes.
class DeviceBuffer {
 public:
  static Expected<DeviceBuffer> allocate(i64 bytes);
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();
  DevicePtr get() const { return pointer_; }
  i64 bytes() const { return bytes_; }
  Error upload(const void* data, i64 bytes, i64 offset = 0);
  Error download(void* data, i64 bytes, i64 offset = 0) const;
  Error fill(u8 byte);

 private:
  DevicePtr pointer_ = 0;
  i64 bytes_ = 0;
};

}  // namespace catenary::cuda
