// SPDX-License-Identifier: Apache-2.0
// Who may change a folder, and where it is stored: for `catenary doctor`.
#pragma once

#include <string>

namespace catenary::tools {

// "mode 0700, owner alice (1000), ext4"; "not there yet"; or why it cannot be examined.
std::string folder_facts(const std::string& path);

}  // namespace catenary::tools
