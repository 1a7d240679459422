// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#if defined(__SANITIZE_ADDRESS__)
#include <cerrno>
#include <cstring>

// After a fault the simulator abandons its fibers and what their frames own (ARCHITECTURE.md). In
// tests that provoke faults this is not a leak.
extern "C" int __lsan_is_turned_off() {
  for (const char* name : {"sim_", "simulated_", "mutants_", "shim_", "pdl_"}) {
    if (std::strncmp(program_invocation_short_name, name, std::strlen(name)) == 0) return 1;
  }
  return 0;
}
#endif
