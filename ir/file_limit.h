// SPDX-License-Identifier: Apache-2.0
// A write beyond the process's limit of file sizes (`ulimit -f`) fails with EFBIG and sends
// SIGXFSZ, one into a pipe without a reader fails with EPIPE and sends SIGPIPE; either signal ends
// the process. Within these scopes the write only fails.
#pragma once

#include <signal.h>

namespace catenary {

// Blocks `signal` in the calling thread; at the end removes the one that its writes caused. Touches
// no handler, and keeps errno.
class WriteSignalBlocked {
 public:
  explicit WriteSignalBlocked(int signal);
  WriteSignalBlocked(const WriteSignalBlocked&) = delete;
  WriteSignalBlocked& operator=(const WriteSignalBlocked&) = delete;
  ~WriteSignalBlocked();

 private:
  int signal_;
  sigset_t before_;
  bool was_pending_ = false;
};

class FileLimitIsAnError : WriteSignalBlocked {
 public:
  FileLimitIsAnError() : WriteSignalBlocked(SIGXFSZ) {}
};

}  // namespace catenary
