// SPDX-License-Identifier: Apache-2.0
// The file protocol. Read: open once, check the open file and not the path, read all of it. Write:
// a temporary file, fsync, close, rename. Every result is checked, that of close too: a full or
// remote disk may report its error there.
#include "runtime/cache/cache_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>

#include "llvm/ADT/StringExtras.h"
#include "runtime/cache/cache_entry.h"
#include "runtime/cache/cache_trust.h"

namespace catenary {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr i64 kTemporarySeconds = 3600;
constexpr i64 kUseSeconds = 3600;
constexpr size_t kMaxBadFiles = 16;
constexpr int kMaxDepth = 16;  // of a folder in the place of a file
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
constexpr llvm::StringLiteral kSuffix = ".ctn";

FileIdentity identity_of(const struct stat& info) {
  return {info.st_ino, info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

bool is_absence(int error) { return error == -ENOENT || error == -ESTALE || error == -ENOTDIR; }

bool is_lower_hex(llvm::StringRef text) {
  return llvm::all_of(text, [](char c) { return llvm::isDigit(c) || (c >= 'a' && c <= 'f'); });
}

// 128 random bits, if the kernel has them, with the process id and a counter.
std::string unique_name() {
  static std::atomic<u64> counter{0};
  u8 random[16] = {};
  const ssize_t got = ::getrandom(random, sizeof(random), GRND_NONBLOCK);
  const std::string digits =
      llvm::toHex(llvm::ArrayRef<u8>(random, got > 0 ? static_cast<size_t>(got) : 0), true);
  return fmt::format("{}-{}-{}", digits, ::getpid(), counter++);
}

Error unusable(const std::string& path, const std::string& reason) {
  return make_error(ErrorCode::kCacheIo,
                    "cache folder {} is not used: {}; kernels are kept in memory only", path,
                    reason);
}

// Makes `path` and its missing parents. Parents that exist are checked once the folder is open.
int make_folders(FileSystem& files, const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    const int made = retry([&] { return files.mkdir(AT_FDCWD, part.c_str(), kFolderMode); });
    if (slash == std::string::npos) return made == -EEXIST ? 0 : made;
  }
}

std::string open_problem(int error) {
  if (error == -ELOOP || error == -ENOTDIR) {
    return "it is a symbolic link or not a folder, set CATENARY_CACHE_DIR to a real folder";
  }
  return fmt::format("it cannot be opened ({}), set CATENARY_CACHE_DIR to another folder",
                     errno_text(error));
}

// Opens a folder and checks that no other user may change it.
Expected<OpenFile> open_trusted(FileSystem& files, int parent, const char* name,
                                const std::string& path) {
  OpenFile folder(files, retry([&] { return files.open(parent, name, kFolderFlags, 0); }));
  if (!folder) return unusable(path, open_problem(folder.get()));
  if (std::string problem = folder_problem(files, folder.get()); !problem.empty()) {
    return unusable(path, problem);
  }
  return folder;
}

}  // namespace

Expected<std::unique_ptr<CacheDirectory>> CacheDirectory::open(FileSystem& files,
                                                               const std::string& given,
                                                               bool writable) {
  // With a trailing slash, O_NOFOLLOW follows a link.
  const std::string path = llvm::StringRef(given).rtrim('/').str();
  if (path.empty()) return unusable(given, "it has no name, set CATENARY_CACHE_DIR to a folder");
  if (writable) {
    if (const int made = make_folders(files, path); made < 0) {
      return unusable(path,
                      fmt::format("it cannot be created ({}), set CATENARY_CACHE_DIR to another "
                                  "folder",
                                  errno_text(made)));
    }
  }
  Expected<OpenFile> top = open_trusted(files, AT_FDCWD, path.c_str(), path);
  if (!top) return top.takeError();
  if (std::string problem = ancestor_problem(files, top->get(), path); !problem.empty()) {
    return unusable(path, problem);
  }
  // On a read-only folder this fails; the open of v1, or a later write, reports it.
  if (writable) retry([&] { return files.mkdir(top->get(), "v1", kFolderMode); });
  Expected<OpenFile> root = open_trusted(files, top->get(), "v1", path + "/v1");
  if (!root) return root.takeError();
  std::unique_ptr<CacheDirectory> directory(
      new CacheDirectory(files, path, std::move(*root), writable));
  if (writable) directory->sweep_orphans();
  return directory;
}

std::string CacheDirectory::entry_name(const KernelKey& key) {
  const std::string hex = key.hex();
  return hex.substr(0, 2) + "/" + hex.substr(2) + kSuffix.str();
}

std::string CacheDirectory::key_hex(const std::string& name) {
  llvm::StringRef rest = name;
  if (!rest.consume_back(kSuffix) || rest.size() != 65 || rest[2] != '/') return "";
  const std::string hex = (rest.take_front(2) + rest.drop_front(3)).str();
  return is_lower_hex(hex) ? hex : "";
}

std::string CacheDirectory::full_path(const std::string& name) const {
  return path_ + "/v1/" + name;
}

// 0, or the error of the first call that failed.
int CacheDirectory::read_open_file(int file, EntryFile& entry) const {
  struct stat info;
  if (const int error = retry([&] { return files_.stat(file, "", &info); }); error < 0) {
    return error;
  }
  entry.identity = identity_of(info);
  entry.problem = file_problem(info);
  if (!entry.problem.empty()) return 0;
  entry.bytes.resize(info.st_size);
  size_t filled = 0;
  while (filled < entry.bytes.size()) {
    const ssize_t got = retry([&] {
      return files_.read(file, entry.bytes.data() + filled, entry.bytes.size() - filled);
    });
    if (got < 0) return static_cast<int>(got);
    if (got == 0) break;
    filled += got;
  }
  if (filled < entry.bytes.size()) {
    entry.problem = fmt::format("it ended after {} of {} bytes", filled, entry.bytes.size());
  }
  return 0;
}

Error CacheDirectory::part_error(const char* part, const std::string& problem) const {
  return make_error(ErrorCode::kCacheIo,
                    "cache folder {} is not used: {}; its kernels are compiled", full_path(part),
                    problem);
}

// Whether the folder v1/`part` is there; checked like v1. Only this user can change v1, so that the
// folder stays what it is. kCacheIo: it must not be used.
Expected<bool> CacheDirectory::check_part(const char* part) const {
  const OpenFile folder(files_, retry([&] { return files_.open(root_, part, kFolderFlags, 0); }));
  if (folder.get() == -ENOENT || folder.get() == -ESTALE) return false;
  if (!folder) return part_error(part, open_problem(folder.get()));
  const std::string problem = folder_problem(files_, folder.get());
  if (!problem.empty()) return part_error(part, problem);
  return true;
}

// Makes the folder v1/`part`, in the place of a file or a link with that name.
Error CacheDirectory::make_part(const char* part) {
  const auto make = [&] {
    const int made = retry([&] { return files_.mkdir(root_, part, kFolderMode); });
    return made == -EEXIST ? 0 : made;
  };
  struct stat info;
  if (const int made = make(); made < 0) return write_error("mkdir", made);
  if (files_.stat(root_, part, &info) >= 0 && !S_ISDIR(info.st_mode)) {
    retry([&] { return files_.unlink(root_, part); });
    if (const int made = make(); made < 0) return write_error("mkdir", made);
  }
  return check_part(part).takeError();
}

Expected<std::optional<EntryFile>> CacheDirectory::read(const std::string& name) const {
  EntryFile entry;
  Expected<bool> there = check_part(name.substr(0, 2).c_str());
  if (!there) return there.takeError();
  if (!*there) return std::nullopt;
  // O_NONBLOCK: the open of a pipe would wait for its writer.
  const OpenFile file(files_, retry([&] {
                        return files_.open(root_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
                                           0);
                      }));
  if (file.get() == -ELOOP) {
    struct stat info;
    if (files_.stat(root_, name.c_str(), &info) >= 0) entry.identity = identity_of(info);
    entry.problem = "it is a symbolic link";
    return entry;
  }
  const int error = file ? read_open_file(file.get(), entry) : file.get();
  if (is_absence(error)) return std::nullopt;
  if (error < 0) {
    return make_error(ErrorCode::kCacheIo,
                      "cache folder {} cannot be read ({}); kernels are compiled instead", path_,
                      errno_text(error));
  }
  return entry;
}

Error CacheDirectory::write_error(const char* step, int error) const {
  return make_error(ErrorCode::kCacheIo,
                    "cache folder {} cannot be written ({}: {}); the next process compiles again",
                    path_, step, errno_text(error));
}

Expected<OpenFile> CacheDirectory::create_temporary(std::string& name) {
  OpenFile file;
  // The folder may have been removed by another process, and the name may be taken.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (Error error = make_part("tmp")) return error;
    name = "tmp/" + unique_name();
    const auto create = [&] {
      return files_.open(root_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kFileMode);
    };
    file = OpenFile(files_, retry(create));
    if (file.get() != -ENOENT && file.get() != -EEXIST) break;
  }
  if (!file) return write_error("open", file.get());
  return file;
}

