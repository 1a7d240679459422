// SPDX-License-Identifier: Apache-2.0
// Where temporary files go.
#pragma once

#include <string>

namespace catenary {

// TMPDIR, TMP, TEMP or TEMPDIR, the first that is set, else /tmp; a process with more rights than
// its user (setuid) ignores all of them. Absolute where the folder exists: a relative path may
// begin with '-', which programs take for an option.
std::string temporary_folder();

}  // namespace catenary
