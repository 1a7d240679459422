// SPDX-License-Identifier: Apache-2.0
// Random calls of the C ABI's builder.
#include "tests/fuzz/c_api_target.h"

#include "tests/support/fuzz.h"

using namespace catenary;

TEST_CASE("random calls of the C ABI") {
  test::fuzz(20'000, [](u64 seed) { fuzz::Calls(Random(seed)).run(); });
}
