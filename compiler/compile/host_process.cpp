// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/host_process.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "compiler/compile/templates.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

namespace catenary {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kGrace{2};  // between asking a program to end and ending it

// The environment of this process, but for the language of messages.
std::vector<llvm::StringRef> english_environment() {
  std::vector<llvm::StringRef> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const llvm::StringRef text(*variable);
    if (!text.startswith("LC_ALL=") && !text.startswith("LANGUAGE=")) variables.push_back(text);
  }
  variables.push_back("LC_ALL=C");
  return variables;
}

// llvm::sys::Wait with a limit would set the process's alarm and its handler, which belong to the
// host program: this asks again and again instead.
void wait_for(llvm::sys::ProcessInfo child, int limit_seconds, ProcessResult& result) {
  const auto limit = steady_clock::now() + std::chrono::seconds(limit_seconds);
  milliseconds pause(1);
  bool asked = false;
  for (;;) {
    const auto ended = llvm::sys::Wait(child, 0, /*WaitUntilTerminates=*/false, &result.problem);
    if (ended.Pid != 0) {
      result.status = asked ? -2 : ended.ReturnCode;
      break;
    }
    const auto now = steady_clock::now();
    if (now > limit + kGrace) {
      ::kill(child.Pid, SIGKILL);
    } else if (now > limit && !asked) {
      ::kill(child.Pid, SIGTERM);
      asked = true;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(10));
  }
  if (asked) {
    result.problem = fmt::format("it was ended after {} s", limit_seconds);
  } else if (result.status < 0 && result.problem.empty()) {
    result.problem = "it crashed";
  }
}

Error unwritable(const std::string& path, const std::string& reason) {
  return make_error(ErrorCode::kIo,
                    "'{}' could not be written ({}): free some space, or set TMPDIR to a folder "
                    "with some",
                    path, reason);
}

// The folder of this process, and what is left to do when the process exits.
class Folder {
 public:
  Expected<std::string> get() {
    const std::lock_guard lock(mutex_);
    // A child of fork() has the parent's folder in its memory, and the parent will remove it.
    if (owner_ == ::getpid() && llvm::sys::fs::exists(path_ + "/sim/entry.h")) return path_;
    if (Error error = make()) return error;
    Error error = write(embedded_templates());
    if (!error) error = write(embedded_shims());
    if (!error) return path_;
    remove_now();
    return error;
  }

  void remove() {
    const std::lock_guard lock(mutex_);
    if (owner_ == ::getpid()) remove_now();
  }

 private:
  void remove_now() {
    if (!path_.empty()) llvm::sys::fs::remove_directories(path_);
    path_.clear();
  }

  Error make() {
    llvm::SmallString<128> name;
    llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, name);
    llvm::sys::path::append(name, "catenary-host-XXXXXX");
    std::string path = name.str().str();
    if (::mkdtemp(path.data()) == nullptr) return unwritable(path, std::strerror(errno));
    path_ = path;
    owner_ = ::getpid();
    return Error::success();
  }

  Error write(llvm::ArrayRef<EmbeddedTemplate> headers) const {
    for (const EmbeddedTemplate& header : headers) {
      const std::string path = fmt::format("{}/{}", path_, header.name);
      if (auto failed = llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path))) {
        return unwritable(path, failed.message());
      }
      const std::string text = fmt::format("#line 1 \"{}\"\n{}", header.name, header.text);
      if (Error error = write_text(path, text)) return error;
    }
    return Error::success();
  }

  std::mutex mutex_;
  std::string path_;
  pid_t owner_ = 0;
};

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& log,
                          int limit_seconds) {
  const std::vector<llvm::StringRef> words(arguments.begin(), arguments.end());
  const std::vector<llvm::StringRef> environment = english_environment();
  const llvm::Optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(log),
                                                       llvm::StringRef(log)};
  ProcessResult result;
  bool failed = false;
  const auto child =
      llvm::sys::ExecuteNoWait(words.front(), words, llvm::makeArrayRef(environment), redirects,
                               /*MemoryLimit=*/0, &result.problem, &failed);
  if (failed || child.Pid <= 0) {
    if (result.problem.empty()) result.problem = "it does not start";
    return result;
  }
  wait_for(child, limit_seconds, result);
  if (auto text = llvm::MemoryBuffer::getFile(log)) result.output = (*text)->getBuffer().str();
  return result;
}

Expected<std::string> header_folder() {
  // Never destroyed: threads may compile until the process ends.
  static Folder& folder = *[] {
    static Folder* made = new Folder;
    std::atexit([] { made->remove(); });
    return made;
  }();
  return folder.get();
}

Error write_text(const std::string& path, llvm::StringRef text) {
  // Not llvm::raw_fd_ostream: with it comes a terminal library that no shared library can hold.
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return unwritable(path, std::strerror(errno));
  const bool wrote = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  return wrote && closed ? Error::success() : unwritable(path, std::strerror(errno));
}

}  // namespace catenary
