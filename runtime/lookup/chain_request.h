// SPDX-License-Identifier: Apache-2.0
// What a program asks an engine for: a chain, a device, options. As one line of text it is a line
// of a trace and of a list of misses, from which packs are built.
#pragma once

#include <string>

#include "runtime/record/canonical.h"

namespace catenary {

struct ChainRequest {
  VerifiedChain chain;
  Target target;
  bool host = false;  // machine code of the simulator
  ChainOptions options;
  std::string canonical;
  KernelKey key;  // for target.arch

  // Of the machine code: "sm_90a", "host:sm_90a".
  std::string arch() const;
};

ChainRequest make_request(VerifiedChain chain, Target target, bool host, ChainOptions options);

// The architectures whose machine code runs on the request's device, the best first: its own, then
// older ones without a suffix of the same generation.
std::vector<std::string> archs_for(const ChainRequest& request);

// One JSON object without a line end.
std::string request_line(const ChainRequest& request);

// kParse: the sentence begins with "it", for a caller that names file and line. Errors of the chain
// are those of parse() and verify().
Expected<ChainRequest> parse_request_line(llvm::StringRef line);

}  // namespace catenary
