// SPDX-License-Identifier: Apache-2.0
#include "ir/error.h"

#include <algorithm>

#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/raw_ostream.h"

namespace catenary {
namespace {

constexpr size_t kMessageBytes = 128 << 10;  // a log of a compiler has up to 64 KiB

bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }

// Characters that a terminal obeys or that change the order of others: C1 controls, line and
// paragraph separators, marks of the writing direction.
bool is_control_sequence(std::string_view utf8) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(utf8[i]); };
  if (utf8.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (utf8.size() != 3 || byte(0) != 0xe2) return false;
  if (byte(1) == 0x80) return (byte(2) & 0xfe) == 0x8e || (byte(2) >= 0xa8 && byte(2) <= 0xae);
  return byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
}

// The bytes of the UTF-8 character at the front of `text`; 0: it is none.
size_t utf8_bytes(std::string_view text) {
  const auto* begin = reinterpret_cast<const llvm::UTF8*>(text.data());
  const size_t bytes = llvm::getNumBytesForUTF8(*begin);
  if (bytes > text.size() || !llvm::isLegalUTF8Sequence(begin, begin + bytes)) return 0;
  return is_control_sequence(text.substr(0, bytes)) ? 0 : bytes;
}

// `text` cut after `most` bytes; `lines`: line ends and tabs are kept.
std::string shown_text(std::string_view text, size_t most, bool lines) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool keep = lines && (text[i] == '\n' || text[i] == '\t');
    const size_t bytes = keep ? 1 : is_control(text[i]) ? 0 : utf8_bytes(text.substr(i, 4));
    const std::string part = bytes > 0
                                 ? std::string(text.substr(i, bytes))
                                 : fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    if (out.size() + part.size() > most) return out + "...";
    out += part;
    i += std::max<size_t>(bytes, 1);
  }
  return out;
}

}  // namespace

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
    case ErrorCode::kPackMiss:
      return "pack_miss";
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
    case ErrorCode::kPackMiss:
    case ErrorCode::kInternal:
      return 3;
    default:
      return 2;
  }
}

std::string message_text(std::string_view text, size_t most) {
  return shown_text(text, most, /*lines=*/false);
}

Error make_error_text(ErrorCode code, std::string message, Location at) {
  return llvm::make_error<ChainError>(code, shown_text(message, kMessageBytes, /*lines=*/true),
                                      at.line, at.column);
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
