// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the examples of FIPS 180-4, and with the processor's instructions against
// without.
#include "ir/sha256.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/random/random.h"
#include "llvm/ADT/StringExtras.h"

using namespace catenary;

namespace {

llvm::ArrayRef<u8> bytes_of(const std::string& text) {
  return {reinterpret_cast<const u8*>(text.data()), text.size()};
}

}  // namespace

TEST_CASE("the examples of the standard") {
  const std::pair<std::string, const char*> examples[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1'000'000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const auto& [text, digest] : examples) {
    CHECK(llvm::toHex(sha256_digest(bytes_of(text)), true) == digest);
    CHECK(llvm::toHex(portable_sha256_digest(bytes_of(text)), true) == digest);
  }
}

TEST_CASE("every length of the last block, at any address") {
  Random random(1);
  std::vector<u8> bytes(400);
  for (u8& byte : bytes) byte = static_cast<u8>(random.next());
  for (size_t length = 0; length <= 330; ++length) {
    const auto part = llvm::makeArrayRef(bytes).slice(length % 61, length);
    CAPTURE(length);
    CHECK(sha256_digest(part) == portable_sha256_digest(part));
  }
}
