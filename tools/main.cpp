// SPDX-License-Identifier: Apache-2.0
// The `catenary` command: argv -> a subcommand -> an exit code. Every error is one sentence on
// stderr.
#include <CLI/CLI.hpp>

#include "ir/error.h"
#include "ir/names.h"
#include "ir/out_of_memory.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/usage.h"
#ifdef CATENARY_WITH_BENCH
#include "bench/bench_command.h"
#endif

namespace catenary::tools {
namespace {

void add_commands(CLI::App& app, int& exit_code) {
  add_explain(app, exit_code);
  add_compile(app, exit_code);
  add_run(app, exit_code);
  add_check(app, exit_code);
#ifdef CATENARY_WITH_BENCH
  add_bench(app, exit_code, [](Error error) { return report(std::move(error)); });
#endif
  add_tune(app, exit_code);
  add_cache(app, exit_code);
  add_doctor(app, exit_code);
  add_help(app);
}

int run_command(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app("Catenary compiles chains of linear layers to fused CUDA kernels.", "catenary");
  app.set_version_flag("-V,--version", "catenary " CATENARY_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(30);
  add_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return report(usage_error(app, error));
    write_stdout(information(app, error));  // --help, --version
  }
  return std::max(exit_code, report(finish_output()));
}

}  // namespace
}  // namespace catenary::tools

int main(int argc, char** argv) {
  using namespace catenary;
  throw_when_out_of_memory();
  tools::open_standard_streams();
  try {
    return tools::run_command(argc, argv);
  } catch (const std::bad_alloc&) {
    return tools::report(make_error(ErrorCode::kOutOfMemory,
                                    "this machine has not enough memory: make the chain's "
                                    "tensors smaller"));
  } catch (const std::exception& exception) {
    return tools::report(make_error(ErrorCode::kInternal, "{}", exception.what()));
  }
}
