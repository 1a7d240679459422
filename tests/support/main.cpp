// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#if defined(__SANITIZE_ADDRESS__)
#include <cerrno>
#include <cstring>

// A fault in the simulator abandons fibers with what their frames own (ARCHITECTURE.md): in tests
// that provoke faults that is no leak.
extern "C" int __lsan_is_turned_off() {
  for (const char* name : {"sim_", "simulated_", "mutants_", "twin_", "launch_edges_"}) {
    if (std::strncmp(program_invocation_short_name, name, std::strlen(name)) == 0) return 1;
  }
  return 0;
}
#endif
