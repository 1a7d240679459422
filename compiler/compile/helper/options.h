// SPDX-License-Identifier: Apache-2.0
// Whether and how NVRTC runs in a helper process.
#pragma once

#include <string>

#include "ir/error.h"

namespace catenary {

// Values are part of the C ABI (ctn_helper in catenary.h).
enum class HelperUse : u8 {
  kEnvironment = 0,  // as CATENARY_HELPER says, else kOff
  kOff = 1,          // NVRTC runs in this process
  kPreferred = 2,    // in this process, with a warning, where there is no helper
  kRequired = 3,     // where there is no helper, compiling is an error
};

inline constexpr i64 kDefaultHelperMemory = i64{4} << 30;
inline constexpr int kDefaultHelperSeconds = 300;
inline constexpr int kMaxHelperSeconds = 1'000'000;

struct HelperOptions {
  HelperUse use = HelperUse::kEnvironment;
  // Path of the program. Empty: CATENARY_HELPER if that is a path, else the one that is installed
  // with the library.
  std::string program;
  i64 memory_bytes = 0;  // of a helper's address space; 0: CATENARY_HELPER_MEMORY, else 4 GiB
  int seconds = 0;       // of one compile; 0: CATENARY_HELPER_SECONDS, else 300
  auto operator<=>(const HelperOptions&) const = default;
};

// The options, with the environment's values for those that are not set. kInvalidArgument names a
// variable whose value is not usable.
Expected<HelperOptions> with_environment(HelperOptions options);

// The helper program: that of `options`, else the one beside the library or the running command, or
// in the libexec folder of their installation. kNvrtcMissing names the places.
Expected<std::string> find_helper(const HelperOptions& options);

}  // namespace catenary
