// SPDX-License-Identifier: Apache-2.0
// A parallel loop over independent work items.
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "shared/int.h"

namespace catenary {

// Calls body(i) once for each i in [0, count), on up to `threads` threads (0: all cores), on fewer
// if the system has no more. An exception of a body (out of memory) ends the loop early and is
// rethrown here after every thread has stopped.
void parallel_for(i64 count, int threads, llvm::function_ref<void(i64)> body);

}  // namespace catenary
