// SPDX-License-Identifier: Apache-2.0
// The `catenary` command: argv -> a subcommand -> an exit code. Every error is one sentence on
// stderr.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>

#include "ir/error.h"
#include "ir/names.h"
#include "ir/out_of_memory.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/usage.h"
#ifdef CATENARY_WITH_BENCH
#include "bench/bench_command.h"
#endif

namespace catenary::tools {
namespace {

#ifdef CATENARY_WITH_BENCH
// Results are shown at once, since a run takes long and can be cut short. `progress` is that of the
// stage.
BenchOutput bench_output(std::optional<Progress>& progress) {
  BenchOutput output;
  output.report = [](Error error) { return report(std::move(error)); };
  output.show = [](const std::string& text) {
    out("{}", text);
    if (!uses_json()) flush_stdout();
  };
  output.result = [](llvm::json::Value result) {
    json_result() = std::move(*result.getAsObject());
  };
  output.note = [](const std::string& line) { err("{}\n", line); };
  output.step = [&progress](const std::string& what, i64 done, i64 all) {
    if (done == 0) progress.emplace(what, all);
    progress->set_what(what);
    progress->set(done, all);
  };
  return output;
}
#endif

void add_commands(CLI::App& app, int& exit_code, std::optional<Progress>& progress) {
  add_explain(app, exit_code);
  add_compile(app, exit_code);
  add_run(app, exit_code);
  add_check(app, exit_code);
  add_gradient(app, exit_code);
#ifdef CATENARY_WITH_BENCH
  add_bench(app, exit_code, bench_output(progress));
  add_output_options(*app.get_subcommand("bench"));
#endif
  add_tune(app, exit_code);
  add_cache(app, exit_code);
  add_pack(app, exit_code);
  add_doctor(app, exit_code);
  add_completion(app);
  add_help(app);
  refuse_empty_values(app);
}

int run_command(int argc, char** argv) {
  if (std::any_of(argv + 1, argv + argc,
                  [](const char* word) { return std::string_view(word) == "--json"; })) {
    use_json();
  }
  int exit_code = 0;
  CLI::App app("Catenary compiles chains of linear layers to fused CUDA kernels.", "catenary");
  app.set_version_flag("-V,--version", "catenary " CATENARY_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(30);
  std::optional<Progress> progress;  // of bench
  add_commands(app, exit_code, progress);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      exit_code = report(usage_error(app, error));
    } else {
      write_stdout(information(app, error));  // --help, --version
    }
  }
  progress.reset();
  // Not report(): with --json its error would be part of what could not be written.
  Error lost = finish_output();
  return lost ? std::max(exit_code, report(std::move(lost))) : exit_code;
}

constexpr char kNoMemory[] = "this machine has not enough memory: make the chain's tensors smaller";

// Where there is no memory for the sentence either. Nothing here allocates.
void say_out_of_memory() {
  for (const char* part : {"catenary: error: ", kNoMemory, " [out_of_memory]\n"}) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, part, std::strlen(part));
  }
}

// Where an exception cannot be passed on, such as out of a fiber of the simulator.
[[noreturn]] void say_why_and_end() {
  try {
    if (std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    say_out_of_memory();
    ::_exit(exit_code(ErrorCode::kOutOfMemory));
  } catch (...) {
  }
  std::abort();
}

// An error that no subcommand has handled.
int last_words(ErrorCode code, const char* message) noexcept {
  bool said = false;
  try {
    report(make_error(code, "{}", message));
    said = true;
    llvm::consumeError(finish_output());
  } catch (...) {
    if (!said) say_out_of_memory();
  }
  return exit_code(code);
}

}  // namespace
}  // namespace catenary::tools

int main(int argc, char** argv) {
  using namespace catenary;
  throw_when_out_of_memory();
  std::set_terminate(tools::say_why_and_end);
  tools::open_standard_streams();
  try {
    return tools::run_command(argc, argv);
  } catch (const std::bad_alloc&) {
    return tools::last_words(ErrorCode::kOutOfMemory, tools::kNoMemory);
  } catch (const std::exception& exception) {
    return tools::last_words(ErrorCode::kInternal, exception.what());
  }
}
