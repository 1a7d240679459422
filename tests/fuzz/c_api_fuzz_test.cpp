// SPDX-License-Identifier: Apache-2.0
// Random calls of the C ABI's builder.
#include "tests/fuzz/c_api_target.h"

#include "tests/support/fuzz.h"

using namespace catenary;

TEST_CASE("random calls of the C ABI") {
  test::fuzz(20'000, [](u64 seed) { fuzz::Calls(Random(seed)).run(); });
}

TEST_CASE("calls of the C ABI that bytes choose, as libFuzzer gives them") {
  test::fuzz(2'000, [](u64 seed) {
    Random random(seed);
    std::vector<u8> bytes(static_cast<size_t>(random.range(0, 400)));
    for (u8& byte : bytes) byte = static_cast<u8>(random.next());
    fuzz::Calls(fuzz::Bytes(bytes.data(), bytes.size())).run();
  });
}
