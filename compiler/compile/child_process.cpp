// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace catenary {
namespace {

constexpr const char* kShell = "/bin/sh";
// The program is an argument and not a part of the script, so the shell interprets nothing in it.
constexpr const char* kScript = "\"$@\" 3>&-; echo $? >&3";
constexpr int kStatus = 3;
constexpr int kFirstFree = 10;  // above the numbers that the child uses

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

// A copy of `file` above the numbers that the child uses.
Descriptor copy_of(int file) { return Descriptor(::fcntl(file, F_DUPFD_CLOEXEC, kFirstFree)); }

// What the child gets: every signal at its default and not blocked, four descriptors and no other
// file of the host, and a process group of its own. kill() ends the whole group.
class Setup {
 public:
  Setup(int input, int output, int status) {
    ::posix_spawn_file_actions_init(&files);
    if (input < 0) {
      ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    } else {
      ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
    }
    ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, status, kStatus);
#if __GLIBC_PREREQ(2, 34)
    ::posix_spawn_file_actions_addclosefrom_np(&files, kStatus + 1);
#endif
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    sigset_t signals;
    sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes, &signals);
    sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes, &signals);
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
  ~Setup() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

}  // namespace

int ChildProcess::start(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& environment, const Files& files) {
  if (::access(arguments.front().c_str(), X_OK) != 0) return errno;
  std::vector<std::string> words{kShell, "-c", kScript, kShell};
  words.insert(words.end(), arguments.begin(), arguments.end());
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) return errno;
  status_pipe_ = Descriptor(pipe[0]);
  const Descriptor written(pipe[1]);
  Descriptor input;
  if (files.input >= 0 && !(input = copy_of(files.input))) return errno;
  const Descriptor outputs = copy_of(files.output);
  if (!outputs) return errno;
  const Descriptor status = copy_of(written.get());
  if (!status) return errno;
  const Setup setup(input.get(), outputs.get(), status.get());
  return ::posix_spawn(&pid_, kShell, &setup.files, &setup.attributes, pointers(words).data(),
                       pointers(environment).data());
}

std::optional<int> ChildProcess::poll() {
  char bytes[16];
  const ssize_t got = ::read(status_pipe_.get(), bytes, sizeof bytes);
  if (got > 0) status_text_.append(bytes, static_cast<size_t>(got));
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return std::nullopt;
  // The shell has ended, or is about to: it leaves no zombie.
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  return status_text_.empty() ? -1 : std::atoi(status_text_.c_str());
}

void ChildProcess::kill(int signal) const { ::kill(-pid_, signal); }

}  // namespace catenary
