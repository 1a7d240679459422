// SPDX-License-Identifier: Apache-2.0
// A graph of the work that a function submits to the suite's stream.
#pragma once

#include "tests/gpu/suite.h"

namespace catenary::gpu_suite {

class CapturedGraph {
 public:
  explicit CapturedGraph(Suite& suite) : suite_(suite) {}
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph() {
    if (exec_ != nullptr) suite_.api().graph_exec_destroy(exec_);
    if (graph_ != nullptr) suite_.api().graph_destroy(graph_);
  }

  template <typename Record>
  Error capture(const Record& record) {
    const cuda::Api& api = suite_.api();
    if (Error error =
            suite_.check(api.stream_begin_capture(suite_.stream(), cuda::kCaptureModeThreadLocal),
                         "beginning a capture")) {
      return error;
    }
    Error recorded = record();
    const cuda::Result ended = api.stream_end_capture(suite_.stream(), &graph_);
    if (recorded) return recorded;
    if (Error error = suite_.check(ended, "ending the capture")) return error;
    return suite_.check(api.graph_instantiate(&exec_, graph_, 0), "instantiating the graph");
  }

  Error launch() {
    if (Error error = suite_.reschedule()) return error;
    return suite_.check(suite_.api().graph_launch(exec_, suite_.stream()), "launching the graph");
  }

 private:
  Suite& suite_;
  cuda::Graph graph_ = nullptr;
  cuda::GraphExec exec_ = nullptr;
};

}  // namespace catenary::gpu_suite
