// SPDX-License-Identifier: Apache-2.0
// The switch is written for x86-64 and AArch64. It saves the registers that a call preserves
// (System V AMD64 ABI 3.2.1, AAPCS64 6.1); the floating-point environment never changes.
#include "simulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
extern "C" void catenary_sim_switch(void** from, void* to);
asm(R"(
.text
.p2align 4
.local catenary_sim_switch
.type catenary_sim_switch,@function
catenary_sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size catenary_sim_switch,.-catenary_sim_switch
)");
#elif defined(__aarch64__)
extern "C" void catenary_sim_switch(void** from, void* to);
asm(R"(
.text
.p2align 4
.local catenary_sim_switch
.type catenary_sim_switch,%function
catenary_sim_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size catenary_sim_switch,.-catenary_sim_switch
)");
#else
#error "the simulator switches stacks on x86-64 and AArch64 only"
#endif

namespace catenary::sim {
namespace {

constexpr size_t kGuardBytes = 4096 * 4;

// The fiber that first_entry() starts: a new stack has no saved register to pass it in.
thread_local Fiber* starting = nullptr;

void first_entry() { Fiber::run(std::exchange(starting, nullptr)); }

}  // namespace

Stack::Stack(size_t unused) : unused_(unused) {
  void* mapping = mmap(nullptr, kBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return;
  if (mprotect(mapping, kGuardBytes, PROT_NONE) != 0) {
    munmap(mapping, kBytes + kGuardBytes);
    return;
  }
  mapping_ = mapping;
  base_ = static_cast<char*>(mapping) + kGuardBytes;
}

Stack::~Stack() {
  if (mapping_ != nullptr) munmap(mapping_, kBytes + kGuardBytes);
}

Stack* StackPool::take() {
  if (!free_.empty()) {
    Stack* stack = free_.back();
    free_.pop_back();
    return stack;
  }
  // Stack tops at the same page offset would compete for a few lines of the host's caches.
  constexpr size_t kStep = 256;
  auto fresh = std::make_unique<Stack>(stacks_.size() % (Stack::kSpread / kStep) * kStep);
  if (!fresh->valid()) return nullptr;
  stacks_.push_back(std::move(fresh));
  return stacks_.back().get();
}

void StackPool::reclaim() {
  if (stacks_.size() > kKept) stacks_.resize(kKept);
  free_.clear();
  for (const auto& stack : stacks_) free_.push_back(stack.get());
}

void Fiber::run(Fiber* fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &fiber->caller_bottom_, &fiber->caller_bytes_);
#endif
  fiber->entry_(fiber->argument_);
  fiber->leave();
  __builtin_unreachable();
}

void Fiber::start(Stack& stack, Entry entry, void* argument) {
  stack_ = &stack;
  entry_ = entry;
  argument_ = argument;
  own_fake_stack_ = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  // Frames that a fault abandoned on this stack have left red zones.
  __asan_unpoison_memory_region(stack.bottom(), Stack::kBytes);
#endif
  auto top = reinterpret_cast<std::uintptr_t>(stack.top()) & ~std::uintptr_t{63};
  auto** slot = reinterpret_cast<void**>(top);
#if defined(__x86_64__)
  *--slot = nullptr;  // first_entry() has no return address
  *--slot = reinterpret_cast<void*>(&first_entry);
  for (int i = 0; i < 6; ++i) *--slot = nullptr;
#else
  slot -= 20;
  for (int i = 0; i < 20; ++i) slot[i] = nullptr;
  slot[11] = reinterpret_cast<void*>(&first_entry);  // x30
#endif
  own_ = slot;
}

void Fiber::enter() {
  starting = this;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&caller_fake_stack_, stack_->bottom(), Stack::kBytes);
#endif
  catenary_sim_switch(&caller_, own_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&own_fake_stack_, caller_bottom_, caller_bytes_);
#endif
  catenary_sim_switch(&own_, caller_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own_fake_stack_, &caller_bottom_, &caller_bytes_);
#endif
}

}  // namespace catenary::sim
