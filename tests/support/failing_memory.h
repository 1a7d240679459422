// SPDX-License-Identifier: Apache-2.0
// Memory that runs out: an allocator of the test's process whose allocations fail at will. For one
// file of a test program.
#pragma once

#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "catenary/catenary.h"

// The C library's own allocator below the one of this test. Sanitizers have theirs.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define CATENARY_FAILING_MEMORY

namespace {

thread_local bool counting __attribute__((tls_model("initial-exec"))) = false;
long allocations = 0;  // since counting began
long first_failure = 0;
long last_failure = 0;

bool fails() {
  if (!counting) return false;
  const long number = allocations++;
  return number >= first_failure && number < last_failure;
}

// Allocations number `first` to `last` - 1 of this thread fail while it lives.
struct FailingMemory {
  FailingMemory(long first, long last) {
    allocations = 0;
    first_failure = first;
    last_failure = last;
    counting = true;
  }
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;
  ~FailingMemory() { counting = false; }
};

}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);

void* malloc(size_t bytes) {
  if (!fails()) return __libc_malloc(bytes);
  errno = ENOMEM;
  return nullptr;
}
void* calloc(size_t count, size_t bytes) {
  if (!fails()) return __libc_calloc(count, bytes);
  errno = ENOMEM;
  return nullptr;
}
void* realloc(void* old, size_t bytes) {
  if (!fails()) return __libc_realloc(old, bytes);
  errno = ENOMEM;
  return nullptr;
}
}

namespace {

constexpr long kForGood = 1L << 60;

// Runs `call` with every allocation failing in turn, until it makes fewer; of a call that makes
// more than `most`, with so many of them, spread over all. `call` returns a status; `done` checks
// what it made and frees it.
template <typename Call, typename Done>
void sweep(const std::string& what, const Call& call, const Done& done, long most = kForGood) {
  CAPTURE(what);
  long step = 1;
  if (most != kForGood) {
    const FailingMemory counted(kForGood, kForGood);
    REQUIRE(call() == CTN_OK);
    step = allocations / most + 1;
    done();
  }
  for (const bool for_good : {false, true}) {
    CAPTURE(for_good);
    for (long n = 0;; n += step) {
      CAPTURE(n);
      ctn_status status = CTN_INTERNAL;
      long made = 0;
      {
        const FailingMemory failing(n, for_good ? kForGood : n + 1);
        status = call();
        made = allocations;
      }
      if (status == CTN_OK) {
        done();
      } else {
        CAPTURE(std::string(ctn_last_error()));
        REQUIRE(status == CTN_OUT_OF_MEMORY);
        CHECK(std::strstr(ctn_last_error(), "memory") != nullptr);
      }
      if (made <= n) {
        CHECK(status == CTN_OK);
        break;
      }
    }
  }
}

}  // namespace

#endif
