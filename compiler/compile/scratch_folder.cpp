// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/scratch_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <vector>

#include "ir/temporary_folder.h"
#include "llvm/ADT/StringRef.h"

namespace catenary {
namespace {

constexpr llvm::StringLiteral kPrefix = "catenary-host-";
constexpr int kAttempts = 8;
constexpr size_t kMostLeftovers = 64;  // removed at a time

Descriptor open_folder(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::vector<std::string> scratch_folders(const std::string& parent) {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(parent.c_str()), &::closedir);
  if (!stream) return found;
  while (const dirent* entry = ::readdir(stream.get())) {
    const llvm::StringRef name(entry->d_name);
    if (!name.startswith(kPrefix)) continue;
    found.push_back(parent + "/" + name.str());
    if (found.size() == kMostLeftovers) break;
  }
  return found;
}

// With its content. Not LLVM's function: it is compiled without exceptions, and leaves a folder
// open where memory runs out.
void remove_folder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// Removes the folders whose processes have ended without doing so: their locks ended with them.
void remove_leftovers(const std::string& parent) {
  for (const std::string& path : scratch_folders(parent)) {
    const Descriptor folder = open_folder(path);
    if (!folder) continue;
    struct stat info;
    const bool own = ::fstat(folder.get(), &info) == 0 && info.st_uid == ::geteuid();
    if (own && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) remove_folder(path);
  }
}

// Locks the fresh folder. False: another process took it for a leftover meanwhile.
bool lock_fresh(const std::string& path, Descriptor& folder) {
  folder = open_folder(path);
  if (!folder) return false;
  // A file system without locks: no process takes it for a leftover, not even when it is one.
  const bool locked = ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  struct stat info;
  if (locked && ::stat(path.c_str(), &info) == 0) return true;
  folder.close();
  return false;
}

}  // namespace

Error scratch_error(const std::string& path, const std::string& reason) {
  return make_error(ErrorCode::kIo,
                    "'{}' could not be written ({}): free some space, or set TMPDIR to a folder "
                    "with some",
                    path, reason);
}

Expected<ScratchFolder> ScratchFolder::make() {
  const std::string parent = temporary_folder();
  remove_leftovers(parent);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ScratchFolder folder;
    std::string path = fmt::format("{}/{}XXXXXX", parent, std::string_view(kPrefix));
    if (::mkdtemp(path.data()) == nullptr) return scratch_error(path, std::strerror(errno));
    if (!lock_fresh(path, folder.lock_)) continue;
    folder.path_ = path;
    folder.owner_ = ::getpid();
    return folder;
  }
  return scratch_error(parent, "other processes remove what is made there");
}

ScratchFolder& ScratchFolder::operator=(ScratchFolder&& other) noexcept {
  if (this == &other) return *this;
  remove();
  path_ = std::exchange(other.path_, {});
  lock_ = std::move(other.lock_);
  owner_ = other.owner_;
  return *this;
}

bool ScratchFolder::is_own() const { return owner_ == ::getpid(); }

// If memory for it runs out, the next folder's process removes this one.
void ScratchFolder::remove() noexcept {
  try {
    if (!path_.empty() && is_own()) remove_folder(path_);
  } catch (const std::bad_alloc&) {
  }
  path_.clear();
  lock_.close();
}

}  // namespace catenary
