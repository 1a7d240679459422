// SPDX-License-Identifier: Apache-2.0
// Mutated chain text: every text is a chain or an error with a place; a chain that verifies is
// printed and parsed back, planned and emitted.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/text_target.h"
#include "tests/support/fuzz.h"

using namespace catenary;

namespace {

std::vector<std::string> chain_texts() {
  std::vector<std::string> texts;
  for (const char* folder : {"/examples", "/tests/chains"}) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(CATENARY_SOURCE_DIR) + folder)) {
      if (entry.path().extension() == ".chain") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      std::ifstream file(path, std::ios::binary);
      texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  return texts;
}

const std::vector<std::string> kWords = {"0",
                                         "1",
                                         "-1",
                                         "64",
                                         "2147483648",
                                         "1099511627776",
                                         "9223372036854775807",
                                         "1e-3",
                                         "1e39",
                                         "bf16",
                                         "f16",
                                         "f32",
                                         "i32",
                                         "input ",
                                         "weight ",
                                         "scalar ",
                                         "M",
                                         "[",
                                         "]",
                                         "(",
                                         ")",
                                         ", ",
                                         "\"mk,nk->mn\"",
                                         "\"mn->n\"",
                                         " @ \"m\"",
                                         " ragged m by ends over e",
                                         "strides[",
                                         " align ",
                                         "relu(",
                                         "add(",
                                         "cast(",
                                         "clamp(",
                                         "sum ",
                                         "contract ",
                                         "lo = ",
                                         "return ",
                                         "}\n",
                                         "#",
                                         "\xff"};

}  // namespace

TEST_CASE("mutated chain text") {
  const test::Mutator mutator(chain_texts(), kWords);
  const auto targets = all_targets();
  test::fuzz(20'000, [&](u64 seed) {
    fuzz::run_text(mutator.input(seed),
                   seed % 8 == 0 ? &targets[seed / 8 % targets.size()] : nullptr);
  });
}
