// SPDX-License-Identifier: Apache-2.0
// Arguments of a test that doctest does not know.
#pragma once

#include <string>

#include "shared/int.h"

namespace catenary::test {

// The value of `--name=<number>` among this process's arguments. doctest passes over it.
u64 argument(const std::string& name, u64 usual);

}  // namespace catenary::test
