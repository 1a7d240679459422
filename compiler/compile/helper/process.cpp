// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/helper/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "compiler/compile/host_process.h"
#include "compiler/compile/nvrtc_library.h"
#include "compiler/compile/templates.h"
#include "ir/log.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace catenary {
namespace {

constexpr int kSignalled = 128;      // plus the number of the signal, as shells report it
constexpr int kCannotExecute = 126;  // or 127, as shells report a program that does not start
constexpr std::chrono::milliseconds kGrace{2000};  // for a helper that has closed its socket
constexpr size_t kSaidBytes = 4096;

// The signals of a process that does something wrong; it does the same with the same source.
constexpr std::array kCrashes = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP};

// The variables of a helper. An NVRTC that this process has loaded already is the one to use; the
// folders that were added to this process are searched there too.
std::vector<std::string> helper_environment() {
  std::vector<std::string> variables = english_environment();
  const auto chosen = [](llvm::StringRef text) { return text.startswith("CATENARY_NVRTC="); };
  const std::string loaded = loaded_nvrtc_path();
  if (llvm::none_of(variables, chosen) && !loaded.empty()) {
    variables.push_back("CATENARY_NVRTC=" + loaded);
  }
  llvm::erase_if(variables,
                 [](llvm::StringRef text) { return text.startswith("CATENARY_NVRTC_PATH="); });
  if (const std::vector<std::string> folders = nvrtc_folders(); !folders.empty()) {
    variables.push_back("CATENARY_NVRTC_PATH=" + llvm::join(folders, ":"));
  }
  return variables;
}

}  // namespace

int HelperProcess::open_and_start(const std::string& program, const HelperOptions& options) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return errno;
  socket_ = Descriptor(sockets[0]);
  const Descriptor other_end(sockets[1]);
  int said[2];
  if (::pipe2(said, O_CLOEXEC | O_NONBLOCK) != 0) return errno;
  said_ = Descriptor(said[0]);
  const Descriptor outputs(said[1]);
  const int error =
      child_.start({program, fmt::format("{}", options.memory_bytes)}, helper_environment(),
                   {.input = other_end.get(), .output = outputs.get()});
  started_ = error == 0;
  return error;
}

Expected<std::unique_ptr<HelperProcess>> HelperProcess::start(const std::string& program,
                                                              const HelperOptions& options) {
  const LogTimer timer;
  std::unique_ptr<HelperProcess> helper(new HelperProcess);
  if (const int error = helper->open_and_start(program, options); error != 0) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "the helper program {} could not be started ({}): raise the limits of this "
                      "process, or set CATENARY_HELPER=off to compile in it",
                      program, std::strerror(error));
  }
  std::string bytes;
  const std::string what = fmt::format("NVRTC does not start in {}", program);
  if (Error error = helper->receive(options.seconds, what, bytes)) return error;
  Expected<HelperGreeting> greeting = parse_greeting(bytes);
  if (!greeting) return greeting.takeError();
  if (greeting->templates != templates_digest()) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "the helper program {} is of another build than the library: install both "
                      "of one build",
                      program);
  }
  helper->greeting_ = std::move(*greeting);
  log_event(LogLevel::kDebug, "started helper {} with {} at {} in {:.1f} ms", program,
            helper->greeting_.nvrtc.compiler_id, helper->greeting_.nvrtc.path, timer.ms());
  return helper;
}

HelperProcess::~HelperProcess() {
  if (started_ && socket_) {
    child_.kill(SIGKILL);
    close_all();
    end_status();
  }
  close_all();
}

bool HelperProcess::is_running() const {
  char byte;
  return socket_ && ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

void HelperProcess::leave_to_parent() {
  started_ = false;
  close_all();
}

void HelperProcess::close_all() {
  socket_.close();
  said_.close();
}

Expected<CompileResult> HelperProcess::compile(const CompileJob& job, int seconds) {
  const std::string what =
      fmt::format("kernel {} does not compile for {}", job.source.symbol, job.arch);
  if (!send_message(socket_.get(), job_bytes({job, seconds}))) return ended(what);
  std::string bytes;
  if (Error error = receive(seconds, what, bytes)) return error;
  return parse_result(bytes);
}

Error HelperProcess::receive(int seconds, const std::string& what, std::string& bytes) {
  switch (receive_message(socket_.get(), i64{1000} * seconds, bytes)) {
    case Received::kMessage:
      return Error::success();
    case Received::kEnd:
      return ended(what);
    case Received::kTimeout:
      break;
  }
  child_.kill(SIGKILL);
  end_status();
  close_all();
  return make_error(ErrorCode::kCompileTimeout,
                    "{}: NVRTC was ended after {} s; raise the limit (CATENARY_HELPER_SECONDS), or "
                    "split the chain",
                    what, seconds);
}

// The exit status of a helper that has ended or is about to.
int HelperProcess::end_status() {
  const auto limit = std::chrono::steady_clock::now() + kGrace;
  for (;;) {
    if (const std::optional<int> status = child_.poll()) return *status;
    if (std::chrono::steady_clock::now() > limit) child_.kill(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Error HelperProcess::ended(const std::string& what) {
  const int status = end_status();
  char said[kSaidBytes];
  const ssize_t bytes = ::read(said_.get(), said, sizeof said);
  close_all();
  const llvm::StringRef text(said, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  const std::string line = text.trim().split('\n').first.str();
  was_idle_ = status == kHelperIdle;
  log_event(LogLevel::kDebug, "a helper ended with status {}", status);
  const int signal = status > kSignalled ? status - kSignalled : 0;
  if (status == kHelperNoMemory || signal == SIGKILL) {
    return make_error(ErrorCode::kOutOfMemory,
                      "{}: NVRTC's process {}; raise its limit (CATENARY_HELPER_MEMORY) or the one "
                      "of this process (ulimit -v), or compile fewer kernels at a time",
                      what,
                      signal == 0 ? "ran out of memory"
                                  : "was killed, as the system does "
                                    "when memory runs out");
  }
  if (status == kCannotExecute || status == kCannotExecute + 1) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "{}: the program does not run ({}); reinstall it, or set "
                      "CATENARY_HELPER=off to compile in this process",
                      what, line);
  }
  if (llvm::is_contained(kCrashes, signal)) {
    return make_error(ErrorCode::kCompileFailed,
                      "{}: NVRTC crashed by signal {}{}{}; choose another tile or split the chain",
                      what, signal, line.empty() ? "" : ": ", line);
  }
  if (signal == 0 && status >= 0 && greeting_.templates.empty()) {
    return make_error(
        ErrorCode::kNvrtcMissing,
        "{}: that program is not catenary-nvrtc of this build, as it ended with status "
        "{} and no greeting; set CATENARY_HELPER to the path of the right one, or to "
        "off to compile in this process",
        what, status);
  }
  return make_error(ErrorCode::kCompilerEnded,
                    "{}: NVRTC's process was ended from outside ({} {}); try again", what,
                    signal == 0 ? "status" : "signal", signal == 0 ? status : signal);
}

}  // namespace catenary
