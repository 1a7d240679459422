// SPDX-License-Identifier: Apache-2.0
// Streams of the simulator. All launches are in one queue; a stream is only captured or not.
#include <atomic>

#include "runtime/driver/simulated_objects.h"

namespace catenary::cuda {
namespace {

std::atomic<int> blocking_captures{0};
thread_local int capture_mode = 0;

Result begin_capture(Stream handle, int) {
  return with_stream(handle, [](StreamObject* stream) -> Result {
    if (stream == nullptr || stream->capturing) return kErrorStreamCaptureUnsupported;
    stream->capturing = true;
    stream->recorded.launches.clear();
    if (stream->blocking) ++blocking_captures;
    return kSuccess;
  });
}

void stop_capture(StreamObject& stream) {
  if (stream.capturing && stream.blocking) --blocking_captures;
  stream.capturing = false;
}

Result end_capture(Stream handle, Graph* graph) {
  return with_stream(handle, [&](StreamObject* stream) -> Result {
    if (stream == nullptr || !stream->capturing) return kErrorStreamCaptureUnsupported;
    stop_capture(*stream);
    *graph = graphs().add(std::make_shared<GraphObject>(std::move(stream->recorded)));
    return kSuccess;
  });
}

Result is_capturing(Stream handle, int* status) {
  return with_stream(handle, [&](StreamObject* stream) -> Result {
    *status = stream != nullptr && stream->capturing ? kCaptureStatusActive : kCaptureStatusNone;
    return stream == nullptr && blocking_captures > 0 ? kErrorStreamCaptureImplicit : kSuccess;
  });
}

Result synchronize_stream(Stream handle) {
  return with_stream(handle, [](StreamObject* stream) -> Result {
    if (stream != nullptr && stream->capturing) return kErrorStreamCaptureUnsupported;
    return device().synchronize();
  });
}

void set_event_calls(Api& api) {
  api.event_create = [](Event* event, unsigned) {
    return *event = events().add(std::make_shared<EventObject>()), kSuccess;
  };
  api.event_record = [](Event event, Stream stream) {
    const Result found = check(events(), event);
    return found != kSuccess ? found : with_stream(stream, [](StreamObject*) { return kSuccess; });
  };
  api.event_synchronize = [](Event event) {
    const Result found = check(events(), event);
    return found != kSuccess ? found : device().synchronize();
  };
  api.event_elapsed_time = [](float* milliseconds, Event start, Event end) {
    const Result found = check(events(), start);
    return *milliseconds = 0, found != kSuccess ? found : check(events(), end);
  };
  api.event_destroy = [](Event event) { return destroy(events(), event); };
}

}  // namespace

Result submit(Stream handle, const std::vector<QueuedLaunch>& launches) {
  return with_stream(handle, [&](StreamObject* stream) -> Result {
    if (stream != nullptr && stream->capturing) {
      auto& recorded = stream->recorded.launches;
      recorded.insert(recorded.end(), launches.begin(), launches.end());
      return kSuccess;
    }
    if (stream == nullptr && blocking_captures > 0) return kErrorStreamCaptureImplicit;
    device().enqueue(launches);
    return kSuccess;
  });
}

void set_stream_calls(Api& api) {
  api.stream_create = [](Stream* stream, unsigned flags) {
    *stream = streams().add(std::make_shared<StreamObject>());
    (*stream)->blocking = (flags & kStreamNonBlocking) == 0;
    return kSuccess;
  };
  api.stream_destroy = [](Stream handle) {
    return with(streams(), handle, [&](StreamObject& stream) {
      stop_capture(stream);
      return destroy(streams(), handle);
    });
  };
  api.stream_synchronize = synchronize_stream;
  api.stream_is_capturing = is_capturing;
  api.stream_begin_capture = begin_capture;
  api.stream_end_capture = end_capture;
  api.thread_exchange_stream_capture_mode = [](int* mode) {
    return std::swap(*mode, capture_mode), kSuccess;
  };
  api.graph_instantiate = [](GraphExec* exec, Graph handle, unsigned long long) {
    return with(graphs(), handle, [&](GraphObject& graph) {
      *exec = graph_execs().add(std::make_shared<GraphExecObject>(GraphExecObject{graph.launches}));
      return kSuccess;
    });
  };
  api.graph_launch = [](GraphExec handle, Stream stream) {
    return with(graph_execs(), handle,
                [&](GraphExecObject& exec) { return submit(stream, exec.launches); });
  };
  api.graph_exec_destroy = [](GraphExec exec) { return destroy(graph_execs(), exec); };
  api.graph_destroy = [](Graph graph) { return destroy(graphs(), graph); };
  set_event_calls(api);
}

}  // namespace catenary::cuda
