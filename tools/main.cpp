// SPDX-License-Identifier: Apache-2.0
// The `catenary` command: argv -> a subcommand -> an exit code. Every error is one sentence on
// stderr.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "ir/error.h"
#include "ir/names.h"
#include "ir/out_of_memory.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#ifdef CATENARY_WITH_BENCH
#include "bench/bench_command.h"
#endif

namespace catenary::tools {
namespace {

// For an unknown word CLI11 would only say that a subcommand is missing.
Error unknown_subcommand(const std::string& word, llvm::ArrayRef<std::string_view> names) {
  return make_error(ErrorCode::kInvalidArgument, "{} is not a subcommand{}: use one of {}",
                    catenary::quoted(word), suggestion(word, names), fmt::join(names, ", "));
}

std::vector<std::string_view> subcommand_names(const CLI::App& app) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

int run_command(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app("Catenary compiles chains of linear layers to fused CUDA kernels.", "catenary");
  app.set_version_flag("--version", "catenary " CATENARY_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(30);
  add_explain(app, exit_code);
  add_compile(app, exit_code);
  add_run(app, exit_code);
  add_check(app, exit_code);
#ifdef CATENARY_WITH_BENCH
  add_bench(app, exit_code);
#endif
  add_tune(app, exit_code);
  add_cache(app, exit_code);
  add_doctor(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const auto names = subcommand_names(app);
    if (argc > 1 && argv[1][0] != '-' && !llvm::is_contained(names, argv[1])) {
      return report(unknown_subcommand(argv[1], names));
    }
    return report(
        make_error(ErrorCode::kInvalidArgument, "{}; see `catenary --help`", error.what()));
  }
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return exit_code;
  return std::max(exit_code, report(make_error(ErrorCode::kIo,
                                               "standard output could not be written: check its "
                                               "target and the free space")));
}

}  // namespace
}  // namespace catenary::tools

int main(int argc, char** argv) {
  using namespace catenary;
  throw_when_out_of_memory();
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
