// SPDX-License-Identifier: Apache-2.0
// The error class. Every error of the library is created in make_error (one breakpoint catches all)
// and has a code, one sentence (value, rule, fix) and, for text input, a position.
//
// Text in a message may be the user's: make_error shows every argument that is text escaped and
// cut, and every message is cut (message_text).
//
// Two kinds: the user's (every code but kInternal) and ours (kInternal; a test that gets one
// fails). Fallible functions return llvm::Expected<T>; nothing throws across a public boundary.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "llvm/Support/Error.h"
#include "shared/int.h"

namespace catenary {

template <typename T>
using Expected = llvm::Expected<T>;
using llvm::Error;

// Values are part of the C ABI (ctn_status in catenary.h): append only.
enum class ErrorCode : int {
  kOk = 0,
  kInvalidArgument = 1,    // an API argument or a launch argument is wrong
  kParse = 2,              // the text is not a chain
  kInvalidChain = 3,       // the chain breaks a rule of the IR
  kUnsupported = 4,        // the chain is valid, but no kernel family supports it on this target
  kResourceLimit = 5,      // a limit of the IR or of the target is exceeded
  kCompileFailed = 6,      // NVRTC or ptxas rejected the emitted source
  kNvrtcMissing = 7,       // no usable NVRTC
  kDriverMissing = 8,      // no usable CUDA driver or no device
  kArchMismatch = 9,       // the machine code is for another GPU
  kCacheIo = 10,           // the cache directory could not be used; never fatal for a compile
  kCorruptArtifact = 11,   // a cache entry or file failed its check
  kNotWarmedCapture = 12,  // a compile or load was requested during stream capture
  kContextPoisoned = 13,   // an earlier kernel left a sticky device error
  kOutOfMemory = 14,
  kIo = 15,                   // a user's file could not be read or written
  kMismatch = 16,             // a check found a wrong result
  kDriver = 17,               // the driver rejected a call for another reason
  kSimulatorFault = 18,       // a kernel in the simulator broke a rule of the hardware
  kHostCompilerMissing = 19,  // no usable C++ compiler for the simulator
  kKernelRejected = 20,       // ptxas spilled registers or serialised wgmma: another plan may not
  kPackMiss = 21,             // compiling is off, and no pack has the chain
  kInternal = 99,             // a broken invariant of this library
};

// Stable lower-case name, for messages and JSON ("invalid_argument").
const char* error_code_name(ErrorCode code);

// Exit code of the command: 0 done, 1 check failed, 2 bad input or use, 3 environment.
int exit_code(ErrorCode code);

class ChainError : public llvm::ErrorInfo<ChainError> {
 public:
  static char ID;
  ChainError(ErrorCode code, std::string message, int line, int column)
      : code_(code), message_(std::move(message)), line_(line), column_(column) {}

  void log(llvm::raw_ostream& os) const override;
  std::error_code convertToErrorCode() const override;

  ErrorCode code() const { return code_; }
  std::string message() const override { return message_; }
  int line() const { return line_; }      // 1-based; 0: no position
  int column() const { return column_; }  // 1-based

 private:
  ErrorCode code_;
  std::string message_;
  int line_;
  int column_;
};

// A position in text input; line 0: none.
struct Location {
  int line = 0;
  int column = 0;
};

// An error with a message that is already made; may have several lines, such as a compiler's log.
Error make_error_text(ErrorCode code, std::string message, Location at = {});

// `text` as a message or a line of a terminal shows it: on one line, control characters and bytes
// that are no UTF-8 as \xNN, cut after `most` bytes. Text without any of these is unchanged.
std::string message_text(std::string_view text, size_t most = 1024);

// An argument of a message: text by message_text(), anything else as it is.
template <typename T>
decltype(auto) message_argument(const T& argument) {
  if constexpr (std::is_same_v<T, char>) {
    return message_text({&argument, 1});
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return message_text(argument);
  } else {
    return (argument);
  }
}

// The format's text with message_argument() of each argument.
template <typename... Args>
std::string message_format(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::vformat(format, fmt::make_format_args(message_argument(args)...));
}

template <typename... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return make_error_text(code, message_format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Error make_error_at(Location at, ErrorCode code, fmt::format_string<Args...> format,
                    Args&&... args) {
  return make_error_text(code, message_format(format, std::forward<Args>(args)...), at);
}

// The contents of an Error (an unknown class becomes kInternal).
struct ErrorReport {
  ErrorCode code = ErrorCode::kOk;
  std::string message;
  Location at;
};
ErrorReport take_report(Error error);

}  // namespace catenary
