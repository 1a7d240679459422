// SPDX-License-Identifier: Apache-2.0
// One running helper process, as the library sees it. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "compiler/compile/child_process.h"
#include "compiler/compile/helper/message.h"
#include "compiler/compile/helper/options.h"

namespace catenary {

class HelperProcess {
 public:
  // Starts `program` with the limits of `options` (none is 0) and waits for its greeting.
  // kNvrtcMissing: it cannot be started, is of another build, or finds no NVRTC; kCompileTimeout,
  // kOutOfMemory, kCompilerEnded.
  static Expected<std::unique_ptr<HelperProcess>> start(const std::string& program,
                                                        const HelperOptions& options);

  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  const HelperGreeting& greeting() const { return greeting_; }

  // One compile within `seconds`. The error is the compiler's, or says how the helper ended:
  // kCompileTimeout; kOutOfMemory; kCompilerEnded: by a signal from outside; kCompileFailed: it
  // crashed, as it will again with the same source.
  Expected<CompileResult> compile(const CompileJob& job, int seconds);

  // False: it takes no further job.
  bool is_running() const;
  // After compile() has failed: it had ended before the job came.
  bool was_idle() const { return was_idle_; }

  // In a child of fork(): the helper is the parent's.
  void leave_to_parent();

 private:
  HelperProcess() = default;
  int open_and_start(const std::string& program, const HelperOptions& options);
  Error receive(int seconds, const std::string& what, std::string& bytes);
  Error ended(const std::string& what);
  int end_status();
  void close_all();

  ChildProcess child_;
  bool started_ = false;
  bool was_idle_ = false;
  Descriptor socket_;
  Descriptor said_;  // what it writes to its outputs
  HelperGreeting greeting_;
};

}  // namespace catenary
