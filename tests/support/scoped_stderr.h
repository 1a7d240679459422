// SPDX-License-Identifier: Apache-2.0
// The process's stderr as a pipe, a terminal or a file, for the time of a scope.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "tests/support/temp_dir.h"

namespace catenary::test {

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// `read`: the end at which the text arrives; `write`: what becomes stderr.
class RedirectedStderr {
 public:
  RedirectedStderr(int read, int write) : read_(read), before_(::dup(STDERR_FILENO)) {
    REQUIRE(write >= 0);
    ::dup2(write, STDERR_FILENO);
    ::close(write);
  }
  RedirectedStderr(const RedirectedStderr&) = delete;
  RedirectedStderr& operator=(const RedirectedStderr&) = delete;
  ~RedirectedStderr() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    if (read_ >= 0) ::close(read_);
  }

  // All text up to what the read gave that holds `part`. A text that never comes fails the test
  // after a minute.
  std::string read_until(const std::string& part) {
    std::string text;
    while (!has(text, part)) text += next();
    return text;
  }
  std::string read_lines(int lines) {
    std::string text;
    while (std::count(text.begin(), text.end(), '\n') < lines) text += next();
    return text;
  }
  // The reader goes.
  void hang_up() {
    ::close(read_);
    read_ = -1;
  }

 private:
  std::string next() {
    char buffer[4096];
    pollfd stream = {read_, POLLIN, 0};
    REQUIRE(::poll(&stream, 1, 60'000) == 1);
    const ssize_t got = ::read(read_, buffer, sizeof buffer);
    REQUIRE(got > 0);
    return {buffer, static_cast<size_t>(got)};
  }

  int read_;
  const int before_;
};

class PipedStderr {
 public:
  PipedStderr() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    stream_.emplace(ends[0], ends[1]);
  }
  std::string read_until(const std::string& part) { return stream_->read_until(part); }
  std::string read_lines(int lines) { return stream_->read_lines(lines); }
  // Writes until no more fits.
  void fill() {
    ::fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    const std::string much(4096, 'x');
    while (::write(STDERR_FILENO, much.data(), much.size()) > 0) {
    }
    ::fcntl(STDERR_FILENO, F_SETFL, 0);
  }

 private:
  std::optional<RedirectedStderr> stream_;
};

class TerminalStderr {
 public:
  TerminalStderr() {
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(master >= 0);
    REQUIRE(::grantpt(master) == 0);
    REQUIRE(::unlockpt(master) == 0);
    stream_.emplace(master, ::open(::ptsname(master), O_RDWR | O_NOCTTY));
  }
  std::string read_until(const std::string& part) { return stream_->read_until(part); }
  void hang_up() { stream_->hang_up(); }

 private:
  std::optional<RedirectedStderr> stream_;
};

class FileStderr {
 public:
  explicit FileStderr(const char* path) { stream_.emplace(-1, ::open(path, O_WRONLY)); }

 private:
  std::optional<RedirectedStderr> stream_;
};

}  // namespace catenary::test
