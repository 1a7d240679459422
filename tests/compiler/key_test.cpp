// SPDX-License-Identifier: Apache-2.0
// The key: stable over builds and machines, sensitive to every field, blind to nothing.
#include "compiler/compile/key.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

namespace catenary {
namespace {

KeyFields sample() { return {"body", "digest", "sm_90a", "-std=c++20\n-arch=sm_90a", "nvrtc 13"}; }

std::vector<std::string*> members(KeyFields& fields) {
  return {&fields.body, &fields.template_digest, &fields.arch, &fields.options,
          &fields.compiler_id};
}

TEST_CASE("a key is 64 lower-case hexadecimal digits") {
  KernelKey key;
  key.bytes[0] = 0xAB;
  key.bytes[31] = 0x01;
  CHECK(key.hex() == "ab" + std::string(60, '0') + "01");
}

// Computed apart from this code (Python's hashlib over the layout that key.h describes). A change
// here makes every cache on every machine cold: raise the schema version with it.
TEST_CASE("the key and the record of known fields never change") {
  CHECK(kernel_key(sample()).hex() ==
        "1c02af22e67db6519c2cd8823007ab13c2d4224f10f1a9cce2c4ee6421eefe67");
  CHECK(key_record(sample()) == R"(catenary-key 1
field body 230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5
field templates 0bf474896363505e5ea5e5d6ace8ebfb13a760a409b1fb467d428fc716f9f284
field arch fc0ca84dbdced52283d6304e51649c5e9f7409d9046bd4607f968c7efa9d8ef0
field options e94341efa502281105e1b0da9339da4d84b9603d035abfd8b40152f37601fdeb
field compiler 1be26da63dba64f74c3e8c81728bdf007ddb5f99533670d6adb80a3f605e2ae6
)");
}

TEST_CASE("every field changes the key and its own line of the record") {
  std::set<std::string> keys{kernel_key(sample()).hex()};
  std::set<std::string> records{key_record(sample())};
  for (size_t i = 0; i < 5; ++i) {
    KeyFields fields = sample();
    *members(fields)[i] += "x";
    CHECK(keys.insert(kernel_key(fields).hex()).second);
    CHECK(records.insert(key_record(fields)).second);
  }
}

TEST_CASE("text that moves from one field to the next changes the key") {
  for (size_t i = 0; i + 1 < 5; ++i) {
    KeyFields fields = sample();
    std::string& from = *members(fields)[i];
    members(fields)[i + 1]->insert(0, 1, from.back());
    from.pop_back();
    CHECK(kernel_key(fields) != kernel_key(sample()));
    CHECK(key_record(fields) != key_record(sample()));
  }
}

TEST_CASE("empty fields, long fields and zero bytes are covered") {
  KeyFields empty;
  KeyFields zero;
  zero.body = std::string(1, '\0');
  KeyFields two = zero;
  two.body += '\0';
  KeyFields large;
  large.body.assign(1 << 20, 'x');
  KeyFields last = large;
  last.body.back() = 'y';
  const std::set<std::string> keys{kernel_key(empty).hex(), kernel_key(zero).hex(),
                                   kernel_key(two).hex(), kernel_key(large).hex(),
                                   kernel_key(last).hex()};
  CHECK(keys.size() == 5);
}

}  // namespace
}  // namespace catenary
