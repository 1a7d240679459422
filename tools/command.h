// SPDX-License-Identifier: Apache-2.0
// The subcommands of `catenary`, one file each. Every function adds one; its callback does the
// work, prints, and sets `exit_code`: 0 success, 1 a check failed, 2 invalid input or usage, 3 a
// problem of the environment.
#pragma once

namespace CLI {
class App;
}

namespace catenary::tools {

void add_explain(CLI::App& app, int& exit_code);
void add_compile(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_gradient(CLI::App& app, int& exit_code);
void add_cache(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app);

}  // namespace catenary::tools
