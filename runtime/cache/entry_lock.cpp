// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/entry_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace catenary {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// flock has no timeout, so the lock is polled: often at first, since most waits are for the end of
// one compile.
constexpr milliseconds kFirstPoll{1};
constexpr milliseconds kLongestPoll{50};
// Each round is another process that held the lock and removed the file. The bound is for file
// systems that give one file several inode numbers.
constexpr int kMostRounds = 1000;

// 0 once the lock is held, -EWOULDBLOCK after `deadline`, or another error.
int lock_until(FileSystem& files, int file, steady_clock::time_point deadline) {
  milliseconds pause = kFirstPoll;
  for (;;) {
    const int locked = retry([&] { return files.lock(file, LOCK_EX | LOCK_NB); });
    if (locked != -EWOULDBLOCK || steady_clock::now() >= deadline) return locked;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPoll);
  }
}

}  // namespace

EntryLock EntryLock::acquire(FileSystem& files, int root, std::string path, milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  EntryLock lock;
  lock.files_ = &files;
  lock.root_ = root;
  lock.path_ = std::move(path);
  for (int round = 0; round < kMostRounds; ++round) {
    lock.file_ = retry(
        [&] { return files.open(root, lock.path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0600); });
    if (lock.file_ < 0) return lock;
    const int locked = lock_until(files, lock.file_, deadline);
    if (locked >= 0 && lock.is_current()) {
      lock.state_ = State::kHeld;
      return lock;
    }
    const bool failed = locked >= 0 && lock.failed_before();
    lock.close();
    if (failed) lock.state_ = State::kHolderFailed;
    if (locked == -EWOULDBLOCK) lock.state_ = State::kTimedOut;
    if (failed || locked < 0) break;
  }
  return lock;
}

EntryLock& EntryLock::operator=(EntryLock&& other) noexcept {
  release();
  files_ = other.files_;
  root_ = other.root_;
  path_ = std::move(other.path_);
  file_ = std::exchange(other.file_, -1);
  state_ = std::exchange(other.state_, State::kUnavailable);
  return *this;
}

// Whether the path still names the open file.
bool EntryLock::is_current() const {
  struct stat open, named;
  return files_->stat(file_, "", &open) >= 0 && files_->stat(root_, path_.c_str(), &named) >= 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

bool EntryLock::failed_before() const {
  char mark = 0;
  return retry([&] { return files_->read(file_, &mark, 1); }) == 1;
}

void EntryLock::mark_failed() {
  if (state_ == State::kHeld) retry([&] { return files_->write(file_, "f", 1); });
}

// Closing would not unlock: a forked child may hold the file open.
void EntryLock::close() {
  files_->lock(file_, LOCK_UN);
  files_->close(file_);
  file_ = -1;
}

void EntryLock::release() {
  if (file_ < 0) return;
  retry([&] { return files_->unlink(root_, path_.c_str()); });
  close();
  state_ = State::kUnavailable;
}

}  // namespace catenary
