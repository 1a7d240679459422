// SPDX-License-Identifier: Apache-2.0
#include "tools/chain_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "ir/names.h"
#include "ir/text/text.h"
#include "llvm/Support/FileSystem.h"

#include "tools/output.h"
#include "tools/terminal.h"

namespace catenary::tools {
namespace {

Error unreadable(const std::string& path, const char* reason) {
  return make_error(ErrorCode::kIo, "{} could not be read ({}): check the path and its permissions",
                    quoted(path), reason);
}

// One byte above the limit is enough for the parser to refuse the text.
Expected<std::string> read_all(const std::string& path, std::FILE* file) {
  std::string text(kMaxTextBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  if (std::ferror(file)) return unreadable(path, std::strerror(errno));
  return text;
}

bool is_about_the_chain(ErrorCode code) {
  return code == ErrorCode::kParse || code == ErrorCode::kInvalidChain ||
         code == ErrorCode::kUnsupported || code == ErrorCode::kResourceLimit;
}

llvm::json::Value error_json(const ErrorReport& report, const ChainFile* file) {
  llvm::json::Object object{{"code", error_code_name(report.code)},
                            {"message", json_string(report.message)},
                            {"exit_code", exit_code(report.code)}};
  if (file != nullptr) object["file"] = json_string(file->path);
  if (report.at.line > 0) {
    object["line"] = report.at.line;
    object["column"] = report.at.column;
  }
  return object;
}

void print_error(const std::string& text) { err("{}\n", colored_error(STDERR_FILENO, text)); }

}  // namespace

Expected<ChainFile> read_chain_file(const std::string& path) {
  if (path == "-") {
    Expected<std::string> text = read_all("standard input", stdin);
    if (!text) return text.takeError();
    return ChainFile{"<stdin>", std::move(*text)};
  }
  if (llvm::sys::fs::is_directory(path)) {
    return make_error(ErrorCode::kIo, "{} is a directory: give the path of a .chain file",
                      quoted(path));
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) return unreadable(path, std::strerror(errno));
  Expected<std::string> text = read_all(path, file.get());
  if (!text) return text.takeError();
  return ChainFile{path, std::move(*text), false};
}

Expected<VerifiedChain> verify_chain_file(const ChainFile& file) {
  Expected<Chain> chain = parse(file.text);
  if (!chain) return chain.takeError();
  chain->words.algebraic_norms |= file.algebraic_norms;
  return verify(std::move(*chain));
}

int report(Error error, const ChainFile* file) {
  if (!error) return 0;
  const ErrorReport report = take_report(std::move(error));
  if (uses_json()) json_result()["error"] = error_json(report, file);
  flush_stdout();
  if (file != nullptr && report.at.line > 0) {
    print_error(render_error(report, file->path, file->text));
  } else if (file != nullptr && is_about_the_chain(report.code)) {
    print_error(fmt::format("{}: error: {} [{}]", file->path, report.message,
                            error_code_name(report.code)));
  } else {
    print_error(
        fmt::format("catenary: error: {} [{}]", report.message, error_code_name(report.code)));
  }
  return exit_code(report.code);
}

int with_chain(const std::string& path, llvm::function_ref<Error(const VerifiedChain& chain)> body,
               bool algebraic_norms) {
  Expected<ChainFile> file = read_chain_file(path);
  if (!file) return report(file.takeError());
  file->algebraic_norms = algebraic_norms;
  Expected<VerifiedChain> chain = verify_chain_file(*file);
  if (!chain) return report(chain.takeError(), &*file);
  return report(body(*chain), &*file);
}

}  // namespace catenary::tools
