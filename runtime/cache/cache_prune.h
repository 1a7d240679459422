// SPDX-License-Identifier: Apache-2.0
// Holding a cache directory to a size: the entries that were used longest ago go first. The bound
// is soft: it is looked at after a write, by a guess from one folder of 256, and not often.
#pragma once

#include <atomic>
#include <string>

#include "runtime/cache/cache_directory.h"

namespace catenary {

// Removes entries of `directory`, those used longest ago first, until they have at most `max_bytes`
// together. The number removed. kCacheIo: the folder cannot be listed, or an entry stays that had
// to go.
Expected<int> prune_entries(CacheDirectory& directory, i64 max_bytes);

// A guess of the bytes of all entries, from those that lie beside `name`: keys are digests, so
// every folder holds the same share but for chance. The entry itself counts once.
i64 estimate_bytes(const CacheDirectory& directory, const std::string& name);

// One cache's share in holding its directory to a size. Thread-safe.
class SizeBound {
 public:
  // 0: no bound.
  explicit SizeBound(i64 max_bytes) : max_bytes_(max_bytes) {}

  // To be called after entry `name` was written. When the entries seem to exceed the bound, at most
  // once in 20 minutes and unless another process is at it, prunes them to 80% of it and removes
  // orphaned temporary files. Errors as prune_entries().
  Error after_write(CacheDirectory& directory, const std::string& name);

  i64 max_bytes() const { return max_bytes_; }

 private:
  bool take_turn();

  const i64 max_bytes_;
  std::atomic<i64> next_turn_ms_{0};  // of the steady clock
};

}  // namespace catenary
