// SPDX-License-Identifier: Apache-2.0
// What compiling by another program takes: running it without a shell and with a time limit, and a
// folder of this process that holds the device headers as files. Knows no compiler's options.
#pragma once

#include <string>
#include <vector>

#include "ir/error.h"
#include "llvm/ADT/StringRef.h"

namespace catenary {

struct ProcessResult {
  int status = -1;      // exit status; negative: it did not start, crashed or ran out of time
  std::string problem;  // why it is negative
  std::string output;   // stdout and stderr, the first 4 MiB
};

// The variables of this process for a program that it runs, with messages in English; a few fixed
// ones in a process with more rights than its user.
std::vector<std::string> english_environment();

// Runs `arguments` (the first is the program's path) with messages in English. Thread-safe; touches
// no signal and no other child of the host process.
ProcessResult run_process(const std::vector<std::string>& arguments, int limit_seconds);

// A folder that no other process uses. It holds every template and every host shim under its own
// name ("ptx/global.cuh", "sim/ptx/global.cuh"). Made at the first call, again if it is gone or
// after fork(), removed when the process exits. Each file starts with a #line of its name, which is
// what the compiler then reports and __builtin_FILE() gives. kIo.
Expected<std::string> header_folder();

// Writes the templates of `prefix` ("shared/") below `folder`, as in header_folder(). kIo.
Error write_headers(const std::string& folder, llvm::StringRef prefix);

// Writes the whole file. kIo.
Error write_text(const std::string& path, llvm::StringRef text);

}  // namespace catenary
