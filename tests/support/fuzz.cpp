// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fuzz.h"

#include <algorithm>

#include "ir/names.h"
#include "tests/support/arguments.h"

namespace catenary::test {
namespace {

size_t place(Random& random, size_t size) {
  return static_cast<size_t>(random.range(0, static_cast<i64>(size)));
}

// The run of letters and digits around `at`.
std::pair<size_t, size_t> word_bounds(const std::string& bytes, size_t at) {
  size_t begin = at, end = at;
  while (begin > 0 && is_name_byte(bytes[begin - 1])) --begin;
  while (end < bytes.size() && is_name_byte(bytes[end])) ++end;
  return {begin, end};
}

std::string word_at(const std::string& bytes, size_t at) {
  const auto [begin, end] = word_bounds(bytes, at);
  return bytes.substr(begin, end - begin);
}

void replace_word(std::string& bytes, size_t at, const std::string& with) {
  const auto [begin, end] = word_bounds(bytes, at);
  bytes.replace(begin, end - begin, with);
}

}  // namespace

FuzzRun fuzz_run(u64 usual) { return {argument("seed", 1), argument("count", usual)}; }

void Mutator::change(Random& random, std::string& bytes) const {
  const size_t at = place(random, bytes.size());
  const size_t length =
      place(random, std::min<size_t>(bytes.size() - at, random.chance(80) ? 8 : 400));
  switch (random.range(0, 9)) {
    case 0:  // one bit
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.range(0, 7)));
      break;
    case 1:  // one byte
      if (at < bytes.size()) bytes[at] = static_cast<char>(random.next());
      break;
    case 2:
      bytes.erase(at, length);
      break;
    case 3:  // again, here or elsewhere
      bytes.insert(place(random, bytes.size()), bytes.substr(at, length));
      break;
    case 4:  // from another input
    {
      const std::string& other = random.pick(llvm::ArrayRef(corpus_));
      bytes.insert(at, other.substr(place(random, other.size()), length));
    } break;
    case 5:
      bytes.replace(at, length, random.pick(llvm::ArrayRef(words_)));
      break;
    case 6:
      bytes.insert(at, random.pick(llvm::ArrayRef(words_)));
      break;
    case 7:  // a word by another of the same input
      replace_word(bytes, at, word_at(bytes, place(random, bytes.size())));
      break;
    case 8:  // a word by one of the list
      replace_word(bytes, at, random.pick(llvm::ArrayRef(words_)));
      break;
    default:  // the end is missing
      if (random.chance(20)) bytes.resize(at);
      break;
  }
}

std::string Mutator::input(u64 seed) const {
  Random random(seed);
  std::string bytes = random.pick(llvm::ArrayRef(corpus_));
  for (i64 left = random.chance(50) ? 1 : random.range(2, 8); left > 0; --left)
    change(random, bytes);
  return bytes;
}

}  // namespace catenary::test
