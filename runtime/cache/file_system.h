// SPDX-License-Identifier: Apache-2.0
// The system calls of the cache directory as an interface: tests derive from it and let single
// calls fail. Every call returns a value >= 0, or -errno.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

namespace catenary {

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Paths are relative to the open folder `directory` (or AT_FDCWD). Opened files are O_CLOEXEC.
  virtual int open(int directory, const char* path, int flags, mode_t mode);
  virtual int mkdir(int directory, const char* path, mode_t mode);
  virtual int rename(int directory, const char* from, const char* to);
  virtual int unlink(int directory, const char* path);
  virtual int rmdir(int directory, const char* path);
  // Does not follow a symbolic link. An empty path: `directory` itself.
  virtual int stat(int directory, const char* path, struct stat* out);
  // Names in a folder, without "." and "..", in any order.
  virtual int list(int directory, const char* path, std::vector<std::string>* names);

  virtual ssize_t read(int file, void* bytes, size_t count);
  virtual ssize_t write(int file, const void* bytes, size_t count);
  virtual int fsync(int file);
  virtual int close(int file);
  // Sets the times to now. Does not follow a symbolic link.
  virtual int touch(int directory, const char* path);
  // flock(2).
  virtual int lock(int file, int operation);

  static FileSystem& real();
};

// Repeats a call of FileSystem while it is interrupted. Not for close: on Linux an interrupted
// close has closed the file.
template <typename Call>
auto retry(Call call) {
  auto result = call();
  while (result == -EINTR) result = call();
  return result;
}

// Owns an open file or folder of a FileSystem and closes it, on every way out of a function.
class OpenFile {
 public:
  OpenFile() = default;  // none
  // `file`: the result of open(); a negative number is none.
  OpenFile(FileSystem& files, int file) : files_(&files), file_(file) {}
  OpenFile(OpenFile&& other) noexcept
      : files_(other.files_), file_(std::exchange(other.file_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(files_, other.files_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~OpenFile() { close(); }

  // The open file, or the negative result of open().
  int get() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }
  // The result of close(), or 0 if there is none.
  int close() { return file_ < 0 ? 0 : files_->close(std::exchange(file_, -1)); }

 private:
  FileSystem* files_ = nullptr;
  int file_ = -1;
};

// "No space left on device" for ENOSPC and for -ENOSPC.
std::string errno_text(int error);

}  // namespace catenary
