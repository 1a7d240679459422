// SPDX-License-Identifier: Apache-2.0
// A FileSystem that counts its calls and can fail them: the n-th call of one kind, or every call
// from the n-th on. Subclass hooks see every call before and after it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>

#include "runtime/cache/file_system.h"
#include "shared/int.h"

namespace catenary::test {

enum class Op : u8 {
  kOpen,
  kMkdir,
  kRename,
  kUnlink,
  kStat,
  kList,
  kRead,
  kWrite,
  kFsync,
  kClose,
  kTouch,
  kLock
};
inline constexpr int kNumOps = 12;

// What replaces the call.
enum class Harm : u8 {
  kError,  // only the errno
  kShort,  // read and write: some of the bytes
  kZero,   // read and write: no bytes
  kFlip,   // read and write: one bit changed
};

class FaultyFiles : public FileSystem {
 public:
  Op op = Op::kOpen;
  Harm harm = Harm::kError;
  int error = 0;
  int nth = 0;  // 1-based; 0: never
  bool persistent = false;
  int fired = 0;
  std::array<int, kNumOps> calls{};

  int open(int directory, const char* path, int flags, mode_t mode) override {
    if (fires(Op::kOpen)) return -error;
    return FileSystem::open(directory, path, flags, mode);
  }
  int mkdir(int directory, const char* path, mode_t mode) override {
    if (fires(Op::kMkdir)) return -error;
    return FileSystem::mkdir(directory, path, mode);
  }
  int rename(int directory, const char* from, const char* to) override {
    if (fires(Op::kRename)) return -error;
    return FileSystem::rename(directory, from, to);
  }
  int unlink(int directory, const char* path) override {
    if (fires(Op::kUnlink)) return -error;
    return FileSystem::unlink(directory, path);
  }
  int rmdir(int directory, const char* path) override {
    if (fires(Op::kUnlink)) return -error;
    return FileSystem::rmdir(directory, path);
  }
  int stat(int directory, const char* path, struct stat* out) override {
    if (fires(Op::kStat)) return -error;
    return FileSystem::stat(directory, path, out);
  }
  int list(int directory, const char* path, std::vector<std::string>* names) override {
    if (fires(Op::kList)) return -error;
    return FileSystem::list(directory, path, names);
  }
  ssize_t read(int file, void* bytes, size_t count) override {
    if (!fires(Op::kRead)) return FileSystem::read(file, bytes, count);
    if (harm == Harm::kError) return -error;
    const ssize_t got = FileSystem::read(file, bytes, harmed(count));
    if (harm == Harm::kFlip && got > 0) static_cast<u8*>(bytes)[got / 2] ^= 4;
    return got;
  }
  ssize_t write(int file, const void* bytes, size_t count) override {
    if (!fires(Op::kWrite)) return FileSystem::write(file, bytes, count);
    if (harm == Harm::kError) return -error;
    const u8* first = static_cast<const u8*>(bytes);
    std::vector<u8> copy(first, first + harmed(count));
    if (harm == Harm::kFlip && !copy.empty()) copy[copy.size() / 2] ^= 4;
    return FileSystem::write(file, copy.data(), copy.size());
  }
  // No test simulates a power loss, so fsync does nothing.
  int fsync(int) override { return fires(Op::kFsync) ? -error : 0; }
  // As on Linux, a close that fails has closed the file.
  int close(int file) override {
    const bool fails = fires(Op::kClose);
    const int result = FileSystem::close(file);
    return fails ? -error : result;
  }

  int touch(int directory, const char* path) override {
    if (fires(Op::kTouch)) return -error;
    return FileSystem::touch(directory, path);
  }
  int lock(int file, int operation) override {
    if (fires(Op::kLock)) return -error;
    return FileSystem::lock(file, operation);
  }

 private:
  bool fires(Op called) {
    const int count = ++calls[static_cast<int>(called)];
    if (nth == 0 || called != op || !(persistent ? count >= nth : count == nth)) return false;
    ++fired;
    return true;
  }
  size_t harmed(size_t count) const {
    switch (harm) {
      case Harm::kShort:
        return std::max<size_t>(1, count / 3);
      case Harm::kZero:
        return 0;
      default:
        return count;
    }
  }
};

}  // namespace catenary::test
