// SPDX-License-Identifier: Apache-2.0
#include "tests/support/arguments.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace catenary::test {

u64 argument(const std::string& name, u64 usual) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const std::string start = std::string(1, '\0') + "--" + name + "=";
  const size_t at = all.find(start);
  return at == std::string::npos ? usual : std::strtoull(&all[at + start.size()], nullptr, 10);
}

}  // namespace catenary::test
