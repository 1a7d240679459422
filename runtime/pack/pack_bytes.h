// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a pack are: a file, or memory of the caller. A file is read, not mapped: a
// file that another process truncates is then an error of a read, where touching a mapped page
// would end this process, and what is checked is a copy that cannot change before its use.
#pragma once

#include <memory>
#include <string>

#include "ir/error.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

class PackBytes {
 public:
  virtual ~PackBytes() = default;
  virtual u64 size() const = 0;
  // Fills `out` with the bytes from `offset` on. kIo: the file cannot be read, or has become
  // shorter. Thread-safe.
  virtual Error read(u64 offset, llvm::MutableArrayRef<u8> out) const = 0;
};

// kIo: `path` is no file or cannot be opened.
Expected<std::unique_ptr<PackBytes>> open_pack_file(const std::string& path);

// Any alignment. The memory outlives the result.
std::unique_ptr<PackBytes> pack_memory(llvm::ArrayRef<u8> bytes);

}  // namespace catenary
