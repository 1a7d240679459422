// SPDX-License-Identifier: Apache-2.0
// A thread's last error. Recording that memory ran out allocates nothing: a thread_local object
// would need memory at its first use in a thread, and without it the C library ends the process.
#pragma once

#include "ir/error.h"

namespace catenary::c_api {

struct LastError {
  std::string message;
  Location at;
};

// The calling thread's; never null.
const LastError* last_error() noexcept;

// False: there is no memory for it, and the last error did not change.
bool set_last_error(std::string message, Location at) noexcept;

void set_out_of_memory() noexcept;

}  // namespace catenary::c_api