// Writes, syncs and closes. 0, or the first error; `step` names its call.
int CacheDirectory::write_temporary(OpenFile file, llvm::ArrayRef<u8> bytes, const char*& step) {
  int failure = 0;
  step = "write";
  while (!bytes.empty() && failure == 0) {
    const ssize_t wrote =
        retry([&] { return files_.write(file.get(), bytes.data(), bytes.size()); });
    // A write of 0 bytes would repeat for ever.
    if (wrote <= 0) {
      failure = wrote < 0 ? static_cast<int>(wrote) : -EIO;
    } else {
      bytes = bytes.drop_front(wrote);
    }
  }
  if (failure == 0) {
    step = "fsync";
    failure = std::min(0, retry([&] { return files_.fsync(file.get()); }));
  }
  const int closed = file.close();
  if (failure == 0 && closed < 0 && closed != -EINTR) {
    step = "close";
    failure = closed;
  }
  return failure;
}

int CacheDirectory::publish(const std::string& temporary, const std::string& name) {
  return retry([&] { return files_.rename(root_, temporary.c_str(), name.c_str()); });
}

Error CacheDirectory::write(const std::string& name, llvm::ArrayRef<u8> bytes) {
  if (bytes.size() > kMaxEntryBytes) return write_error("size", EFBIG);
  std::string temporary;
  Expected<OpenFile> file = create_temporary(temporary);
  if (!file) return file.takeError();
  const char* step = nullptr;
  int failure = write_temporary(std::move(*file), bytes, step);
  if (failure == 0) {
    if (Error error = make_part(name.substr(0, 2).c_str())) {
      retry([&] { return files_.unlink(root_, temporary.c_str()); });
      return error;
    }
  }
  if (failure == 0) {
    step = "rename";
    failure = publish(temporary, name);
  }
  if (failure == 0) return Error::success();
  retry([&] { return files_.unlink(root_, temporary.c_str()); });
  return write_error(step, failure);
}

