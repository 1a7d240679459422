// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/helper/options.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>

#include "compiler/compile/environment.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace catenary {
namespace {

constexpr const char* kProgram = "catenary-nvrtc";
// From the folder of a library or a command: where both are built, and where they are installed.
constexpr const char* kFolders[] = {"", "libexec/catenary", CATENARY_LIBEXEC_FROM_LIBRARY,
                                    CATENARY_LIBEXEC_FROM_COMMAND};

// A positive number; `value` stays where the variable is unset.
Error read_number(const char* name, i64 most, i64& value) {
  const std::string text = environment(name);
  if (text.empty()) return Error::success();
  i64 number = 0;
  if (llvm::StringRef(text).getAsInteger(10, number) || number < 1 || number > most) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}={} is not usable: give a number from 1 to {}", name, text, most);
  }
  value = number;
  return Error::success();
}

Error read_use(HelperOptions& options) {
  const std::string text = environment("CATENARY_HELPER");
  if (text.empty() || text == "off") {
    options.use = HelperUse::kOff;
  } else if (text == "on") {
    options.use = HelperUse::kRequired;
  } else if (text.find('/') != std::string::npos) {
    options.use = HelperUse::kRequired;
    if (options.program.empty()) options.program = text;
  } else {
    return make_error(ErrorCode::kInvalidArgument,
                      "CATENARY_HELPER={} is not usable: give on, off, or the path of {}", text,
                      kProgram);
  }
  return Error::success();
}

// The files that this code and the running command are; the library is the first.
std::vector<std::string> own_files() {
  std::vector<std::string> files;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_files), &info) != 0 && info.dli_fname) {
    files.push_back(info.dli_fname);
  }
  files.push_back("/proc/self/exe");
  for (std::string& file : files) {
    llvm::SmallString<256> real;
    if (!llvm::sys::fs::real_path(file, real)) file = real.str().str();
  }
  return files;
}

// Whoever can write a program can run code as this user. It may be of root, of this user, or of the
// user who owns the library; a group may write it only where that group may write the library too.
bool is_trusted(const std::string& program, const std::string& own_file) {
  struct stat it = {};
  struct stat own = {};
  if (::stat(program.c_str(), &it) != 0 || !S_ISREG(it.st_mode)) return false;
  if ((it.st_mode & S_IWOTH) != 0) return false;
  const bool own_known = ::stat(own_file.c_str(), &own) == 0;
  const bool same_group = own_known && (own.st_mode & S_IWGRP) != 0 && own.st_gid == it.st_gid;
  if ((it.st_mode & S_IWGRP) != 0 && !same_group) return false;
  const bool same_owner = own_known && own.st_uid == it.st_uid;
  return it.st_uid == 0 || it.st_uid == ::geteuid() || same_owner;
}

}  // namespace

Expected<HelperOptions> with_environment(HelperOptions options) {
  if (options.use == HelperUse::kEnvironment) {
    if (Error error = read_use(options)) return error;
  }
  if (options.use == HelperUse::kOff) return HelperOptions{.use = HelperUse::kOff, .program = {}};
  i64 memory = kDefaultHelperMemory;
  i64 seconds = kDefaultHelperSeconds;
  if (Error error = read_number("CATENARY_HELPER_MEMORY", std::numeric_limits<i64>::max(), memory))
    return error;
  if (Error error = read_number("CATENARY_HELPER_SECONDS", kMaxHelperSeconds, seconds))
    return error;
  if (options.memory_bytes == 0) options.memory_bytes = memory;
  if (options.seconds == 0) options.seconds = static_cast<int>(seconds);
  return options;
}

Expected<std::string> find_helper(const HelperOptions& options) {
  if (!options.program.empty()) {
    if (llvm::sys::fs::can_execute(options.program)) return options.program;
    return make_error(ErrorCode::kNvrtcMissing,
                      "the helper program '{}' is not an executable file: name {} of this "
                      "installation, or set CATENARY_HELPER=off to compile in this process",
                      options.program, kProgram);
  }
  std::vector<std::string> tried;
  for (const std::string& own : own_files()) {
    for (const char* folder : kFolders) {
      llvm::SmallString<256> path(llvm::sys::path::parent_path(own));
      llvm::sys::path::append(path, folder, kProgram);
      llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
      const std::string program = path.str().str();
      if (llvm::is_contained(tried, program)) continue;
      if (is_trusted(program, own) && llvm::sys::fs::can_execute(program)) return program;
      tried.push_back(program);
    }
  }
  return make_error(ErrorCode::kNvrtcMissing,
                    "the helper program {} is in none of its places ({}): install it with the "
                    "library, set CATENARY_HELPER to its path, or set CATENARY_HELPER=off to "
                    "compile in this process",
                    kProgram, llvm::join(tried, ", "));
}

}  // namespace catenary
