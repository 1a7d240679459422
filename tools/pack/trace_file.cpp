// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/trace_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>

#include "ir/names.h"
#include "llvm/Support/FileSystem.h"
#include "runtime/pack/entry.h"

namespace catenary::tools {
namespace {

constexpr size_t kMaxTraceBytes = size_t{1} << 30;

Error unreadable(const std::string& path, const char* reason) {
  return make_error(ErrorCode::kIo, "cannot read {}: {}", quoted(path), reason);
}

Expected<std::string> read_file(const std::string& path) {
  if (llvm::sys::fs::is_directory(path)) return unreadable(path, "it is a folder");
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> owner(nullptr, &std::fclose);
  std::FILE* file = stdin;
  if (path != "-") {
    owner.reset(std::fopen(path.c_str(), "rb"));
    if (!owner) return unreadable(path, std::strerror(errno));
    file = owner.get();
  }
  std::string text;
  char buffer[1 << 16];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, got);
    if (text.size() > kMaxTraceBytes) return unreadable(path, "it has more than 1 GiB");
  }
  if (std::ferror(file) != 0) return unreadable(path, std::strerror(errno));
  return text;
}

}  // namespace

Expected<std::vector<ChainRequest>> read_trace(const std::string& path) {
  Expected<std::string> text = read_file(path);
  if (!text) return text.takeError();
  std::vector<ChainRequest> requests;
  llvm::StringRef rest = *text;
  for (int number = 1; !rest.empty(); ++number) {
    const auto [line, after] = rest.split('\n');
    rest = after;
    if (line.trim().empty()) continue;
    Expected<ChainRequest> request = parse_request_line(line);
    if (!request) {
      const ErrorReport report = take_report(request.takeError());
      return make_error(report.code, "line {} of {} cannot be used: {}", number, quoted(path),
                        report.message);
    }
    requests.push_back(std::move(*request));
  }
  remove_duplicates(requests);
  return requests;
}

void remove_duplicates(std::vector<ChainRequest>& requests) {
  std::set<std::pair<KernelKey, u64>> seen;
  llvm::erase_if(requests, [&](const ChainRequest& request) {
    return !seen.insert({request.key, fit_of(request.target)}).second;
  });
}

}  // namespace catenary::tools
