// SPDX-License-Identifier: Apache-2.0
// A file of requests: what CATENARY_TRACE wrote, or a list of misses.
#pragma once

#include <string>
#include <vector>

#include "runtime/lookup/chain_request.h"

namespace catenary::tools {

// The requests of `path` ("-": standard input) in order, each once; empty lines do not count. kIo;
// errors of a line name file and line.
Expected<std::vector<ChainRequest>> read_trace(const std::string& path);

// Removes requests that come again: the same chain, architecture, options and GPU.
void remove_duplicates(std::vector<ChainRequest>& requests);

}  // namespace catenary::tools
