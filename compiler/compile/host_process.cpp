// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/host_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "compiler/compile/child_process.h"
#include "compiler/compile/environment.h"
#include "compiler/compile/scratch_folder.h"
#include "compiler/compile/templates.h"
#include "ir/file_limit.h"
#include "ir/temporary_folder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace catenary {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kGrace{2};  // between asking a program to end and ending it
constexpr size_t kMaxOutput = 4 << 20;
constexpr int kLongestPauseMs = 10;
constexpr int kSignalled = 128;  // plus the number of the signal, as shells report it

// Reads what is in the pipe, without waiting for more. False: its writers have closed it.
bool read_output(int pipe, std::string& output) {
  char bytes[16384];
  for (;;) {
    const ssize_t got = ::read(pipe, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    const size_t room = kMaxOutput - output.size();
    output.append(bytes, std::min(static_cast<size_t>(got), room));
  }
}

// Collects the output of `child` until it ends; at the limit sends SIGTERM, then SIGKILL. Polls:
// timers and signal handlers belong to the host process.
void wait_for(ChildProcess& child, int pipe, int limit_seconds, ProcessResult& result) {
  const auto limit = steady_clock::now() + std::chrono::seconds(limit_seconds);
  int pause_ms = 1;
  bool asked = false;
  bool open = true;
  std::optional<int> status;
  while (!(status = child.poll())) {
    const auto now = steady_clock::now();
    if (now > limit + kGrace) {
      child.kill(SIGKILL);
    } else if (now > limit && !asked) {
      child.kill(SIGTERM);
      asked = true;
    }
    pollfd ready{open ? pipe : -1, POLLIN, 0};
    ::poll(&ready, 1, pause_ms);
    if (open) open = read_output(pipe, result.output);
    pause_ms = std::min(pause_ms * 2, kLongestPauseMs);
  }
  if (open) read_output(pipe, result.output);
  if (asked) {
    result.status = -2;
    result.problem = fmt::format("it was ended after {} s", limit_seconds);
  } else if (*status == -1) {
    result.status = -2;
    result.problem = "it was killed";
  } else if (*status > kSignalled) {
    result.status = -2;
    result.problem = fmt::format("it crashed by signal {}", *status - kSignalled);
  } else {
    result.status = *status;
  }
}

Error write_all(const std::string& folder, llvm::ArrayRef<EmbeddedTemplate> headers,
                llvm::StringRef prefix) {
  for (const EmbeddedTemplate& header : headers) {
    if (!llvm::StringRef(header.name).startswith(prefix)) continue;
    const std::string path = fmt::format("{}/{}", folder, header.name);
    if (auto failed = llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path))) {
      return scratch_error(path, failed.message());
    }
    const std::string text = fmt::format("#line 1 \"{}\"\n{}", header.name, header.text);
    if (Error error = write_text(path, text)) return error;
  }
  return Error::success();
}

// The folder of this process, and what is left to do when the process exits.
class Folder {
 public:
  Expected<std::string> get() {
    const std::lock_guard lock(mutex_);
    if (folder_ && folder_->is_own() && llvm::sys::fs::exists(folder_->path() + "/sim/entry.h")) {
      return folder_->path();
    }
    folder_.reset();
    Expected<ScratchFolder> made = ScratchFolder::make();
    if (!made) return made.takeError();
    Error error = write_headers(made->path(), "");
    if (!error) error = write_all(made->path(), embedded_shims(), "");
    if (error) return error;
    return folder_.emplace(std::move(*made)).path();
  }

  void remove() {
    const std::lock_guard lock(mutex_);
    folder_.reset();
  }

 private:
  std::mutex mutex_;
  std::optional<ScratchFolder> folder_;
};

}  // namespace

std::vector<std::string> english_environment() {
  if (has_more_rights_than_its_user()) return {"PATH=/usr/bin:/bin", "LC_ALL=C"};
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const llvm::StringRef text(*variable);
    const auto is = [&](const char* name) { return text.startswith(name); };
    if (!is("LC_ALL=") && !is("LANGUAGE=") && !is("TMPDIR=")) variables.push_back(text.str());
  }
  variables.push_back("TMPDIR=" + temporary_folder());
  variables.push_back("LC_ALL=C");
  return variables;
}

ProcessResult run_process(const std::vector<std::string>& arguments, int limit_seconds) {
  ProcessResult result;
  int pipe[2] = {-1, -1};
  int failed = ::pipe2(pipe, O_CLOEXEC) == 0 ? 0 : errno;
  const Descriptor output(pipe[0]);
  Descriptor input(pipe[1]);
  ChildProcess child;
  if (failed == 0) {
    ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
    failed = child.start(arguments, english_environment(), {.output = input.get()});
    input.close();
  }
  if (failed != 0) {
    result.problem = std::strerror(failed);
    return result;
  }
  try {
    wait_for(child, output.get(), limit_seconds, result);
  } catch (...) {
    // There is no memory for its output, and no other caller waits for it.
    child.kill(SIGKILL);
    while (!child.poll()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw;
  }
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

Error write_headers(const std::string& folder, llvm::StringRef prefix) {
  return write_all(folder, embedded_templates(), prefix);
}

Error write_text(const std::string& path, llvm::StringRef text) {
  const FileLimitIsAnError scope;
  // Not llvm::raw_fd_ostream: with it comes a terminal library that no shared library can hold.
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return scratch_error(path, std::strerror(errno));
  const bool wrote = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  return wrote && closed ? Error::success() : scratch_error(path, std::strerror(errno));
}

}  // namespace catenary
