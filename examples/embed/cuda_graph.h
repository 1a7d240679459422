// SPDX-License-Identifier: Apache-2.0
// A CUDA graph by the driver's own functions, found in the process, so that this example builds
// without a CUDA toolkit. An engine includes cuda.h and calls them as any other.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace embed {

// What `work` launches on a stream, captured once and launched as often as wanted.
class CudaGraph {
 public:
  CudaGraph(void* stream, const std::function<void()>& work) {
    constexpr int kThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    void *graph = nullptr, *context = nullptr;
    // The driver makes the graph executable in the thread's context; an engine has one.
    call<int(void*, void**)>("cuStreamGetCtx", stream, &context);
    call<int(void*)>("cuCtxSetCurrent", context);
    call<int(void*, int)>("cuStreamBeginCapture_v2", stream, kThreadLocal);
    work();
    call<int(void*, void**)>("cuStreamEndCapture", stream, &graph);
    call<int(void**, void*, std::uint64_t)>("cuGraphInstantiateWithFlags", &executable_, graph,
                                            std::uint64_t{0});
    call<int(void*)>("cuGraphDestroy", graph);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() { function<int(void*)>("cuGraphExecDestroy")(executable_); }

  void launch(void* stream) const { call<int(void*, void*)>("cuGraphLaunch", executable_, stream); }

 private:
  template <typename Function>
  static Function* function(const char* name) {
    static void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    void* found = driver == nullptr ? nullptr : ::dlsym(driver, name);
    if (found == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
    return reinterpret_cast<Function*>(found);
  }
  template <typename Function, typename... Arguments>
  static void call(const char* name, Arguments... arguments) {
    const int result = function<Function>(name)(arguments...);
    if (result == 0) return;
    throw std::runtime_error(std::string(name) + " returned " + std::to_string(result));
  }

  void* executable_ = nullptr;
};

}  // namespace embed
