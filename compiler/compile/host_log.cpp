// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/host_log.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace catenary {
namespace {

// Words of GCC, clang and ld; the sources of kernels have none of them.
constexpr llvm::StringLiteral kOutOfMemory[] = {
    ": out of memory allocating ",      "virtual memory exhausted",
    "LLVM ERROR: out of memory",        "memory exhausted",
    "Killed signal terminated program", "std::bad_alloc"};

struct ErrorLine {
  llvm::StringRef place;
  llvm::StringRef text;
};

std::optional<ErrorLine> split_error(llvm::StringRef line) {
  for (llvm::StringRef mark : {": error: ", ": fatal error: ", ": internal compiler error: "}) {
    const size_t at = line.find(mark);
    if (at != llvm::StringRef::npos) {
      return ErrorLine{line.take_front(at), line.drop_front(at + mark.size()).trim()};
    }
  }
  const size_t at = line.find("undefined reference to ");
  if (at != llvm::StringRef::npos) return ErrorLine{"", line.drop_front(at).trim()};
  return std::nullopt;
}

// Splits "file:12:5" or "file:12".
bool parse_device(llvm::StringRef place, std::string& file, int& line) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  place.split(parts, ':');
  if (parts.size() < 2 || parts[1].getAsInteger(10, line) || line < 1) return false;
  file = parts[0].str();
  return true;
}

// The line of the emitted source that `line` of the log speaks of, or 0.
int emitted_line(llvm::StringRef line, llvm::StringRef program) {
  std::string file;
  int number = 0;
  return parse_device(line, file, number) && file == program ? number : 0;
}

}  // namespace

bool says_host_out_of_memory(llvm::StringRef log) {
  return llvm::any_of(kOutOfMemory, [&](llvm::StringRef words) { return log.contains(words); });
}

std::optional<LogError> first_host_error(llvm::StringRef log, llvm::StringRef symbol) {
  const std::string program = symbol.str() + ".cu";
  llvm::SmallVector<llvm::StringRef> lines;
  log.split(lines, '\n');
  int used_from = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::optional<ErrorLine> found = split_error(lines[i]);
    if (!found) {
      // g++ says where an instantiation comes from before what is wrong in it.
      if (const int line = emitted_line(lines[i], program)) used_from = line;
      continue;
    }
    LogError error;
    error.text = found->text.str();
    if (!parse_device(found->place, error.file, error.line)) {
      error.file.clear();
      error.line = 0;
      return error;
    }
    error.emitted_line = error.file == program ? error.line : used_from;
    // clang++ says it after, nearest to the emitted source last.
    for (size_t j = i + 1; j < lines.size() && error.file != program; ++j) {
      if (split_error(lines[j])) break;
      if (const int line = emitted_line(lines[j], program)) error.emitted_line = line;
    }
    return error;
  }
  return std::nullopt;
}

}  // namespace catenary
