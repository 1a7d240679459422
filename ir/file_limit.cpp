// SPDX-License-Identifier: Apache-2.0
#include "ir/file_limit.h"

#include <cerrno>
#include <ctime>

namespace catenary {
namespace {

sigset_t set_of(int signal) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, signal);
  return signals;
}

bool is_pending(int signal) {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

}  // namespace

WriteSignalBlocked::WriteSignalBlocked(int signal)
    : signal_(signal), was_pending_(is_pending(signal)) {
  const sigset_t signals = set_of(signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

WriteSignalBlocked::~WriteSignalBlocked() {
  const int kept = errno;
  if (!was_pending_ && is_pending(signal_)) {
    const sigset_t signals = set_of(signal_);
    const timespec now = {};
    while (::sigtimedwait(&signals, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = kept;
}

}  // namespace catenary
