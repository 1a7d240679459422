// SPDX-License-Identifier: Apache-2.0
// How an engine uses packs, and the environment variables that say so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/pack/pack.h"

namespace catenary {

// What happens to a chain that no pack has.
enum class JitMode : u8 {
  kAuto,  // it is compiled
  kWarn,  // it is compiled, with one warning
  kOff,   // it is kPackMiss; no compiler is opened
};

struct LookupOptions {
  std::optional<JitMode> jit = std::nullopt;  // empty: CATENARY_JIT=auto|warn|off, else kAuto
  std::string trace;  // a file that gets a line for each chain; empty: CATENARY_TRACE, else none
  std::vector<std::shared_ptr<const Pack>> packs;  // of priority 0
  // One line per distinct problem. Empty: they go to the log.
  std::function<void(const std::string&)> warn;
};

// `options` with what they leave open from the environment, and, before their packs, those of
// CATENARY_PACK_PATH, files separated by colons. kInvalidArgument: CATENARY_JIT has another value.
// Errors of Pack::open().
Expected<LookupOptions> with_environment(LookupOptions options);

}  // namespace catenary
