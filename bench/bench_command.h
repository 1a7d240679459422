// SPDX-License-Identifier: Apache-2.0
// The `catenary bench` subcommand.
#pragma once

#include <functional>

#include "ir/error.h"

namespace CLI {
class App;
}

namespace catenary {

// Adds `bench` to `app`. Its callback sets `exit_code`: 0 done, 1 a result is wrong, 2 bad use,
// 3 environment. `report` prints an error and returns its exit code.
void add_bench(CLI::App& app, int& exit_code, std::function<int(Error)> report);

}  // namespace catenary
