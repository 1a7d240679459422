// SPDX-License-Identifier: Apache-2.0
// Reading of the log, line by line. Forms seen in NVRTC 13.0, the only one whose text was looked
// at:
//   k.cu(12): error: text              ptxas error   : text          nvrtc: error: text
//   k.cu(12): catastrophic error: text  ptxas file, line 3; error   : text
//   At end of source: error: text      detected during instantiation of "f" at line 12 of k.cu
#include "compiler/compile/nvrtc_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace catenary {
namespace {

constexpr size_t kMaxLogBytes = 64 << 10;
// Words of NVRTC, ptxas and LLVM, in any case.
constexpr llvm::StringLiteral kOutOfMemory[] = {"out of memory", "memory allocation fail",
                                                "failed to allocate memory", "bad_alloc"};

llvm::SmallVector<llvm::StringRef> lines_of(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  return lines;
}

// The number that ends right before `unit`: "3428 bytes spill stores" with " bytes spill stores".
int number_before(llvm::StringRef line, llvm::StringRef unit) {
  const size_t end = line.find(unit);
  if (end == llvm::StringRef::npos) return 0;
  const llvm::StringRef head = line.take_front(end);
  int value = 0;
  if (head.take_back(head.size() - (head.find_last_not_of("0123456789") + 1))
          .getAsInteger(10, value)) {
    return 0;
  }
  return value;
}

bool has_c75_code(llvm::StringRef line) {
  const size_t at = line.find("C75");
  return at != llvm::StringRef::npos && line.size() >= at + 5 && llvm::isDigit(line[at + 3]) &&
         llvm::isDigit(line[at + 4]);
}

// Splits "file(12)" into its parts.
bool parse_device(llvm::StringRef place, std::string& file, int& number) {
  const size_t open = place.rfind('(');
  if (open == llvm::StringRef::npos || !place.endswith(")")) return false;
  if (place.slice(open + 1, place.size() - 1).getAsInteger(10, number)) return false;
  file = place.take_front(open).str();
  return true;
}

// The line of the emitted source that an "... at line 12 of k.cu" or "at line 12" line names.
int instantiation_line(llvm::StringRef line, llvm::StringRef program, bool in_program) {
  const size_t at = line.rfind(" at line ");
  if (at == llvm::StringRef::npos) return 0;
  llvm::StringRef rest = line.drop_front(at + 9);
  int number = 0;
  if (rest.consumeInteger(10, number)) return 0;
  rest = rest.trim();
  const bool names_program = rest.consume_front("of ") && rest.trim("\"") == program;
  return names_program || (rest.empty() && in_program) ? number : 0;
}

// The word "error" with its separator, in every form of the head comment.
bool split_error_line(llvm::StringRef line, llvm::StringRef& place, llvm::StringRef& text) {
  for (llvm::StringRef mark : {": error: ", ": catastrophic error: ", ": internal error: ",
                               "error   : ", "fatal   : ", ": error #"}) {
    const size_t at = line.find(mark);
    if (at == llvm::StringRef::npos) continue;
    place = line.take_front(at).rtrim(" ;");
    text = line.drop_front(at + mark.size()).trim();
    return true;
  }
  return false;
}

}  // namespace

PtxasReport parse_ptxas_log(llvm::StringRef log, llvm::StringRef symbol) {
  PtxasReport report;
  KernelResources& out = report.resources;
  const std::string entry = fmt::format("Compiling entry function '{}'", symbol.str());
  for (llvm::StringRef line : lines_of(log)) {
    report.entry_found |= line.contains(entry);
    if (report.warning.empty() && has_c75_code(line)) report.warning = line.trim().str();
    if (!line.startswith("ptxas")) continue;
    out.spill_bytes += number_before(line, " bytes spill stores");
    out.spill_bytes += number_before(line, " bytes spill loads");
    out.stack_bytes = std::max({out.stack_bytes, number_before(line, " bytes stack frame"),
                                number_before(line, " bytes cumulative stack size")});
    if (line.contains(": Used ")) {
      out.registers = std::max(out.registers, number_before(line, " registers"));
      out.static_smem_bytes = std::max(out.static_smem_bytes, number_before(line, " bytes smem"));
    }
  }
  return report;
}

std::optional<LogError> first_log_error(llvm::StringRef log, llvm::StringRef symbol) {
  const std::string program = symbol.str() + ".cu";
  const auto lines = lines_of(log);
  for (size_t i = 0; i < lines.size(); ++i) {
    llvm::StringRef place, text;
    if (!split_error_line(lines[i], place, text)) continue;
    LogError error;
    error.text = text.str();
    const bool has_place = parse_device(place, error.file, error.line);
    if (has_place && error.file == program) error.emitted_line = error.line;
    if (!has_place) return error;
    // Deeper instantiations come first; the last of them stands nearest to the emitted source.
    for (size_t j = i + 1; j < lines.size(); ++j) {
      llvm::StringRef other_place, other_text;
      if (split_error_line(lines[j], other_place, other_text)) break;
      const int used = instantiation_line(lines[j], program, error.file == program);
      if (used > 0) error.emitted_line = used;
    }
    return error;
  }
  return std::nullopt;
}

bool says_out_of_memory(llvm::StringRef log) {
  return llvm::any_of(lines_of(log), [](llvm::StringRef line) {
    llvm::StringRef place, text;
    const bool error = split_error_line(line, place, text) || line.contains("LLVM ERROR");
    return error && llvm::any_of(kOutOfMemory, [&](llvm::StringRef words) {
             return line.contains_insensitive(words);
           });
  });
}

std::string value_of_line(llvm::StringRef body, int line) {
  const auto lines = lines_of(body);
  if (line < 1 || static_cast<size_t>(line) > lines.size()) return "";
  const llvm::StringRef text = lines[line - 1];
  const size_t at = text.rfind("// %");
  if (at == llvm::StringRef::npos) return "";
  const llvm::StringRef comment = text.drop_front(at + 3);
  const size_t end = comment.find_first_of(" =");
  if (end == llvm::StringRef::npos || !comment.drop_front(end).ltrim().startswith("=")) return "";
  return comment.take_front(end).str();
}

std::string compile_error_message(const KernelSource& source, llvm::StringRef arch,
                                  llvm::StringRef log, llvm::StringRef status) {
  return compile_error_message(source, arch, first_log_error(log, source.symbol), log, status);
}

std::string compile_error_message(const KernelSource& source, llvm::StringRef arch,
                                  const std::optional<LogError>& error, llvm::StringRef log,
                                  llvm::StringRef status) {
  std::string message =
      fmt::format("kernel {} does not compile for {}: ", source.symbol, arch.str());
  if (!error) {
    message += status.str();
  } else {
    if (error->line > 0) message += fmt::format("{}({}): ", error->file, error->line);
    const std::string value = value_of_line(source.body, error->emitted_line);
    if (!value.empty()) message += fmt::format("value {}: ", value);
    message += error->text;
  }
  log = log.trim();
  if (!log.empty()) message += fmt::format("\n{}", log.take_front(kMaxLogBytes).str());
  if (log.size() > kMaxLogBytes) {
    message += fmt::format("\n({} more bytes of log)", log.size() - kMaxLogBytes);
  }
  return message;
}

}  // namespace catenary
