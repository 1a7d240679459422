// SPDX-License-Identifier: Apache-2.0
// Vector clocks of one cluster: what each thread knows to have happened. A component is anything
// with an event counter (its epoch): a thread, its groups of asynchronous operations, an mbarrier.
// An access by component c at epoch e happens before what a thread does now if the thread's clock
// holds e or more for c (FastTrack: Flanagan and Freund, PLDI 2009). Threads that passed the same
// barrier share the base of their clocks.
#pragma once

#include <memory>
#include <vector>

#include "shared/int.h"

namespace catenary::sim {

// Components of a cluster of N threads: five per thread, then the mbarriers in the order of their
// initialisation.
class Components {
 public:
  explicit Components(u32 threads) : threads_(threads), count_(kPerThread * threads) {}
  u32 thread(u32 t) const { return t; }
  u32 cp_async(u32 t) const { return threads_ + t; }  // cp.async, epochs: groups
  u32 bulk_reads(u32 t) const {
    return 2 * threads_ + t;
  }  // bulk groups: shared memory has been read
  u32 bulk_writes(u32 t) const { return 3 * threads_ + t; }  // bulk groups: complete
  u32 wgmma(u32 t) const { return 4 * threads_ + t; }        // wgmma groups
  u32 add_mbarrier() { return count_++; }
  u32 threads() const { return threads_; }
  bool is_thread(u32 component) const { return component < threads_; }
  bool is_mbarrier(u32 component) const { return component >= kPerThread * threads_; }
  // The thread of a component that belongs to one.
  u32 owner(u32 component) const { return component % threads_; }
  // Generic-proxy writes: a thread's stores and its cp.async (PTX ISA 9.7.9.25.2: non-bulk
  // operations use the generic proxy).
  bool is_generic(u32 component) const { return component < 2 * threads_; }

 private:
  static constexpr u32 kPerThread = 5;
  u32 threads_;
  u32 count_;
};

struct Stamp;
using StampPtr = std::shared_ptr<const Stamp>;

// What is known of another cluster of the grid, by release and acquire in global memory.
struct ClusterStamp {
  u32 cluster = 0;  // in the grid
  StampPtr stamp;
};

// A point in the order of events: what has happened by then. Immutable and shared between clocks.
struct Stamp {
  std::vector<u32> seen;    // by component; missing: 0
  std::vector<u32> fenced;  // generic components: covered by a proxy fence
  bool dependency_waited = false;
  std::vector<ClusterStamp> other_clusters;
};

// A thread's clock: a shared base stamp, and what the thread itself has done since.
class Clock {
 public:
  Clock(const Components& components, u32 thread, StampPtr base);

  bool knows(u32 component, u32 epoch) const;
  // True if a proxy fence has covered the generic access (component, epoch).
  bool fenced(u32 component, u32 epoch) const;
  u32 epoch() const { return own_[0]; }
  bool dependency_waited() const { return waited_ || base_->dependency_waited; }
  void set_dependency_waited() { waited_ = true; }

  // The thread waited for its own asynchronous groups up to `group`.
  void finish_cp_async(u32 group) { raise(1, group); }
  void finish_bulk_reads(u32 group) { raise(2, group); }
  void finish_bulk_writes(u32 group) { raise(3, group); }
  void finish_wgmma(u32 group) { raise(4, group); }

  void fence_proxy();
  // The stamp that a release publishes; the thread's later accesses are not part of it.
  StampPtr release();
  void acquire(const StampPtr& stamp);
  bool knows_cluster(u32 cluster, u32 component, u32 epoch) const;
  // What this thread of `cluster` publishes to other clusters: all that it knows.
  std::vector<ClusterStamp> release_to_clusters(u32 cluster);
  void acquire_from_clusters(const std::vector<ClusterStamp>& known);
  const StampPtr& base() const { return base_; }

 private:
  friend class BarrierPhase;
  void raise(int i, u32 group) {
    if (group > own_[i]) own_[i] = group;
  }
  void overlay(Stamp& stamp) const;
  const Components* components_;
  u32 thread_;
  StampPtr base_;
  u32 own_[5];
  bool waited_ = false;
};

// The least stamp that is after both. Recent results are cached, keyed by the two arguments.
StampPtr join(const StampPtr& a, const StampPtr& b);

// One phase of a barrier: add() joins what each arrival releases, result() is the stamp that
// waiters acquire.
class BarrierPhase {
 public:
  void add(Clock& clock);
  void add(const StampPtr& stamp) { joined_ = joined_ ? join(joined_, stamp) : stamp; }
  // A completed asynchronous write.
  void add(u32 component, u32 epoch) { extra_.push_back({component, epoch}); }
  StampPtr result();
  void clear() { *this = BarrierPhase(); }

 private:
  struct Own {
    u32 component;
    u32 epoch;
  };
  StampPtr joined_;
  std::vector<Own> extra_;
  bool waited_ = false;
};

}  // namespace catenary::sim
