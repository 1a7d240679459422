// SPDX-License-Identifier: Apache-2.0
#include "ir/file_limit.h"

#include <cerrno>
#include <ctime>

namespace catenary {
namespace {

sigset_t file_limit_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  return signals;
}

bool is_pending() {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

}  // namespace

FileLimitIsAnError::FileLimitIsAnError() : was_pending_(is_pending()) {
  const sigset_t signals = file_limit_signal();
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

FileLimitIsAnError::~FileLimitIsAnError() {
  const int kept = errno;
  if (!was_pending_ && is_pending()) {
    const sigset_t signals = file_limit_signal();
    const timespec now = {};
    while (::sigtimedwait(&signals, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = kept;
}

}  // namespace catenary