void CacheDirectory::quarantine(const std::string& name, const FileIdentity& seen) {
  struct stat info;
  if (!writable_ || files_.stat(root_, name.c_str(), &info) < 0) return;
  if (info.st_uid != ::geteuid() || identity_of(info) != seen) return;
  llvm::consumeError(make_part("bad"));
  std::vector<std::string> bad;
  const int listed = files_.list(root_, "bad", &bad);
  const std::string target = "bad/" + key_hex(name) + kSuffix.str();
  remove_all(target, 0);
  if (listed < 0 || bad.size() >= kMaxBadFiles ||
      files_.rename(root_, name.c_str(), target.c_str()) < 0) {
    remove_all(name, 0);
  }
}

// Removes a file, or a folder with what is in it; follows no link. False: it is still there.
bool CacheDirectory::remove_all(const std::string& path, int depth) {
  const int error = retry([&] { return files_.unlink(root_, path.c_str()); });
  if (error >= 0 || error == -ENOENT) return true;
  if ((error != -EISDIR && error != -EPERM) || depth == kMaxDepth) return false;
  std::vector<std::string> names;
  if (files_.list(root_, path.c_str(), &names) < 0) return false;
  for (const std::string& name : names) remove_all(fmt::format("{}/{}", path, name), depth + 1);
  return retry([&] { return files_.rmdir(root_, path.c_str()); }) >= 0;
}

