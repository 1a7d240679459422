// SPDX-License-Identifier: Apache-2.0
// The log of g++ or clang++ -> its first error. Pure text work: knows no compiler and no options.
#pragma once

#include <optional>

#include "compiler/compile/nvrtc_log.h"
#include "llvm/ADT/StringRef.h"

namespace catenary {

// As first_log_error of nvrtc_log.h, for the forms of g++ and clang++:
//   k.cu:12:5: error: text     In file included from ...     k.cu:3:1:   required from here
//   k.cu:12:5: note: in instantiation of ...  requested here
//   ld: ...: undefined reference to `f'                        collect2: error: text
std::optional<LogError> first_host_error(llvm::StringRef log, llvm::StringRef symbol);

// Did a program of the compiler run out of memory, or was it killed for it? The source may compile
// later.
bool says_host_out_of_memory(llvm::StringRef log);

}  // namespace catenary
