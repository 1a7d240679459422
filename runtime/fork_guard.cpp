// SPDX-License-Identifier: Apache-2.0
#include "runtime/fork_guard.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace catenary {
namespace {

std::atomic<int> calls{0};  // of all threads
std::atomic<bool> forked_during_a_call{false};

// In the child, whose memory is that of the moment of the fork.
void after_fork() {
  if (calls.exchange(0) > 0) forked_during_a_call = true;
}

}  // namespace

Expected<ForkGuard> ForkGuard::enter() {
  static std::once_flag once;
  std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, after_fork); });
  if (forked_during_a_call) {
    return make_error(ErrorCode::kInvalidArgument,
                      "this process was forked while another thread compiled or loaded a chain, "
                      "and that thread's locks stay held here: fork when no thread compiles, or "
                      "start workers by exec or spawn");
  }
  ++calls;
  return ForkGuard();
}

ForkGuard::~ForkGuard() {
  if (held_ && !forked_during_a_call) --calls;
}

}  // namespace catenary
