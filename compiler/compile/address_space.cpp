// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/address_space.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "ir/descriptor.h"

namespace catenary {

i64 address_space_left() {
  constexpr i64 kMost = std::numeric_limits<i64>::max();
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(kMost)) {
    return kMost;
  }
  // The first number is the pages that are mapped. Nothing here allocates.
  const Descriptor file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  if (!file) return kMost;
  char text[64];
  const ssize_t bytes = ::read(file.get(), text, sizeof text);
  i64 pages = 0;
  if (bytes <= 0 || std::from_chars(text, text + bytes, pages).ec != std::errc()) return kMost;
  const i64 mapped = pages * ::sysconf(_SC_PAGESIZE);
  return std::max<i64>(static_cast<i64>(limit.rlim_cur) - mapped, 0);
}

}  // namespace catenary
