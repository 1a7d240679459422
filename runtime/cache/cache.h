// SPDX-License-Identifier: Apache-2.0
// Cubins by key, in memory and on disk. Threads that ask for one key compile it once (single
// flight). An entry on disk is one self-describing file, published by rename and verified at every
// load; a bad one is a miss and one warning. A problem of the cache never fails a compile.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "compiler/compile/key.h"
#include "ir/error.h"
#include "runtime/cache/cache_mode.h"

namespace catenary {

class FileSystem;

// Where a lookup found its cubin.
enum class CacheTier : u8 { kMemory, kDisk, kCompiled };

struct CacheStats {
  u64 memory_hits = 0;  // with callers that waited for another caller's compile
  u64 disk_hits = 0;    // with kernels that an entry says are rejected
  u64 misses = 0;       // each is a compile
  u64 write_errors = 0;
  u64 read_errors = 0;
  u64 corrupt = 0;
};

struct CacheOptions {
  // Empty: CATENARY_CACHE_DIR, else $XDG_CACHE_HOME/catenary, else ~/.cache/catenary.
  std::string directory;
  // CATENARY_CACHE=off|ro|rw overrides it if `directory` is empty.
  CacheMode mode = CacheMode::kReadWrite;
  // One line per distinct problem. Empty: they go to the log.
  std::function<void(const std::string&)> warn;
  i64 memory_bytes = i64{1} << 30;  // of cubins in memory; the least recently used is dropped
  // Soft bound on the bytes of the directory; 0: no bound. Empty: CATENARY_CACHE_MAX_BYTES, else
  // 2 GiB.
  std::optional<i64> max_bytes = std::nullopt;
  // How long a compile waits for another process that compiles the same kernel, before it compiles
  // the kernel as well. 0: not at all.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  FileSystem* file_system = nullptr;  // null: the real one; tests inject faults
};

struct CacheEntryInfo {
  std::string key_hex;
  std::string symbol;
  std::string arch;
  std::string compiler_id;
  i64 bytes = 0;
  std::string path;
  std::string rejection;  // why the compiler's result is not used; empty: a cubin
  std::string problem;    // empty: verified
};

// What list() says of an entry without a cubin.
struct KernelName {
  std::string symbol;
  std::string arch;
  std::string compiler_id;
};

// Thread-safe; several processes may use one directory.
class CubinCache {
 public:
  explicit CubinCache(CacheOptions options);
  ~CubinCache();

  using Compile = std::function<Expected<Cubin>()>;

  // The cubin of `key`: from memory, from disk, or by `compile`, which runs at most once at a time
  // per key; the other callers wait and share its result. Other processes that use the folder wait
  // as well, for at most `patience`. `record` is key_record(): an entry with another record is a
  // miss. Deterministic errors of `compile` (kCompileFailed, kKernelRejected,
  // kUnsupported, kResourceLimit) are kept in memory, and kKernelRejected is on disk as well, as an
  // entry with `name`. `tier`, unless null, gets where a cubin is from: memory also for a caller
  // that waited.
  Expected<std::shared_ptr<const Cubin>> get(const KernelKey& key, const std::string& record,
                                             const Compile& compile, CacheTier* tier = nullptr,
                                             const KernelName& name = {});

  // Looks in memory and on disk. Null: absent, or rejected.
  std::shared_ptr<const Cubin> find(const KernelKey& key, const std::string& record);

  CacheStats stats() const;
  const std::string& directory() const;  // empty: no disk tier, for the reason why_off()
  std::string why_off() const;
  // Gives one line to the callback of the options, or to the log, unless it has been given before.
  void warn(const std::string& line);
  i64 max_bytes() const;  // the bound on the directory; 0: no bound

  // For `catenary cache`. list() verifies every entry of the directory. The others remove entries
  // and return how many: clear() all, remove() those of `keys_hex`, prune() the least recently used
  // until at most `max_bytes` are left. kCacheIo: there is no directory, it is read-only, or an
  // entry could not be removed.
  Expected<std::vector<CacheEntryInfo>> list() const;
  Expected<int> clear();
  Expected<int> remove(llvm::ArrayRef<std::string> keys_hex);
  Expected<int> prune(i64 max_bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace catenary
