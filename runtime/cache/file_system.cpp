// SPDX-License-Identifier: Apache-2.0
// The real system calls.
#include "runtime/cache/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>

#include "ir/descriptor.h"
#include "ir/file_limit.h"

namespace catenary {
namespace {

template <typename T>
T or_errno(T result) {
  return result < 0 ? -errno : result;
}

}  // namespace

int FileSystem::open(int directory, const char* path, int flags, mode_t mode) {
  return or_errno(::openat(directory, path, flags | O_CLOEXEC, mode));
}

int FileSystem::mkdir(int directory, const char* path, mode_t mode) {
  return or_errno(::mkdirat(directory, path, mode));
}

int FileSystem::rename(int directory, const char* from, const char* to) {
  return or_errno(::renameat(directory, from, directory, to));
}

int FileSystem::unlink(int directory, const char* path) {
  return or_errno(::unlinkat(directory, path, 0));
}

int FileSystem::rmdir(int directory, const char* path) {
  return or_errno(::unlinkat(directory, path, AT_REMOVEDIR));
}

int FileSystem::stat(int directory, const char* path, struct stat* out) {
  return or_errno(::fstatat(directory, path, out, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH));
}

int FileSystem::list(int directory, const char* path, std::vector<std::string>* names) {
  Descriptor file(::openat(directory, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return -errno;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(file.get()), &::closedir);
  if (!stream) return -errno;
  file.release();  // the stream closes it
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names->emplace_back(name);
    errno = 0;
  }
  return -errno;
}

ssize_t FileSystem::read(int file, void* bytes, size_t count) {
  return or_errno(::read(file, bytes, count));
}

ssize_t FileSystem::write(int file, const void* bytes, size_t count) {
  const FileLimitIsAnError scope;
  return or_errno(::write(file, bytes, count));
}

int FileSystem::fsync(int file) { return or_errno(::fsync(file)); }

int FileSystem::close(int file) { return or_errno(::close(file)); }

int FileSystem::touch(int directory, const char* path) {
  return or_errno(::utimensat(directory, path, nullptr, AT_SYMLINK_NOFOLLOW));
}

int FileSystem::lock(int file, int operation) { return or_errno(::flock(file, operation)); }

FileSystem& FileSystem::real() {
  static FileSystem instance;
  return instance;
}

std::string errno_text(int error) { return std::generic_category().message(std::abs(error)); }

}  // namespace catenary
