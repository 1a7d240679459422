// SPDX-License-Identifier: Apache-2.0
// Stackful coroutines: a stack and the registers that a call preserves. Stacks come from the host's
// virtual memory with an unmapped page below, and are kept for reuse. Knows no kernel.
#pragma once

#include <cstddef>

namespace catenary::sim {

class Stack;

// One point of execution. enter() runs it from where it stopped; leave() stops it.
class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next enter() start `entry` on `stack`. `entry` never returns: it leaves for good.
  void start(Stack& stack, Entry entry, void* argument);
  // Of the scheduler: runs the fiber until it leaves.
  void enter();
  // Of the fiber: back to the enter() that runs it.
  void leave();
  // What a new stack calls first.
  [[noreturn]] static void run(Fiber* fiber);

 private:
  void* own_ = nullptr;     // stack pointer of the stopped fiber
  void* caller_ = nullptr;  // stack pointer of the stopped scheduler
  Stack* stack_ = nullptr;
  void* caller_fake_stack_ = nullptr;  // AddressSanitizer's
  void* own_fake_stack_ = nullptr;
  const void* caller_bottom_ = nullptr;
  size_t caller_bytes_ = 0;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
};

class Stack {
 public:
  static constexpr size_t kBytes = 256 << 10;
  Stack();
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  bool valid() const { return base_ != nullptr; }
  char* bottom() const { return base_; }

 private:
  char* base_ = nullptr;     // lowest usable byte
  void* mapping_ = nullptr;  // with the guard page
};

}  // namespace catenary::sim
