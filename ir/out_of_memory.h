// SPDX-License-Identifier: Apache-2.0
// What LLVM's containers do when memory runs out.
#pragma once

namespace catenary {

// From the first call on, an LLVM container that gets no memory throws std::bad_alloc like the
// containers of the standard library. Without it LLVM ends the process. Thread-safe; allocates
// nothing. Only this library's own copy of LLVM is changed.
void throw_when_out_of_memory();

}  // namespace catenary
