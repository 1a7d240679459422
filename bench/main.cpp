// SPDX-License-Identifier: Apache-2.0
// The benchmark without the other commands: `catenary_bench_main bench ...`.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/bench_command.h"

namespace {

int report(catenary::Error error) {
  const catenary::ErrorReport report = catenary::take_report(std::move(error));
  std::fprintf(stderr, "catenary: error: %s [%s]\n", report.message.c_str(),
               catenary::error_code_name(report.code));
  return catenary::exit_code(report.code);
}

void show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void note(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Catenary's benchmark");
  app.require_subcommand(1);
  int code = 0;
  catenary::add_bench(app, code,
                      {report, show, [](llvm::json::Value) {}, note,
                       [](const std::string& what, long long done, long long all) {
                         if (done == 0) note(all > 0 ? what + ", of " + std::to_string(all) : what);
                       }});
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return code;
}
