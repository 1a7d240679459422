// SPDX-License-Identifier: Apache-2.0
// What LLVM's containers do when memory runs out.
#pragma once

namespace catenary {

// From the first call on, a container of LLVM that gets no memory throws std::bad_alloc, as those
// of the standard library do, instead of ending the process. Thread-safe; allocates nothing.
// Concerns this library's own copy of LLVM only.
void throw_when_out_of_memory();

}  // namespace catenary
