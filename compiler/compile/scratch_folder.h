// SPDX-License-Identifier: Apache-2.0
// A folder of this process below the temporary folder. It is removed with its content when the
// object ends; those of processes that were killed are removed when the next one is made.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "ir/descriptor.h"
#include "ir/error.h"

namespace catenary {

class ScratchFolder {
 public:
  // Mode 0700, absolute. kIo names the temporary folder.
  static Expected<ScratchFolder> make();

  ScratchFolder(ScratchFolder&& other) noexcept { *this = std::move(other); }
  ScratchFolder& operator=(ScratchFolder&& other) noexcept;
  // A child of fork() leaves the folder to its parent.
  ~ScratchFolder() { remove(); }

  const std::string& path() const { return path_; }
  // Whether this process made it.
  bool is_own() const;

 private:
  ScratchFolder() = default;
  void remove() noexcept;

  std::string path_;
  Descriptor lock_;  // the open folder, locked as long as its process lives
  pid_t owner_ = 0;
};

// The error of a file or folder there that cannot be written. kIo.
Error scratch_error(const std::string& path, const std::string& reason);

}  // namespace catenary
