// SPDX-License-Identifier: Apache-2.0
// NVRTC's and ptxas' log text -> what ptxas reports of a kernel, and one error sentence. Pure text
// work: knows no library and no options.
#pragma once

#include <optional>
#include <string>

#include "compiler/emit/source.h"
#include "llvm/ADT/StringRef.h"

namespace catenary {

// What `-Xptxas -v` prints, over the kernel and every function it calls out of line: the largest
// register count, frame and static shared memory, the sum of all spills.
struct PtxasReport {
  KernelResources resources;
  std::string warning;       // first line that holds a C75xx code; empty: none
  bool entry_found = false;  // the log speaks of the entry function `symbol`
};
PtxasReport parse_ptxas_log(llvm::StringRef log, llvm::StringRef symbol);

// The first error of a log.
struct LogError {
  std::string text;      // "identifier \"x\" is undefined"
  std::string file;      // "<symbol>.cu" or a template's name; empty: no place
  int line = 0;          // 1-based in `file`
  int emitted_line = 0;  // 1-based in the emitted body: `line`, or where a template is used from
};
std::optional<LogError> first_log_error(llvm::StringRef log, llvm::StringRef symbol);

// Does the log say that the compiler ran out of memory? Not a fault of the source: it may compile
// later.
bool says_out_of_memory(llvm::StringRef log);

// The IR value that line `line` (1-based) of `body` computes: "%h" out of a trailing
// "// %h = gelu %g". Empty: the line has no such comment.
std::string value_of_line(llvm::StringRef body, int line);

// One sentence that names the kernel, the first error with its place and the IR value, then the log
// on further lines, cut at 64 KiB. `status` is the compiler's text for the result, used when the
// log has no error line.
std::string compile_error_message(const KernelSource& source, llvm::StringRef arch,
                                  const std::optional<LogError>& error, llvm::StringRef log,
                                  llvm::StringRef status);

// The same of NVRTC's log.
std::string compile_error_message(const KernelSource& source, llvm::StringRef arch,
                                  llvm::StringRef log, llvm::StringRef status);

}  // namespace catenary
