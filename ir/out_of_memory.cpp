// SPDX-License-Identifier: Apache-2.0
#include "ir/out_of_memory.h"

#include <new>

#include "llvm/Support/ErrorHandling.h"

namespace catenary {

void throw_when_out_of_memory() {
  [[maybe_unused]] static const bool installed = [] {
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { throw std::bad_alloc(); });
    return true;
  }();
}

}  // namespace catenary
