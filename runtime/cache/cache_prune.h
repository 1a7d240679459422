// SPDX-License-Identifier: Apache-2.0
// Bounds the size of a cache directory: the least recently used entries are removed first. The
// bound is soft: it is checked after a write, by an estimate from one folder of 256, and rarely.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "runtime/cache/cache_directory.h"

namespace catenary {

// Removes the least recently used entries until the others have at most `max_bytes` in total.
// Returns the number removed. kCacheIo: the folder cannot be listed, or an entry cannot be removed.
Expected<int> prune_entries(CacheDirectory& directory, i64 max_bytes);

// An estimate of the bytes of all entries, from those in the folder of `name`: keys are digests, so
// entries are distributed evenly over the 256 folders. The entry itself counts once.
i64 estimate_bytes(const CacheDirectory& directory, const std::string& name);

// Checks the bound for one cache. Thread-safe.
class SizeBound {
 public:
  // 0: no bound.
  explicit SizeBound(i64 max_bytes) : max_bytes_(max_bytes) {}

  // Call it after entry `name` was written. If the estimate exceeds the bound, prunes to 80% of the
  // bound. Up to some thousand entries: all, with orphaned temporary files, at most once in 20
  // minutes, and not while another process prunes. Above that, two of the 256 folders at a time, so
  // that the time does not grow with the cache. Errors: those of prune_entries().
  Error after_write(CacheDirectory& directory, const std::string& name);

  i64 max_bytes() const { return max_bytes_; }

 private:
  bool due();
  i64 target() const { return max_bytes_ / 5 * 4; }
  Error prune_all(CacheDirectory& directory);
  Error prune_folders(CacheDirectory& directory, std::vector<EntryName> neighbours);

  const i64 max_bytes_;
  std::atomic<i64> next_prune_ms_{0};  // by the steady clock
  std::atomic<unsigned> next_folder_{0};
};

}  // namespace catenary
