// SPDX-License-Identifier: Apache-2.0
#include "ir/error.h"

#include "llvm/Support/raw_ostream.h"

namespace catenary {

char ChainError::ID = 0;

void ChainError::log(llvm::raw_ostream& os) const {
  if (line_ > 0) os << line_ << ":" << column_ << ": ";
  os << message_;
}

std::error_code ChainError::convertToErrorCode() const { return llvm::inconvertibleErrorCode(); }

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return "ok";
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kParse:
      return "parse";
    case ErrorCode::kInvalidChain:
      return "invalid_chain";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kResourceLimit:
      return "resource_limit";
    case ErrorCode::kCompileFailed:
      return "compile_failed";
    case ErrorCode::kNvrtcMissing:
      return "nvrtc_missing";
    case ErrorCode::kDriverMissing:
      return "driver_missing";
    case ErrorCode::kArchMismatch:
      return "arch_mismatch";
    case ErrorCode::kCacheIo:
      return "cache_io";
    case ErrorCode::kCorruptArtifact:
      return "corrupt_artifact";
    case ErrorCode::kNotWarmedCapture:
      return "not_warmed_capture";
    case ErrorCode::kContextPoisoned:
      return "context_poisoned";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kMismatch:
      return "mismatch";
    case ErrorCode::kDriver:
      return "driver";
    case ErrorCode::kSimulatorFault:
      return "simulator_fault";
    case ErrorCode::kHostCompilerMissing:
      return "host_compiler_missing";
    case ErrorCode::kKernelRejected:
      return "kernel_rejected";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return 0;
    case ErrorCode::kMismatch:
    case ErrorCode::kSimulatorFault:
      return 1;
    case ErrorCode::kHostCompilerMissing:
    case ErrorCode::kNvrtcMissing:
    case ErrorCode::kDriverMissing:
    case ErrorCode::kArchMismatch:
    case ErrorCode::kContextPoisoned:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kDriver:
    case ErrorCode::kInternal:
      return 3;
    default:
      return 2;
  }
}

Error make_error_text(ErrorCode code, std::string message, Location at) {
  return llvm::make_error<ChainError>(code, std::move(message), at.line, at.column);
}

ErrorReport take_report(Error error) {
  ErrorReport report;
  llvm::handleAllErrors(
      std::move(error),
      [&](const ChainError& e) {
        report = {e.code(), e.message(), {e.line(), e.column()}};
      },
      [&](const llvm::ErrorInfoBase& e) {
        report = {ErrorCode::kInternal, e.message(), {}};
      });
  return report;
}

}  // namespace catenary
