// SPDX-License-Identifier: Apache-2.0
// Owners and modes of open folders. Ancestors are read by "..", so that they are the real ones and
// not those of the path, which may have links.
#include "runtime/cache/cache_trust.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "runtime/cache/cache_entry.h"

namespace catenary {
namespace {

constexpr mode_t kWritableByOthers = 022;
constexpr mode_t kOpenToOthers = 077;
constexpr int kMaxDepth = 512;

bool is_trusted_owner(uid_t user) { return user == ::geteuid() || user == 0; }

int stat_again(FileSystem& files, int folder, const char* path, struct stat& info) {
  int result = files.stat(folder, path, &info);
  while (result == -EINTR) result = files.stat(folder, path, &info);
  return result;
}

std::string not_examined(const std::string& subject, int error) {
  return fmt::format("{} cannot be examined ({}), set CATENARY_CACHE_DIR to another folder",
                     subject, errno_text(error));
}

// `subject`: "it", or the path of an ancestor.
std::string owner_problem(const std::string& subject, const struct stat& info) {
  return fmt::format(
      "{} belongs to user {} (mode {:04o}), set CATENARY_CACHE_DIR to a folder of your own",
      subject, info.st_uid, info.st_mode & 07777);
}

// The fix for a shared folder (sticky, or of another owner) is another folder, not another mode.
std::string mode_problem(const std::string& subject, const struct stat& info) {
  const bool shared = info.st_uid != ::geteuid() || (info.st_mode & S_ISVTX) != 0;
  return fmt::format(
      "{} has mode {:04o}, which lets others write to it, {}", subject, info.st_mode & 07777,
      shared ? "set CATENARY_CACHE_DIR to a folder of your own" : "run chmod go-w on it");
}

// The name of the folder `levels` above `path`, for messages only: the checks use open folders.
std::string ancestor_name(const std::string& path, int levels) {
  std::error_code error;
  std::filesystem::path name = std::filesystem::canonical(path, error);
  if (error) name = std::filesystem::path(path).lexically_normal();
  for (int i = 0; i < levels; ++i) name = name.parent_path();
  return fmt::format("{} above it", name.string());
}

// Why a folder must not be below one where all users create files; empty: it may be.
std::string sticky_problem(const struct stat& leaf, const std::string& above) {
  if (leaf.st_uid == ::geteuid() && (leaf.st_mode & kOpenToOthers) == 0) return "";
  return fmt::format(
      "it belongs to user {} and has mode {:04o}, and {} is writable by others: it must be your "
      "own with mode 0700, run chmod 700 or set CATENARY_CACHE_DIR to another folder",
      leaf.st_uid, leaf.st_mode & 07777, above);
}

}  // namespace

std::string file_problem(const struct stat& info) {
  const mode_t mode = info.st_mode & 07777;
  if (!S_ISREG(info.st_mode)) return "it is not a regular file";
  if (!is_trusted_owner(info.st_uid)) return fmt::format("it belongs to user {}", info.st_uid);
  if (mode & kWritableByOthers) {
    return fmt::format("its mode {:04o} lets others write to it", mode);
  }
  if (info.st_size > static_cast<off_t>(kMaxEntryBytes)) {
    return fmt::format("it has {} bytes, over the limit of {}", info.st_size, kMaxEntryBytes);
  }
  return "";
}

std::string folder_problem(FileSystem& files, int folder) {
  struct stat info;
  if (const int error = stat_again(files, folder, "", info); error < 0) {
    return not_examined("it", error);
  }
  if (!is_trusted_owner(info.st_uid)) return owner_problem("it", info);
  if (info.st_mode & kWritableByOthers) return mode_problem("it", info);
  return "";
}

std::string ancestor_problem(FileSystem& files, int folder, const std::string& path) {
  struct stat leaf;
  if (const int error = stat_again(files, folder, "", leaf); error < 0) {
    return not_examined("it", error);
  }
  struct stat below = leaf;
  std::string up;
  for (int level = 1; level <= kMaxDepth; ++level) {
    up += level == 1 ? ".." : "/..";
    struct stat info;
    if (const int error = stat_again(files, folder, up.c_str(), info); error < 0) {
      return not_examined(ancestor_name(path, level), error);
    }
    // The root is its own parent.
    if (info.st_ino == below.st_ino && info.st_dev == below.st_dev) return "";
    below = info;
    if (!is_trusted_owner(info.st_uid)) return owner_problem(ancestor_name(path, level), info);
    if ((info.st_mode & kWritableByOthers) == 0) continue;
    const std::string name = ancestor_name(path, level);
    if ((info.st_mode & S_ISVTX) == 0) return mode_problem(name, info);
    if (std::string problem = sticky_problem(leaf, name); !problem.empty()) return problem;
  }
  return fmt::format("it is more than {} folders deep, set CATENARY_CACHE_DIR to another folder",
                     kMaxDepth);
}

}  // namespace catenary
