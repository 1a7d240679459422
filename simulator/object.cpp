// SPDX-License-Identifier: Apache-2.0
#include "simulator/object.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "ir/file_limit.h"
#include "ir/temporary_folder.h"
#include "llvm/ADT/ScopeExit.h"

namespace catenary::sim {
namespace {

Error file_trouble(int code) {
  return make_error(
      ErrorCode::kCacheIo,
      "a host-compiled kernel could not be written to the file that it is loaded from ({}): "
      "free some space, or set TMPDIR to a folder with some",
      std::strerror(code));
}

Error write_all(int file, llvm::ArrayRef<u8> image) {
  const FileLimitIsAnError scope;
  while (!image.empty()) {
    const ssize_t wrote = ::write(file, image.data(), image.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return file_trouble(wrote < 0 ? errno : ENOSPC);
    image = image.drop_front(static_cast<size_t>(wrote));
  }
  return Error::success();
}

// dlopen() returns the loaded object for a path that it has seen, and file descriptors are reused:
// every path gets a unique spelling, the bits of a counter as "./" and "/".
std::string fresh_path(int file) {
  static std::atomic<u64> count{0};
  std::string path = "/proc/self/fd/";
  for (u64 number = ++count; number != 0; number >>= 1) path += number & 1 ? "./" : "/";
  return path + "./" + fmt::to_string(file);
}

Expected<void*> open_in_memory(llvm::ArrayRef<u8> image) {
  const int file = ::memfd_create("catenary-kernel", MFD_CLOEXEC);
  if (file < 0) return file_trouble(errno);
  const auto close = llvm::make_scope_exit([&] { ::close(file); });
  if (Error error = write_all(file, image)) return error;
  return ::dlopen(fresh_path(file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

Expected<void*> open_by_file(llvm::ArrayRef<u8> image) {
  std::string path = temporary_folder() + "/catenary-kernel-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return file_trouble(errno);
  const auto remove = llvm::make_scope_exit([&] {
    ::close(file);
    ::unlink(path.c_str());
  });
  if (Error error = write_all(file, image)) return error;
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Falls back to a temporary file where memfd is missing or must not hold code.
Expected<void*> open_copy(llvm::ArrayRef<u8> image) {
  Expected<void*> handle = open_in_memory(image);
  if (handle && *handle != nullptr) return handle;
  if (!handle) llvm::consumeError(handle.takeError());
  handle = open_by_file(image);
  if (!handle || *handle != nullptr) return handle;
  const char* reason = ::dlerror();
  return make_error(ErrorCode::kCompileFailed,
                    "a host-compiled kernel of {} bytes does not load ({}): clear the cache and "
                    "compile it again on this machine",
                    image.size(), reason == nullptr ? "no reason given" : reason);
}

}  // namespace

Expected<std::shared_ptr<const Object>> Object::load(llvm::ArrayRef<u8> image) {
  Expected<void*> handle = open_copy(image);
  if (!handle) return handle.takeError();
  std::shared_ptr<Object> object(new Object);
  object->handle_ = *handle;
  object->bind_ = reinterpret_cast<BindFunction>(::dlsym(*handle, kBindName));
  object->call_ = reinterpret_cast<CallFunction>(::dlsym(*handle, kCallName));
  if (object->bind_ == nullptr || object->call_ == nullptr) {
    return make_error(ErrorCode::kCompileFailed,
                      "a shared object of {} bytes is not a kernel for the simulator: it lacks {}; "
                      "load the output of the host compiler",
                      image.size(), object->bind_ == nullptr ? kBindName : kCallName);
  }
  const auto version = reinterpret_cast<VersionFunction>(::dlsym(*handle, kVersionName));
  if (version == nullptr || version() != kMachineVersion) {
    return make_error(ErrorCode::kUnsupported,
                      "a kernel for the simulator was compiled by another version of the library, "
                      "whose simulator differs: compile it again, or build its pack again");
  }
  // Objects that do not say have one.
  const auto min_ctas = reinterpret_cast<MinCtasFunction>(::dlsym(*handle, kMinCtasName));
  if (min_ctas != nullptr) object->min_ctas_ = min_ctas();
  return object;
}

std::shared_ptr<const Object> Object::over(BindFunction bind, CallFunction call) {
  std::shared_ptr<Object> object(new Object);
  object->bind_ = bind;
  object->call_ = call;
  return object;
}

Object::~Object() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

}  // namespace catenary::sim
