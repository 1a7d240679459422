// SPDX-License-Identifier: Apache-2.0
#include "runtime/pack/pack_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ir/descriptor.h"
#include "runtime/cache/file_system.h"

namespace catenary {
namespace {

class FileBytes final : public PackBytes {
 public:
  FileBytes(std::string path, Descriptor file, u64 size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  u64 size() const override { return size_; }

  Error read(u64 offset, llvm::MutableArrayRef<u8> out) const override {
    while (!out.empty()) {
      const ssize_t count =
          ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        return make_error(ErrorCode::kIo, "cannot read the pack {}: {}", path_, errno_text(errno));
      }
      if (count == 0) {
        return make_error(ErrorCode::kIo,
                          "the pack {} has become shorter since it was opened: put another file in "
                          "its place by renaming it, and do not change it while it is in use",
                          path_);
      }
      out = out.drop_front(static_cast<size_t>(count));
      offset += static_cast<u64>(count);
    }
    return Error::success();
  }

 private:
  const std::string path_;
  const Descriptor file_;
  const u64 size_;
};

class MemoryBytes final : public PackBytes {
 public:
  explicit MemoryBytes(llvm::ArrayRef<u8> bytes) : bytes_(bytes) {}
  u64 size() const override { return bytes_.size(); }
  Error read(u64 offset, llvm::MutableArrayRef<u8> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return make_error(ErrorCode::kInternal, "a read beyond the pack in memory");
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return Error::success();
  }

 private:
  const llvm::ArrayRef<u8> bytes_;
};

}  // namespace

Expected<std::unique_ptr<PackBytes>> open_pack_file(const std::string& path) {
  // Without O_NONBLOCK opening a pipe would wait for its writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file || ::fstat(file.get(), &info) != 0) {
    return make_error(ErrorCode::kIo,
                      "cannot open the pack {}: {}; check its path and its permissions", path,
                      errno_text(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return make_error(ErrorCode::kIo,
                      "the pack {} is {}: name a file that `catenary pack build` wrote", path,
                      S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
  }
  return std::make_unique<FileBytes>(path, std::move(file), static_cast<u64>(info.st_size));
}

std::unique_ptr<PackBytes> pack_memory(llvm::ArrayRef<u8> bytes) {
  return std::make_unique<MemoryBytes>(bytes);
}

}  // namespace catenary
