// SPDX-License-Identifier: Apache-2.0
// A list with a fixed capacity, allocated once; its objects never move.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace catenary::sim {

template <typename T>
class Slots {
 public:
  explicit Slots(size_t capacity)
      : first_(std::allocator<T>().allocate(capacity)), capacity_(capacity) {}
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots() {
    std::destroy_n(first_, count_);
    std::allocator<T>().deallocate(first_, capacity_);
  }

  // size() < capacity.
  template <typename... Args>
  T& emplace_back(Args&&... args) {
    T* fresh = std::construct_at(first_ + count_, std::forward<Args>(args)...);
    ++count_;
    return *fresh;
  }

  T& operator[](size_t i) { return first_[i]; }
  const T& operator[](size_t i) const { return first_[i]; }
  T* begin() { return first_; }
  T* end() { return first_ + count_; }
  const T* begin() const { return first_; }
  const T* end() const { return first_ + count_; }
  size_t size() const { return count_; }

 private:
  T* first_;
  size_t capacity_;
  size_t count_ = 0;
};

}  // namespace catenary::sim
