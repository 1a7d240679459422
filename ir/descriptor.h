// SPDX-License-Identifier: Apache-2.0
// An open file descriptor of this process.
#pragma once

#include <unistd.h>

#include <utility>

namespace catenary {

// Owns a descriptor and closes it, on every way out of a function: any allocation may throw.
class Descriptor {
 public:
  Descriptor() = default;  // none
  // Takes the result of open(2) and the like: a negative number is none.
  explicit Descriptor(int file) : file_(file) {}
  Descriptor(Descriptor&& other) noexcept : file_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Descriptor() { close(); }

  // Negative: none.
  int get() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }
  // The caller closes it.
  int release() { return std::exchange(file_, -1); }
  void close() {
    if (file_ >= 0) ::close(release());
  }

 private:
  int file_ = -1;
};

}  // namespace catenary
