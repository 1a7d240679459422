// SPDX-License-Identifier: Apache-2.0
// Bytes as an ELF object: the host's linker takes it, and the program finds every byte, aligned,
// between its two symbols.
#include "tools/elf_object.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "ir/random/random.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::test;
using namespace catenary::tools;

namespace {

std::string random_bytes(size_t size) {
  Random random(7);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.range(0, 255));
  return bytes;
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Writes what is between the symbols to standard output; 3 if it is not aligned.
constexpr const char* kProgram = R"(#include <stdint.h>
#include <stdio.h>
extern const char pack_a[], pack_a_end[], pack_b[], pack_b_end[];
int main(void) {
  if ((uintptr_t)pack_a % 4096 || (uintptr_t)pack_b % 4096) return 3;
  fwrite(pack_a, 1, (size_t)(pack_a_end - pack_a), stdout);
  fwrite(pack_b, 1, (size_t)(pack_b_end - pack_b), stdout);
  return 0;
}
)";

}  // namespace

TEST_CASE("a program links two objects and reads their bytes") {
  const TempDir folder;
  const std::string first = random_bytes(10000), second = "one byte more than nothing";
  for (const auto& [name, bytes] : {std::pair{"pack_a", first}, {"pack_b", second}}) {
    auto object = elf_object(name, bytes, host_machine());
    REQUIRE(object);
    write(folder / (std::string(name) + ".o"), *object);
  }
  write(folder / "main.c", kProgram);
  // -z execstack warnings and malformed sections are errors.
  const std::string build = "cd '" + folder.path() +
                            "' && cc main.c pack_a.o pack_b.o -Wl,--fatal-warnings -o main && "
                            "./main > bytes";
  REQUIRE(std::system(build.c_str()) == 0);
  CHECK(read(folder / "bytes") == first + second);
}

TEST_CASE("an object of no bytes, and of another machine") {
  auto empty = elf_object("pack", "", ElfMachine::kX86_64);
  auto same = elf_object("pack", "", ElfMachine::kX86_64);
  auto other = elf_object("pack", "", ElfMachine::kAArch64);
  REQUIRE(empty);
  REQUIRE(same);
  REQUIRE(other);
  CHECK(*empty == *same);
  CHECK((*empty)[18] == 62);                               // e_machine: EM_X86_64
  CHECK(static_cast<unsigned char>((*other)[18]) == 183);  // EM_AARCH64
}

TEST_CASE("a symbol is a C identifier") {
  for (const char* name : {"", "7b", "a-b", "a b", "p\xc3\xa4k"}) {
    CAPTURE(name);
    auto object = elf_object(name, "x", ElfMachine::kX86_64);
    REQUIRE_FALSE(object);
    const ErrorReport report = take_report(object.takeError());
    CHECK(report.code == ErrorCode::kInvalidArgument);
    CHECK(report.message.find("C identifier") != std::string::npos);
  }
}
