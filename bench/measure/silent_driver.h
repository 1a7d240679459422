// SPDX-License-Identifier: Apache-2.0
// A driver that does nothing: it has one device of a given kind, and every call that loading a
// chain makes succeeds at once. What a load takes with it is our own part of the time.
#pragma once

#include "runtime/driver/api.h"

namespace catenary::bench {

// The table for cuda::ScopedDriver::over(). One target at a time.
cuda::Api silent_driver(const Target& target);

}  // namespace catenary::bench
