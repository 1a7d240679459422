// SPDX-License-Identifier: Apache-2.0
// catenary-nvrtc: compiles kernels for the library, which starts it with a socket as its standard
// input. A compile that crashes, hangs or takes all memory ends this process, not the library's.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "compiler/compile/helper/message.h"
#include "compiler/compile/helper/serve.h"
#include "ir/descriptor.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A sanitizer maps terabytes, and has its own allocator.
#define CATENARY_NO_MEMORY_LIMIT
#endif

#if !defined(CATENARY_NO_MEMORY_LIMIT) && defined(__GLIBC__)
// NVRTC ends the process in its own ways when it gets no memory. Here the first allocation that
// fails ends it, with a status that says so.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);

void* malloc(size_t bytes) {
  void* memory = __libc_malloc(bytes);
  if (memory == nullptr) ::_exit(catenary::kHelperNoMemory);
  return memory;
}
void* calloc(size_t count, size_t bytes) {
  void* memory = __libc_calloc(count, bytes);
  if (memory == nullptr) ::_exit(catenary::kHelperNoMemory);
  return memory;
}
void* realloc(void* old, size_t bytes) {
  void* memory = __libc_realloc(old, bytes);
  if (memory == nullptr && bytes != 0) ::_exit(catenary::kHelperNoMemory);
  return memory;
}
}
#endif

namespace {

// Its own limit, or a lower one that it has already.
void limit(int resource, rlim_t most) {
  rlimit limits{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0) return;
  limits.rlim_cur = std::min(limits.rlim_cur, most);
  ::setrlimit(static_cast<__rlimit_resource>(resource), &limits);
}

// When the machine has no memory left, the system ends this process before the library's.
void be_ended_first() {
  constexpr char kScore[] = "500";
  const catenary::Descriptor file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (!file) return;
  [[maybe_unused]] const ssize_t written = ::write(file.get(), kScore, std::strlen(kScore));
}

}  // namespace

int main(int argc, char** argv) {
  struct stat input {};
  rlim_t bytes = 0;
  const char* text = argc == 2 ? argv[1] : "";
  const bool number = std::from_chars(text, text + std::strlen(text), bytes).ec == std::errc();
  if (!number || ::fstat(STDIN_FILENO, &input) != 0 || !S_ISSOCK(input.st_mode)) {
    std::fputs("catenary-nvrtc compiles kernels for the Catenary library, which starts it\n",
               stderr);
    return catenary::kHelperNotStarted;
  }
#ifndef CATENARY_NO_MEMORY_LIMIT
  limit(RLIMIT_AS, bytes);
#endif
  limit(RLIMIT_CORE, 0);
  be_ended_first();
  // No exit handlers: other threads may still run.
  ::_exit(catenary::serve(STDIN_FILENO));
}
