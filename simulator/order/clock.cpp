// SPDX-License-Identifier: Apache-2.0
#include "simulator/order/clock.h"

#include <algorithm>
#include <array>

namespace catenary::sim {
namespace {

u32 get(const std::vector<u32>& v, u32 i) { return i < v.size() ? v[i] : 0; }

void raise_to(std::vector<u32>& v, u32 i, u32 value) {
  if (i >= v.size()) v.resize(i + 1, 0);
  if (v[i] < value) v[i] = value;
}

void raise_all(std::vector<u32>& v, const std::vector<u32>& other) {
  if (v.size() < other.size()) v.resize(other.size(), 0);
  for (size_t i = 0; i < other.size(); ++i) v[i] = std::max(v[i], other[i]);
}

// Whether `v` holds at least what `other` does, everywhere.
bool covers(const std::vector<u32>& v, const std::vector<u32>& other) {
  const size_t common = std::min(v.size(), other.size());
  u32 missing = 0;
  for (size_t i = 0; i < common; ++i) missing |= static_cast<u32>(v[i] < other[i]);
  for (size_t i = common; i < other.size(); ++i) missing |= other[i];
  return missing == 0;
}

bool covers(const Stamp& stamp, const Stamp& other) {
  return other.other_clusters.empty() && stamp.dependency_waited >= other.dependency_waited &&
         covers(stamp.seen, other.seen) && covers(stamp.fenced, other.fenced);
}

void add_cluster_stamp(std::vector<ClusterStamp>& known, const ClusterStamp& more) {
  for (ClusterStamp& other : known) {
    if (other.cluster == more.cluster) {
      other.stamp = join(other.stamp, more.stamp);
      return;
    }
  }
  known.push_back(more);
}

// Few joins are new: all threads of a CTA acquire the same phase from the same base.
struct CachedJoin {
  StampPtr a, b, result;
};
constexpr size_t kJoinCacheSize = 16;
thread_local std::array<CachedJoin, kJoinCacheSize> join_cache;
thread_local size_t next_in_cache = 0;

}  // namespace

Clock::Clock(const Components& components, u32 thread, StampPtr base)
    : components_(&components), thread_(thread), base_(std::move(base)), own_{1, 0, 0, 0, 0} {}

bool Clock::knows(u32 component, u32 epoch) const {
  if (get(base_->seen, component) >= epoch) return true;
  const u32 n = components_->threads();
  return component < 5 * n && component % n == thread_ && own_[component / n] >= epoch;
}

bool Clock::fenced(u32 component, u32 epoch) const {
  return get(base_->fenced, component) >= epoch;
}

void Clock::overlay(Stamp& stamp) const {
  const u32 n = components_->threads();
  for (u32 i = 0; i < 5; ++i) {
    if (own_[i] != 0) raise_to(stamp.seen, i * n + thread_, own_[i]);
  }
  stamp.dependency_waited |= waited_;
}

void Clock::fence_proxy() {
  auto stamp = std::make_shared<Stamp>(*base_);
  overlay(*stamp);
  const size_t generic = std::min<size_t>(stamp->seen.size(), 2 * components_->threads());
  if (stamp->fenced.size() < generic) stamp->fenced.resize(generic, 0);
  for (size_t i = 0; i < generic; ++i) {
    stamp->fenced[i] = std::max(stamp->fenced[i], stamp->seen[i]);
  }
  base_ = std::move(stamp);
  ++own_[0];  // later writes of the thread are not covered by the fence
}

StampPtr Clock::release() {
  auto stamp = std::make_shared<Stamp>(*base_);
  overlay(*stamp);
  ++own_[0];
  return stamp;
}

void Clock::acquire(const StampPtr& stamp) { base_ = join(base_, stamp); }

bool Clock::knows_cluster(u32 cluster, u32 component, u32 epoch) const {
  return std::any_of(base_->other_clusters.begin(), base_->other_clusters.end(),
                     [&](const ClusterStamp& f) {
                       return f.cluster == cluster && get(f.stamp->seen, component) >= epoch;
                     });
}

std::vector<ClusterStamp> Clock::release_to_clusters(u32 cluster) {
  std::vector<ClusterStamp> known = base_->other_clusters;
  add_cluster_stamp(known, {cluster, release()});
  return known;
}

void Clock::acquire_from_clusters(const std::vector<ClusterStamp>& known) {
  auto stamp = std::make_shared<Stamp>(*base_);
  for (const ClusterStamp& more : known) add_cluster_stamp(stamp->other_clusters, more);
  base_ = std::move(stamp);
}

StampPtr join(const StampPtr& a, const StampPtr& b) {
  if (a == b || !b) return a;
  if (!a) return b;
  for (const CachedJoin& r : join_cache) {
    if (r.a == a && r.b == b) return r.result;
  }
  if (covers(*a, *b)) return a;
  if (covers(*b, *a)) return b;
  auto stamp = std::make_shared<Stamp>(*a);
  raise_all(stamp->seen, b->seen);
  raise_all(stamp->fenced, b->fenced);
  stamp->dependency_waited |= b->dependency_waited;
  for (const ClusterStamp& more : b->other_clusters) {
    add_cluster_stamp(stamp->other_clusters, more);
  }
  StampPtr result = std::move(stamp);
  join_cache[next_in_cache] = {a, b, result};
  next_in_cache = (next_in_cache + 1) % kJoinCacheSize;
  return result;
}

void BarrierPhase::add(Clock& clock) {
  joined_ = joined_ ? join(joined_, clock.base_) : clock.base_;
  const u32 n = clock.components_->threads();
  for (u32 i = 0; i < 5; ++i) {
    if (clock.own_[i] != 0) extra_.push_back({i * n + clock.thread_, clock.own_[i]});
  }
  waited_ |= clock.waited_;
  ++clock.own_[0];
}

StampPtr BarrierPhase::result() {
  auto stamp = joined_ ? std::make_shared<Stamp>(*joined_) : std::make_shared<Stamp>();
  for (const Own& own : extra_) raise_to(stamp->seen, own.component, own.epoch);
  stamp->dependency_waited |= waited_;
  return stamp;
}

}  // namespace catenary::sim
