// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fuzz.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace catenary::test {
namespace {

// The value of `--name=<number>` among this process's arguments. doctest passes over it.
u64 argument(const std::string& name, u64 usual) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const std::string start = std::string(1, '\0') + "--" + name + "=";
  const size_t at = all.find(start);
  return at == std::string::npos ? usual : std::strtoull(&all[at + start.size()], nullptr, 10);
}

size_t place(Random& random, size_t size) {
  return static_cast<size_t>(random.range(0, static_cast<i64>(size)));
}

}  // namespace

FuzzRun fuzz_run(u64 usual) { return {argument("seed", 1), argument("count", usual)}; }

void Mutator::change(Random& random, std::string& bytes) const {
  const size_t at = place(random, bytes.size());
  const size_t length =
      place(random, std::min<size_t>(bytes.size() - at, random.chance(80) ? 8 : 400));
  switch (random.range(0, 7)) {
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
    default:  // the end is missing
      if (random.chance(20)) bytes.resize(at);
      break;
  }
}

std::string Mutator::input(u64 seed) const {
  Random random(seed);
  std::string bytes = random.pick(llvm::ArrayRef(corpus_));
  for (i64 left = random.range(1, 8); left > 0; --left) change(random, bytes);
  return bytes;
}

}  // namespace catenary::test