Expected<std::vector<EntryName>> CacheDirectory::entries() const {
  std::vector<std::string> folders;
  if (const int error = files_.list(root_, ".", &folders); error < 0) {
    return make_error(ErrorCode::kCacheIo,
                      "cache folder {} cannot be listed ({}): check that it is still there", path_,
                      errno_text(error));
  }
  std::vector<EntryName> found;
  for (const std::string& folder : folders) {
    if (folder.size() == 2) llvm::append_range(found, neighbours(folder));
  }
  llvm::sort(found, [](const EntryName& a, const EntryName& b) { return a.name < b.name; });
  return found;
}

std::vector<EntryName> CacheDirectory::neighbours(const std::string& name) const {
  const std::string folder = name.substr(0, 2);
  std::vector<std::string> names;
  std::vector<EntryName> found;
  if (files_.list(root_, folder.c_str(), &names) < 0) return found;
  for (const std::string& file : names) {
    EntryName entry{folder + "/" + file, {}};
    struct stat info;
    if (key_hex(entry.name).empty()) continue;
    if (files_.stat(root_, entry.name.c_str(), &info) < 0) continue;
    entry.identity = identity_of(info);
    found.push_back(std::move(entry));
  }
  return found;
}

void CacheDirectory::mark_used(const std::string& name, const FileIdentity& seen) {
  const i64 age = ::time(nullptr) - seen.modified_ns / 1'000'000'000;
  if (writable_ && age >= kUseSeconds) files_.touch(root_, name.c_str());
}

EntryLock CacheDirectory::lock_entry(const std::string& name, std::chrono::milliseconds patience) {
  if (!writable_) return {};
  if (Error error = make_part("locks")) {
    llvm::consumeError(std::move(error));
    return {};
  }
  return EntryLock::acquire(files_, root_, "locks/" + key_hex(name), patience);
}

std::optional<CacheDirectory::PruneLock> CacheDirectory::try_lock() {
  const int locked = retry([&] { return files_.lock(root_, LOCK_EX | LOCK_NB); });
  if (locked == -EWOULDBLOCK) return std::nullopt;
  return PruneLock(*this);
}

// Closing would not unlock: a forked child may hold the folder open.
CacheDirectory::PruneLock::~PruneLock() {
  if (directory_ != nullptr) directory_->files_.lock(directory_->root_, LOCK_UN);
}

bool CacheDirectory::remove(const std::string& name) { return remove_all(name, 0); }

void CacheDirectory::sweep_orphans() {
  sweep("tmp", kTemporarySeconds);
  sweep("locks", kTemporarySeconds);
}

void CacheDirectory::sweep(const char* folder, i64 min_age_seconds) {
  std::vector<std::string> names;
  if (files_.list(root_, folder, &names) < 0) return;
  const i64 now = ::time(nullptr);
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", folder, name);
    struct stat info;
    if (files_.stat(root_, path.c_str(), &info) < 0) continue;
    if (now - info.st_mtim.tv_sec >= min_age_seconds) remove_all(path, 0);
  }
}

}  // namespace catenary
