// SPDX-License-Identifier: Apache-2.0
// A program that this process runs. The host process may ignore SIGCHLD or wait for all of its
// children, and then takes the status that waitpid(2) would give: a small shell script, which runs
// the program, sends it through a pipe.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "ir/descriptor.h"

namespace catenary {

class ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  struct Files {
    int input = -1;   // -1: none
    int output = -1;  // of both outputs
  };

  // Starts `arguments` (the first is the program's path) with the variables of `environment`
  // ("NAME=value"), every signal at its default, and no other open file than `files`. 0, or the
  // errno of the step that failed.
  int start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
            const Files& files);

  // Its exit status once it has ended, 128 and the signal for one that crashed; -1: it has ended,
  // and how is not known.
  std::optional<int> poll();

  // Sends a signal to the program and to its own child processes.
  void kill(int signal) const;

 private:
  pid_t pid_ = 0;
  Descriptor status_pipe_;
  std::string status_text_;
};

}  // namespace catenary
