// SPDX-License-Identifier: Apache-2.0
#include "tools/output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "ir/json.h"
#include "tools/terminal.h"

namespace catenary::tools {
namespace {

constexpr std::string_view kEraseToEnd = "\x1b[K";  // ECMA-48, EL

bool json = false;
bool quiet = false;
int stdout_error = 0;  // errno of the first write that failed

void note_failure(bool failed) {
  if (failed && stdout_error == 0) stdout_error = errno == 0 ? EIO : errno;
}

std::mutex status_mutex;
bool status_shown = false;  // guarded by status_mutex

void put_stderr(std::string_view text) {
  // Nothing can be said about a stderr that cannot be written.
  if (std::fwrite(text.data(), 1, text.size(), stderr) != text.size()) std::clearerr(stderr);
}

// Under status_mutex.
void erase_status() {
  if (status_shown) put_stderr(fmt::format("\r{}", kEraseToEnd));
  status_shown = false;
}

}  // namespace

void open_standard_streams() {
  // Opened for the other direction, so that a use of it is still an error.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", flags) < 0) return;  // takes the lowest free number: this one
  }
  // A handler, and not SIG_IGN, which the programs that this one starts would inherit.
  struct sigaction nothing = {};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &nothing, nullptr);
  ::sigaction(SIGXFSZ, &nothing, nullptr);
  // A parent that ignores SIGCHLD would hide how the disassembler ended.
  ::signal(SIGCHLD, SIG_DFL);
}

void write_stdout(std::string_view text) {
  clear_status();  // the two streams may be one terminal
  note_failure(std::fwrite(text.data(), 1, text.size(), stdout) != text.size());
}

void write_stderr(std::string_view text) {
  const std::lock_guard lock(status_mutex);
  erase_status();
  put_stderr(text);
}

llvm::json::Value json_string(const std::string& text) {
  return llvm::json::isUTF8(text) ? text : llvm::json::fixUTF8(text);
}

void flush_stdout() { note_failure(std::fflush(stdout) != 0); }

bool stderr_has_room() {
  pollfd stream = {STDERR_FILENO, POLLOUT, 0};
  return ::poll(&stream, 1, /*milliseconds=*/0) == 1 && (stream.revents & POLLOUT) != 0;
}

void show_status(std::string_view line) {
  const std::lock_guard lock(status_mutex);
  if (!stderr_has_room()) return;
  put_stderr(fmt::format("\r{}{}", line, kEraseToEnd));
  status_shown = true;
}

void clear_status() {
  const std::lock_guard lock(status_mutex);
  erase_status();
}

void add_output_options(CLI::App& command) {
  // main() looks for the word itself, so that an error of the words before it is JSON too.
  command
      .add_flag_callback(
          "--json", [] {}, "Print the results as JSON")
      ->disable_flag_override();
  command
      .add_flag_callback(
          "-q,--quiet", [] { quiet = true; }, "Show no progress")
      ->disable_flag_override();
  command
      .add_option_function<std::string>(
          "--color",
          [](const std::string& when) {
            choose_color(when == "auto"     ? ColorChoice::kAuto
                         : when == "always" ? ColorChoice::kAlways
                                            : ColorChoice::kNever);
          },
          "When to colour results and errors; default: auto, on a terminal")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

bool is_quiet() { return quiet; }

void use_json() { json = true; }
bool uses_json() { return json; }

llvm::json::Object& json_result() {
  static llvm::json::Object& result = *new llvm::json::Object;
  return result;
}

llvm::json::Value json_number(double number) {
  return std::isfinite(number) ? llvm::json::Value(number) : llvm::json::Value(nullptr);
}

Error finish_output() {
  if (json && !json_result().empty()) {
    llvm::json::Value result(std::move(json_result()));
    write_stdout(json_text(result) + "\n");
  }
  flush_stdout();
  if (std::ferror(stdout) && stdout_error == 0) stdout_error = EIO;
  if (stdout_error == 0 || stdout_error == EPIPE) return Error::success();
  return make_error(ErrorCode::kIo,
                    "standard output could not be written ({}): check its target and the free "
                    "space",
                    std::strerror(stdout_error));
}

}  // namespace catenary::tools
