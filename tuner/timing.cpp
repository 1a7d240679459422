// SPDX-License-Identifier: Apache-2.0
#include "tuner/timing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

namespace catenary::tuner {
namespace {

class Event {
 public:
  static Expected<Event> create(const Session& session) {
    Event event(session);
    if (Error error = session.check(session.api().event_create(&event.event_, 0),
                                    "creating a timing event")) {
      return error;
    }
    return event;
  }
  Event(Event&& other) noexcept
      : session_(other.session_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) session_.api().event_destroy(event_);
  }
  cuda::Event get() const { return event_; }

  Error record() const {
    return session_.check(session_.api().event_record(event_, session_.stream()),
                          "recording a timing event");
  }

 private:
  explicit Event(const Session& session) : session_(session) {}
  const Session& session_;
  cuda::Event event_ = nullptr;
};

// An instantiated graph of `launches` launches.
class Graph {
 public:
  static Expected<Graph> capture(const Session& session, const Contender& contender, int launches,
                                 int copies);
  Graph(Graph&& other) noexcept
      : session_(other.session_), exec_(std::exchange(other.exec_, nullptr)) {}
  Graph& operator=(Graph&&) = delete;
  ~Graph() {
    if (exec_ != nullptr) session_.api().graph_exec_destroy(exec_);
  }

  Error launch() const {
    return session_.check(session_.api().graph_launch(exec_, session_.stream()),
                          "launching a graph");
  }

 private:
  explicit Graph(const Session& session) : session_(session) {}
  const Session& session_;
  cuda::GraphExec exec_ = nullptr;
};

Expected<Graph> Graph::capture(const Session& session, const Contender& contender, int launches,
                               int copies) {
  const cuda::Api& api = session.api();
  // Relaxed: a peer may make calls on its own streams that other modes forbid.
  if (Error error =
          session.check(api.stream_begin_capture(session.stream(), cuda::kCaptureModeRelaxed),
                        "beginning a capture")) {
    return error;
  }
  Error problem = Error::success();
  for (int i = 0; i < launches && !problem; ++i) problem = contender.launch(i % copies);
  // The stream must leave capture even if a launch failed.
  cuda::Graph captured = nullptr;
  const cuda::Result ended = api.stream_end_capture(session.stream(), &captured);
  Graph graph(session);
  if (!problem) problem = session.check(ended, "ending a capture");
  if (!problem) {
    problem =
        session.check(api.graph_instantiate(&graph.exec_, captured, 0), "instantiating a graph");
  }
  if (captured != nullptr) api.graph_destroy(captured);
  if (problem) return problem;
  return graph;
}

// One contender, and how it is enqueued.
struct Lane {
  const Contender* contender = nullptr;
  std::optional<Graph> graph;
  int copies = 1;
  int unit = 1;      // launches per enqueue
  i64 enqueues = 1;  // per batch
  i64 cursor = 0;    // the rotation continues from batch to batch
  std::vector<double> us;

  Error enqueue() {
    if (graph) return graph->launch();
    return contender->launch(static_cast<int>(cursor++ % copies));
  }
};

class Timer {
 public:
  static Expected<Timer> create(const Session& session) {
    Expected<Event> start = Event::create(session);
    if (!start) return start.takeError();
    Expected<Event> stop = Event::create(session);
    if (!stop) return stop.takeError();
    return Timer(session, std::move(*start), std::move(*stop));
  }

  // Microseconds per launch over one batch, after one untimed enqueue.
  Expected<double> batch(Lane& lane, i64 enqueues) const {
    if (Error error = lane.enqueue()) return error;
    if (Error error = start_.record()) return error;
    for (i64 i = 0; i < enqueues; ++i) {
      if (Error error = lane.enqueue()) return error;
    }
    if (Error error = stop_.record()) return error;
    if (Error error = session_.check(session_.api().event_synchronize(stop_.get()),
                                     "waiting for a timed batch")) {
      return error;
    }
    float milliseconds = 0;
    if (Error error = session_.check(
            session_.api().event_elapsed_time(&milliseconds, start_.get(), stop_.get()),
            "reading a timed batch")) {
      return error;
    }
    return 1e3 * milliseconds / static_cast<double>(enqueues * lane.unit);
  }

 private:
  Timer(const Session& session, Event start, Event stop)
      : session_(session), start_(std::move(start)), stop_(std::move(stop)) {}
  const Session& session_;
  Event start_;
  Event stop_;
};

// Warms up every lane, chooses between graphs and single launches, and sizes the batches.
Error prepare(const Session& session, const Timer& timer, const TimingOptions& options,
              std::vector<Lane>& lanes) {
  double fastest = std::numeric_limits<double>::infinity();
  for (Lane& lane : lanes) {
    lane.copies = std::max(options.copies, 1);
    for (const i64 launches : {2, 4}) {
      Expected<double> us = timer.batch(lane, launches);
      if (!us) return us.takeError();
      lane.enqueues = batch_units(options.batch_us, *us, 1);
      // Long kernels need no second warm-up.
      const bool warm = launches == 4 || *us > 1000;
      if (warm) fastest = std::min(fastest, *us);
      if (warm) break;
    }
  }
  if (fastest >= options.graph_below_us) return Error::success();
  for (Lane& lane : lanes) {
    Expected<Graph> graph =
        Graph::capture(session, *lane.contender, options.graph_launches, lane.copies);
    if (!graph) return graph.takeError();
    lane.graph.emplace(std::move(*graph));
    lane.unit = options.graph_launches;
    Expected<double> us = timer.batch(lane, 1);
    if (!us) return us.takeError();
    lane.enqueues = batch_units(options.batch_us, *us, lane.unit);
  }
  return Error::success();
}

}  // namespace

i64 batch_units(double batch_us, double us, int unit) {
  const double units = std::ceil(batch_us / (std::max(us, 0.01) * unit));
  return static_cast<i64>(std::clamp(units, 1.0, 10000.0));
}

int rotation_copies(i64 bytes, i64 set_bytes, i64 l2_bytes, i64 budget_bytes) {
  i64 copies = 2 * l2_bytes / std::max<i64>(bytes, 1) + 1;
  copies = std::min(copies, budget_bytes / std::max<i64>(set_bytes, 1));
  return static_cast<int>(std::clamp<i64>(copies, 2, 128));
}

Expected<std::vector<Timing>> time_contenders(const Session& session,
                                              llvm::ArrayRef<Contender> contenders,
                                              const TimingOptions& options) {
  Expected<Timer> timer = Timer::create(session);
  if (!timer) return timer.takeError();
  std::vector<Lane> lanes(contenders.size());
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i].contender = &contenders[i];
  if (Error error = prepare(session, *timer, options, lanes)) return error;
  // The power limit makes a kernel slower after one that heats the chip: each round has another
  // order (RESULTS timing-1).
  std::vector<size_t> order(lanes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1);
  for (int round = 0; round < options.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t which : order) {
      Lane& lane = lanes[which];
      Expected<double> us = timer->batch(lane, lane.enqueues);
      if (!us) return us.takeError();
      lane.us.push_back(*us);
    }
  }
  if (Error error = session.synchronize()) return error;
  std::vector<Timing> timings;
  for (const Lane& lane : lanes) {
    timings.push_back({spread_of(lane.us), lane.graph.has_value(), lane.enqueues * lane.unit});
  }
  return timings;
}

}  // namespace catenary::tuner
