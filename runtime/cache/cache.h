// SPDX-License-Identifier: Apache-2.0
// Cubins by key: memory, then disk. One self-describing file per entry, written by rename, verified
// on every load; a bad one is a miss with one warning. In-process single flight: threads that ask
// for one key compile it once. A cache failure never fails a compile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "compiler/compile/key.h"
#include "ir/error.h"
#include "runtime/cache/cache_mode.h"

namespace catenary {

class FileSystem;

struct CacheStats {
  u64 memory_hits = 0;  // with the callers that waited for another's compile
  u64 disk_hits = 0;
  u64 misses = 0;  // compiles
  u64 write_errors = 0;
  u64 read_errors = 0;
  u64 corrupt = 0;
};

struct CacheOptions {
  // Empty: CATENARY_CACHE_DIR, else $XDG_CACHE_HOME/catenary, else ~/.cache/catenary.
  std::string directory;
  // CATENARY_CACHE=off|ro|rw overrides when `directory` is empty.
  CacheMode mode = CacheMode::kReadWrite;
  std::function<void(const std::string&)> warn;  // one line per distinct problem
  i64 memory_bytes = i64{1} << 30;  // machine code held in memory, oldest use goes first
  // Bytes on disk that the directory is held to, about and now and then; 0: no bound. Empty:
  // CATENARY_CACHE_MAX_BYTES, else 2 GiB.
  std::optional<i64> max_bytes = std::nullopt;
  FileSystem* file_system = nullptr;  // null: the real one; tests inject faults
};

struct CacheEntryInfo {
  std::string key_hex;
  std::string symbol;
  std::string arch;
  std::string compiler_id;
  i64 bytes = 0;
  std::string problem;  // empty: verified
};

// Safe to use from many threads and, with one directory, from many processes.
class CubinCache {
 public:
  explicit CubinCache(CacheOptions options);
  ~CubinCache();

  using Compile = std::function<Expected<Cubin>()>;

  // The cubin of `key`: from memory, from disk, or by `compile` (at most one at a time per key; the
  // other callers wait and share the value or the error). `record` is key_record(): an entry whose
  // record differs is a miss. An error of `compile` that every repeat would give again
  // (kCompileFailed, kUnsupported, kResourceLimit) is kept in memory, the others are not.
  Expected<std::shared_ptr<const Cubin>> get(const KernelKey& key, const std::string& record,
                                             const Compile& compile);

  // Looks without compiling; null when absent.
  std::shared_ptr<const Cubin> find(const KernelKey& key, const std::string& record);

  CacheStats stats() const;
  const std::string& directory() const;  // empty: no disk tier (and why_off says why)
  std::string why_off() const;
  i64 max_bytes() const;  // that the directory is held to; 0: no bound

  // For `catenary cache`: every entry of the directory, verified; removing all; pruning to a bound
  // in bytes, least recently used first. Both give the number of entries removed. kCacheIo:
  // there is no directory (with why_off), it is read-only, or an entry could not be removed.
  Expected<std::vector<CacheEntryInfo>> list() const;
  Expected<int> clear();
  Expected<int> prune(i64 max_bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace catenary
