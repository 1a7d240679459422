// SPDX-License-Identifier: Apache-2.0
// The commit that the build was made from, for records. Generated anew on every build.
#pragma once

namespace catenary::bench {

// "1a2b3c4d5e6f", with "-dirty" behind it where the tree had changes; "unknown" without git.
const char* build_commit();

}  // namespace catenary::bench
