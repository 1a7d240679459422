// SPDX-License-Identifier: Apache-2.0
// Stackful coroutines: a stack and the registers that a call preserves. Stacks are mapped from host
// memory with a guard page below, and are reused. Independent of kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace catenary::sim {

class Stack;

// One point of execution. enter() runs it from where it stopped; leave() stops it.
class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next enter() start `entry` on `stack`. When `entry` returns, the fiber leaves for
  // good.
  void start(Stack& stack, Entry entry, void* argument);
  // Called by the scheduler: runs the fiber until it leaves.
  void enter();
  // Called on the fiber: returns to the enter() that runs it.
  void leave();
  // The first call on a new stack.
  [[noreturn]] static void run(Fiber* fiber);

 private:
  void* own_ = nullptr;     // stack pointer of the stopped fiber
  void* caller_ = nullptr;  // stack pointer of the stopped scheduler
  Stack* stack_ = nullptr;
  // What AddressSanitizer is told of a change of stacks.
  [[maybe_unused]] void* caller_fake_stack_ = nullptr;
  [[maybe_unused]] void* own_fake_stack_ = nullptr;
  [[maybe_unused]] const void* caller_bottom_ = nullptr;
  [[maybe_unused]] size_t caller_bytes_ = 0;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
};

class Stack {
 public:
  static constexpr size_t kBytes = 256 << 10;
  static constexpr size_t kSpread = 16 << 10;
  // `unused`: bytes to leave free at the upper end, less than kSpread.
  explicit Stack(size_t unused = 0);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  bool valid() const { return base_ != nullptr; }
  char* bottom() const { return base_; }
  char* top() const { return base_ + kBytes - unused_; }

 private:
  char* base_ = nullptr;     // lowest usable byte
  void* mapping_ = nullptr;  // with the guard page
  size_t unused_;
};

// A pool of stacks: mapping one costs more than running a thread of a short kernel.
class StackPool {
 public:
  // Null: the host has no memory left.
  Stack* take();
  void give(Stack& stack) { free_.push_back(&stack); }
  // Takes back every stack, also those of fibers that a fault abandoned.
  void reclaim();
  size_t size() const { return stacks_.size(); }

 private:
  static constexpr size_t kKept = 4096;
  std::vector<std::unique_ptr<Stack>> stacks_;
  std::vector<Stack*> free_;
};

}  // namespace catenary::sim
