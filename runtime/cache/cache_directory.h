// SPDX-License-Identifier: Apache-2.0
// The cache's folder: <path>/v1/<2 hex>/<62 hex>.ctn, with v1/tmp for files that are being written
// and v1/bad for entries that failed their check. Names and bytes in, names and bytes out; knows
// nothing of what an entry holds. Whoever can write here can run code on the GPU, so a folder or a
// file that others may write is not used.
//
// Crash rules: an entry appears by rename from v1/tmp and is never changed in place, so a reader
// sees all of it or nothing. The folder is not synced: a power loss may lose entries, which costs a
// compile each.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/source.h"
#include "ir/error.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/cache/file_system.h"

namespace catenary {

// Equal for two looks at one unchanged file.
struct FileIdentity {
  u64 inode = 0;
  i64 bytes = 0;
  i64 modified_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

struct EntryFile {
  std::vector<u8> bytes;
  FileIdentity identity;
  std::string problem;  // why its bytes must not be used; empty: they are all there
};

struct EntryName {
  std::string name;  // "<2 hex>/<62 hex>.ctn"
  FileIdentity identity;
};

class CacheDirectory {
 public:
  // Opens `path` (absolute or relative, created 0700 with its parents if `writable`) and removes
  // temporary files older than an hour. kCacheIo names the path, what is wrong with it (not a
  // folder, a symbolic link, another owner, writable by others: its mode) and what to do.
  static Expected<std::unique_ptr<CacheDirectory>> open(FileSystem& files, const std::string& path,
                                                        bool writable);
  ~CacheDirectory();
  CacheDirectory(const CacheDirectory&) = delete;
  CacheDirectory& operator=(const CacheDirectory&) = delete;

  const std::string& path() const { return path_; }
  bool writable() const { return writable_; }

  static std::string entry_name(const KernelKey& key);
  // The 64 digits of a name; empty: it is no entry's name.
  static std::string key_hex(const std::string& name);
  std::string full_path(const std::string& name) const;

  // Null: no such entry. kCacheIo: it could not be read.
  Expected<std::optional<EntryFile>> read(const std::string& name) const;

  // Makes `bytes` the entry of `name`, whole or not at all. kCacheIo names the step that failed.
  Error write(const std::string& name, llvm::ArrayRef<u8> bytes);

  // Moves a bad entry to v1/bad if it is ours and still the file that `seen` describes; with 16
  // files there already it is removed instead.
  void quarantine(const std::string& name, const FileIdentity& seen);

  // Every entry, in order of names. kCacheIo: a folder could not be listed.
  Expected<std::vector<EntryName>> entries() const;

  // The entries that lie in the folder of `name`, one of 256, in no order; what cannot be read is
  // left out.
  std::vector<EntryName> neighbours(const std::string& name) const;

  // Notes that an entry is in use, for whoever prunes by age: at most once an hour, by the time of
  // `seen`. Failures do not matter.
  void mark_used(const std::string& name, const FileIdentity& seen);

  // Keeps other processes from pruning; false: one of them is at it. A file system without locks
  // answers true, for two that prune at once only do some work twice.
  bool try_lock();
  void unlock();

  // False: it is still there.
  bool remove(const std::string& name);

  // Removes temporary files that a dead process left, an hour after its last write.
  void sweep_orphans();

  // Removes the files of v1/`folder` ("tmp" or "bad") that are at least so old.
  void sweep(const char* folder, i64 min_age_seconds);

 private:
  CacheDirectory(FileSystem& files, std::string path, int root, bool writable)
      : files_(files), path_(std::move(path)), root_(root), writable_(writable) {}

  int read_open_file(int file, EntryFile& entry) const;
  Expected<int> create_temporary(std::string& name);
  int write_temporary(int file, llvm::ArrayRef<u8> bytes, const char*& step);
  int publish(const std::string& temporary, const std::string& name);
  Error write_error(const char* step, int error) const;

  FileSystem& files_;
  std::string path_;
  int root_;  // the open folder <path>/v1
  bool writable_;
};

}  // namespace catenary
