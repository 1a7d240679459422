// SPDX-License-Identifier: Apache-2.0
// A lock on one entry of the cache between processes, so that processes that start cold compile
// each kernel once. It is flock(2) on a file of its own: the kernel releases it when its holder
// dies.
//
// The holder removes the file before it unlocks. A process that then gets the lock of the removed
// file sees that the path names another file, or none, and starts again.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/cache/file_system.h"
#include "shared/int.h"

namespace catenary {

class EntryLock {
 public:
  enum class State : u8 {
    kHeld,
    kHolderFailed,  // the process that held it reports that its work failed: it would fail here too
    kTimedOut,      // another process still holds it
    kUnavailable,   // the file cannot be made, or the file system has no locks
  };

  // Waits for the lock of the file `path` in the open folder `root`, at most `patience`.
  static EntryLock acquire(FileSystem& files, int root, std::string path,
                           std::chrono::milliseconds patience);
  EntryLock() = default;  // kUnavailable
  ~EntryLock() { release(); }
  EntryLock(EntryLock&& other) noexcept { *this = std::move(other); }
  EntryLock& operator=(EntryLock&& other) noexcept;

  State state() const { return state_; }
  // Tells the processes that wait for this lock not to wait for each other: what failed here fails
  // in each of them, so they may work at once.
  void mark_failed();
  void release();

 private:
  bool is_current() const;
  bool failed_before() const;
  void close();

  FileSystem* files_ = nullptr;
  int root_ = -1;
  std::string path_;
  int file_ = -1;
  State state_ = State::kUnavailable;
};

}  // namespace catenary
