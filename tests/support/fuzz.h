// SPDX-License-Identifier: Apache-2.0
// Seeded mutation of bytes. Execution n of a test has seed `--seed` + n and depends only on it:
// `text_fuzz_test --seed=<n> --count=1` repeats one. `--count=<n>` makes a long run.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/random/random.h"

namespace catenary::test {

struct FuzzRun {
  u64 first = 1;  // the first seed
  u64 count = 0;  // executions
};

// From the command line of this process; `usual`: executions without --count.
FuzzRun fuzz_run(u64 usual);

class Mutator {
 public:
  // `words`: what an input of this kind has many of.
  Mutator(std::vector<std::string> corpus, std::vector<std::string> words)
      : corpus_(std::move(corpus)), words_(std::move(words)) {}

  // An input of the corpus after one to eight changes.
  std::string input(u64 seed) const;

 private:
  void change(Random& random, std::string& bytes) const;

  std::vector<std::string> corpus_;
  std::vector<std::string> words_;
};

// Runs `execute(seed)` for every seed of the run; a crash prints the seed.
template <typename Execute>
void fuzz(u64 usual, const Execute& execute) {
  const FuzzRun run = fuzz_run(usual);
  for (u64 i = 0; i < run.count; ++i) {
    const u64 seed = run.first + i;
    CAPTURE(seed);
    execute(seed);
  }
}

}  // namespace catenary::test
