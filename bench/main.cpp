// SPDX-License-Identifier: Apache-2.0
// The benchmark without the other commands: `catenary_bench_main bench ...`.
#include <CLI/CLI.hpp>

#include "bench/bench_command.h"

int main(int argc, char** argv) {
  CLI::App app("Catenary's benchmark");
  app.require_subcommand(1);
  int code = 0;
  catenary::add_bench(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return code;
}
