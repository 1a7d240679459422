// SPDX-License-Identifier: Apache-2.0
#include "ir/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "ir/file_limit.h"
#include "ir/names.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace catenary {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr int kMaxLinks = 40;  // as the kernel's limit

Error refused(const std::string& path, std::string_view reason) {
  return make_error(ErrorCode::kIo, "{} cannot be written: {}", quoted(path), reason);
}

Error refused(const std::string& path, const char* step, int error) {
  return make_error(ErrorCode::kIo,
                    "{} could not be written ({}: {}): check the folder and the free space",
                    quoted(path), step, std::strerror(error));
}

std::string folder_of(const std::string& path) {
  const llvm::StringRef folder = llvm::sys::path::parent_path(path);
  return folder.empty() ? "." : folder.str();
}

// `path` with the links of its last component followed; the last one may point to nothing.
std::string behind_links(std::string path) {
  for (int i = 0; i < kMaxLinks; ++i) {
    char to[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), to, sizeof to);
    if (length <= 0 || length == sizeof to) break;
    llvm::SmallString<128> next(folder_of(path));
    const llvm::StringRef target(to, static_cast<size_t>(length));
    if (llvm::sys::path::is_absolute(target)) next.clear();
    llvm::sys::path::append(next, target);
    path = next.str().str();
  }
  return path;
}

// /dev/stdout and its like name a descriptor, which a rename would not reach.
bool is_descriptor_path(const std::string& path) {
  return path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
}

// What the draft can get, of owner, group and mode of the file that it replaces.
void copy_attributes(int file, const struct stat& old) {
  if (::fchown(file, old.st_uid, old.st_gid) != 0 && ::fchown(file, -1, old.st_gid) != 0) {
    // Another user's file in a folder of this one: the new file is this user's.
  }
  if (::fchmod(file, old.st_mode & 0777) != 0) return;  // the mode of a new file, then
}

// The file that open(path) writes, in one spelling where its folder exists.
std::string place_of(const std::string& path) {
  if (is_descriptor_path(path)) return path;
  const std::string file = behind_links(path);
  llvm::SmallString<128> place;
  if (llvm::sys::fs::real_path(folder_of(file), place)) return file;
  llvm::sys::path::append(place, llvm::sys::path::filename(file));
  return place.str().str();
}

std::string draft_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}/.{}.{}-{}.part", folder_of(path), llvm::sys::path::filename(path).str(),
                     ::getpid(), count++);
}

// The draft without a name, where the file system has such files and /proc can name it later.
int open_nameless(const std::string& path) {
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  return ::open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

// Why a file that exists cannot be replaced; empty: it can.
std::string_view existing_problem(const std::string& path, const struct stat& old) {
  if (S_ISDIR(old.st_mode)) return "it is a folder, give the path of a file";
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
    return "this user may not write it, change its mode or give another path";
  }
  return "";
}

}  // namespace

Expected<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile output;
  output.asked_ = path;
  output.path_ = is_descriptor_path(path) ? path : behind_links(path);
  struct stat old;
  const bool exists = ::stat(output.path_.c_str(), &old) == 0;
  if (!exists && errno != ENOENT) return refused(path, "open", errno);
  if (exists) {
    const std::string_view problem = existing_problem(output.path_, old);
    if (!problem.empty()) return refused(path, problem);
  }
  if (output.path_.empty() || output.path_.back() == '/') {
    return refused(path, "it has no file name, give the path of a file");
  }
  output.in_place_ = is_descriptor_path(output.path_) || (exists && !S_ISREG(old.st_mode));
  if (output.in_place_) {
    output.file_ = ::open(output.path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    output.file_ = open_nameless(output.path_);
    if (output.file_ < 0) {
      output.draft_ = draft_name(output.path_);
      output.file_ = ::open(output.draft_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
  }
  if (output.file_ < 0) {
    const int error = errno;
    output.draft_.clear();  // it was not made
    return refused(path, "open", error);
  }
  if (exists && !output.in_place_) copy_attributes(output.file_, old);
  return output;
}

Error OutputFile::check(const std::string& path) {
  struct stat old;
  // Opening a pipe would wait for its reader.
  if (::stat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode)) {
    const std::string_view problem = existing_problem(path, old);
    return problem.empty() ? Error::success() : refused(path, problem);
  }
  return open(path).takeError();
}

bool OutputFile::same(const std::string& path, const std::string& other) {
  return path == other || place_of(path) == place_of(other);
}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  asked_ = std::move(other.asked_);
  path_ = std::move(other.path_);
  draft_ = std::exchange(other.draft_, {});
  buffer_ = std::exchange(other.buffer_, {});
  file_ = std::exchange(other.file_, -1);
  problem_ = other.problem_;
  in_place_ = other.in_place_;
  return *this;
}

void OutputFile::discard() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
  if (!draft_.empty()) ::unlink(draft_.c_str());
  draft_.clear();
}

void OutputFile::write(llvm::StringRef bytes) {
  buffer_.append(bytes.data(), bytes.size());
  if (buffer_.size() >= kBufferBytes) flush();
}

void OutputFile::flush() {
  const FileLimitIsAnError scope;
  llvm::StringRef left = buffer_;
  while (!left.empty() && problem_ == 0) {
    const ssize_t wrote = ::write(file_, left.data(), left.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      problem_ = wrote < 0 ? errno : EIO;  // a write of 0 bytes would repeat for ever
    } else {
      left = left.drop_front(static_cast<size_t>(wrote));
    }
  }
  buffer_.clear();
}

std::string OutputFile::path_for_programs() const { return fmt::format("/proc/self/fd/{}", file_); }

// 0, or the errno of the step that failed.
int OutputFile::put_in_place() {
  if (draft_.empty()) {
    const std::string nameless = path_for_programs();
    const auto link_to = [&](const std::string& name) {
      return ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    };
    if (link_to(path_)) return 0;
    if (errno != EEXIST) return errno;
    draft_ = draft_name(path_);
    if (!link_to(draft_)) {
      draft_.clear();
      return errno;
    }
  }
  if (::rename(draft_.c_str(), path_.c_str()) != 0) return errno;
  draft_.clear();
  return 0;
}

Error OutputFile::commit() {
  flush();
  const char* step = "write";
  if (problem_ == 0 && ::fsync(file_) != 0 && !in_place_) {
    step = "fsync";
    problem_ = errno;
  }
  if (problem_ == 0 && !in_place_) {
    step = "rename";
    problem_ = put_in_place();
  }
  // The disk of a remote file system may report that it is full only here.
  if (::close(std::exchange(file_, -1)) != 0 && problem_ == 0 && errno != EINTR) {
    step = "close";
    problem_ = errno;
  }
  discard();
  return problem_ == 0 ? Error::success() : refused(asked_, step, problem_);
}

Error write_output(const std::string& path, llvm::StringRef bytes) {
  Expected<OutputFile> file = OutputFile::open(path);
  if (!file) return file.takeError();
  file->write(bytes);
  return file->commit();
}

}  // namespace catenary
