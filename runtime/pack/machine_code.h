// SPDX-License-Identifier: Apache-2.0
// What the header of an ELF file says that its code runs on, so that code of another GPU is found
// before the driver is asked.
#pragma once

#include <string>
#include <string_view>

#include "llvm/ADT/ArrayRef.h"
#include "shared/int.h"

namespace catenary {

// Empty, or why `image` cannot be machine code for `arch` ("sm_90a", "host:sm_90a"): "it is for
// sm_80". The suffix of an architecture is not in the header.
std::string machine_code_problem(llvm::ArrayRef<u8> image, std::string_view arch);

}  // namespace catenary
