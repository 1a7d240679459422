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

void add_foreign(std::vector<Foreign>& known, const Foreign& more) {
  for (Foreign& f : known) {
    if (f.cluster == more.cluster) {
      f.stamp = join(f.stamp, more.stamp);
      return;
    }
  }
  known.push_back(more);
}

// The joins of one run repeat: all threads of a CTA acquire the same phase from the same base.
struct Remembered {
  StampPtr a, b, result;
};
constexpr size_t kRemembered = 16;
thread_local std::array<Remembered, kRemembered> remembered;
thread_local size_t next_remembered = 0;

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
  ++own_[0];  // what the thread writes from here on is behind the fence
}

StampPtr Clock::release() {
  auto stamp = std::make_shared<Stamp>(*base_);
  overlay(*stamp);
  ++own_[0];
  return stamp;
}

void Clock::acquire(const StampPtr& stamp) { base_ = join(base_, stamp); }

bool Clock::knows_foreign(u32 cluster, u32 component, u32 epoch) const {
  return std::any_of(base_->foreign.begin(), base_->foreign.end(), [&](const Foreign& f) {
    return f.cluster == cluster && get(f.stamp->seen, component) >= epoch;
  });
}

std::vector<Foreign> Clock::release_foreign(u32 cluster) {
  std::vector<Foreign> known = base_->foreign;
  add_foreign(known, {cluster, release()});
  return known;
}

void Clock::acquire_foreign(const std::vector<Foreign>& known) {
  auto stamp = std::make_shared<Stamp>(*base_);
  for (const Foreign& f : known) add_foreign(stamp->foreign, f);
  base_ = std::move(stamp);
}

StampPtr join(const StampPtr& a, const StampPtr& b) {
  if (a == b || !b) return a;
  if (!a) return b;
  for (const Remembered& r : remembered) {
    if (r.a == a && r.b == b) return r.result;
  }
  auto stamp = std::make_shared<Stamp>(*a);
  raise_all(stamp->seen, b->seen);
  raise_all(stamp->fenced, b->fenced);
  stamp->dependency_waited |= b->dependency_waited;
  for (const Foreign& f : b->foreign) add_foreign(stamp->foreign, f);
  StampPtr result = std::move(stamp);
  remembered[next_remembered] = {a, b, result};
  next_remembered = (next_remembered + 1) % kRemembered;
  return result;
}

void Meeting::add(Clock& clock) {
  joined_ = joined_ ? join(joined_, clock.base_) : clock.base_;
  const u32 n = clock.components_->threads();
  for (u32 i = 0; i < 5; ++i) {
    if (clock.own_[i] != 0) extra_.push_back({i * n + clock.thread_, clock.own_[i]});
  }
  waited_ |= clock.waited_;
  ++clock.own_[0];
}

StampPtr Meeting::result() {
  auto stamp = joined_ ? std::make_shared<Stamp>(*joined_) : std::make_shared<Stamp>();
  for (const Own& own : extra_) raise_to(stamp->seen, own.component, own.epoch);
  stamp->dependency_waited |= waited_;
  return stamp;
}

}  // namespace catenary::sim
