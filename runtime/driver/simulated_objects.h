// SPDX-License-Identifier: Apache-2.0
// What the simulator's driver calls share: the device, and the objects of the opaque handles.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/driver/simulated_device.h"
#include "runtime/driver/simulated_handles.h"

namespace catenary::cuda {

// The one device. To be called only after simulator_api() has returned a table.
SimulatedDevice& device();

struct ContextObject {};
struct EventObject {};
struct FunctionObject {
  std::shared_ptr<const sim::Object> object;
  std::string name;
};
struct KernelObject {
  FunctionObject function;
};
struct LibraryObject {
  KernelObject kernel;
};
struct GraphObject {
  std::vector<QueuedLaunch> launches;
};
struct GraphExecObject {
  std::vector<QueuedLaunch> launches;
};
struct StreamObject {
  bool blocking = true;
  bool capturing = false;
  GraphObject recorded;
};

// Never destroyed: a static object of the program may still own a handle.
template <typename T>
Handles<T>& handles_named(const char* kind) {
  static Handles<T>& all = *new Handles<T>(kind);
  return all;
}
inline Handles<StreamObject>& streams() { return handles_named<StreamObject>("stream"); }
inline Handles<EventObject>& events() { return handles_named<EventObject>("event"); }
inline Handles<GraphObject>& graphs() { return handles_named<GraphObject>("graph"); }
inline Handles<GraphExecObject>& graph_execs() {
  return handles_named<GraphExecObject>("graph exec");
}
inline Handles<LibraryObject>& libraries() { return handles_named<LibraryObject>("library"); }
inline Handles<KernelObject>& kernels() { return handles_named<KernelObject>("kernel"); }
inline Handles<FunctionObject>& functions() { return handles_named<FunctionObject>("function"); }

// Calls `use` with the object of `handle`.
template <typename T, typename Use>
Result with(Handles<T>& handles, T* handle, const Use& use) {
  Expected<std::shared_ptr<T>> object = handles.find(handle);
  if (!object) return device().explain(kErrorInvalidHandle, object.takeError());
  return use(**object);
}

template <typename T>
Result check(Handles<T>& handles, T* handle) {
  return with(handles, handle, [](T&) { return kSuccess; });
}

template <typename T>
Result destroy(Handles<T>& handles, T* handle) {
  Expected<std::shared_ptr<T>> object = handles.remove(handle);
  if (!object) return device().explain(kErrorInvalidHandle, object.takeError());
  return kSuccess;
}

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD: the simulator has one queue, that of the null stream.
inline bool is_default(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

// Calls `use` with the stream, null for a default one.
template <typename Use>
Result with_stream(Stream stream, const Use& use) {
  if (is_default(stream)) return use(nullptr);
  return with(streams(), stream, [&](StreamObject& object) { return use(&object); });
}

// Runs the launches after what is queued, or records them if the stream is captured.
Result submit(Stream handle, const std::vector<QueuedLaunch>& launches);

// Streams, capture, graphs and events of the table.
void set_stream_calls(Api& api);

}  // namespace catenary::cuda
