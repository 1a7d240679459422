// SPDX-License-Identifier: Apache-2.0
// Who can change a folder or a file of the cache: reasons not to trust what lies there. Whoever can
// write an entry runs code on the GPU, so only the user and root may be able to. Knows nothing of
// entries.
#pragma once

#include <string>

#include "runtime/cache/file_system.h"

namespace catenary {

// Why the open file must not be used as an entry, by its `info`; empty: it may.
std::string file_problem(const struct stat& info);

// Why an open folder must not be used, by its owner and mode; empty: it may.
std::string folder_problem(FileSystem& files, int folder);

// The same for every folder above the open folder `folder`, which `path` names: whoever can write
// there can put another folder in its place. A sticky one (/tmp) may be writable by others, if
// `folder` itself is the user's own and 0700.
std::string ancestor_problem(FileSystem& files, int folder, const std::string& path);

}  // namespace catenary
