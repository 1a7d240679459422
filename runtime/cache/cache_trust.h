// SPDX-License-Identifier: Apache-2.0
// Which users can change a folder or a file of the cache. A user who can write an entry can run
// code on the GPU, so only this user and root may be able to. Does not know what an entry holds.
#pragma once

#include <string>

#include "runtime/cache/file_system.h"

namespace catenary {

// Why a file with the properties `info` must not be used as an entry; empty: it may be used.
std::string file_problem(const struct stat& info);

// Why an open folder must not be used, by its owner and mode; empty: it may be used.
std::string folder_problem(FileSystem& files, int folder);

// The same for all ancestors of the open folder `folder` at `path`: a user who can write to one can
// replace `folder`. A sticky ancestor (/tmp) may be writable by others if this user owns `folder`
// and its mode is 0700.
std::string ancestor_problem(FileSystem& files, int folder, const std::string& path);

}  // namespace catenary
