// SPDX-License-Identifier: Apache-2.0
// A parallel loop over independent pieces of work.
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "shared/int.h"

namespace catenary {

// Calls body(i) once for each i in [0, count), on up to `threads` threads (0: all cores). Falls
// back to fewer threads where the system gives no more. What a body throws (memory ran out) ends
// the loop early and is thrown again here, once every thread has stopped.
void parallel_for(i64 count, int threads, llvm::function_ref<void(i64)> body);

}  // namespace catenary
