// SPDX-License-Identifier: Apache-2.0
#include "tools/folder_facts.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace catenary::tools {
namespace {

std::string user_name(uid_t user) {
  passwd entry;
  passwd* found = nullptr;
  std::vector<char> text(16384);
  if (::getpwuid_r(user, &entry, text.data(), text.size(), &found) != 0 || found == nullptr) {
    return fmt::format("user {}", user);
  }
  return fmt::format("{} ({})", entry.pw_name, user);
}

bool is_below(const std::string& path, const std::string& folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// The type of the deepest mount above `path`, as /proc/self/mountinfo has it: "ext4".
std::string file_system_type(const std::string& path) {
  char real[PATH_MAX];
  if (::realpath(path.c_str(), real) == nullptr) return "unknown";
  std::ifstream mounts("/proc/self/mountinfo");
  std::string best = "unknown";
  size_t depth = 0;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, point, field, type;
    fields >> id >> parent >> device >> root >> point;
    while (fields >> field && field != "-") {
    }
    // A later mount on the same folder hides the earlier one.
    if (fields >> type && is_below(real, point) && point.size() >= depth) {
      best = type;
      depth = point.size();
    }
  }
  return best;
}

}  // namespace

std::string folder_facts(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? "not there yet" : std::strerror(errno);
  }
  return fmt::format("mode {:04o}, owner {}, {}", info.st_mode & 07777, user_name(info.st_uid),
                     file_system_type(path));
}

}  // namespace catenary::tools
