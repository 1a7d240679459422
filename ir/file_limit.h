// SPDX-License-Identifier: Apache-2.0
// A write beyond the process's limit of file sizes (`ulimit -f`) fails with EFBIG and sends
// SIGXFSZ, which ends the process. Within this scope it only fails.
#pragma once

#include <signal.h>

namespace catenary {

// Blocks SIGXFSZ in the calling thread; at the end removes the one that its writes caused. Touches
// no handler, and keeps errno.
class FileLimitIsAnError {
 public:
  FileLimitIsAnError();
  FileLimitIsAnError(const FileLimitIsAnError&) = delete;
  FileLimitIsAnError& operator=(const FileLimitIsAnError&) = delete;
  ~FileLimitIsAnError();

 private:
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace catenary
