// SPDX-License-Identifier: Apache-2.0
// The cache's folder: entries are <path>/v1/<2 hex>/<62 hex>.ctn, files under construction are in
// v1/tmp, entries that failed their check in v1/bad, locks of entries in v1/locks. Works on names
// and bytes; does not know what an entry holds. A user who can write an entry can run code on the
// GPU, so a folder or a file that other users may write is not used; that holds for the folders
// below v1 as well.
//
// Crash safety: an entry is renamed from v1/tmp and never changed in place, so a reader sees all of
// it or nothing. The folder is not synced: a power loss may lose entries, which costs a compile
// each.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/source.h"
#include "ir/error.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/cache/entry_lock.h"
#include "runtime/cache/file_system.h"

namespace catenary {

// Equal for two stats of one unchanged file.
struct FileIdentity {
  u64 inode = 0;
  i64 bytes = 0;
  i64 modified_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

struct EntryFile {
  std::vector<u8> bytes;
  FileIdentity identity;
  std::string problem;  // why the bytes must not be used; empty: they are complete
};

struct EntryName {
  std::string name;  // "<2 hex>/<62 hex>.ctn"
  FileIdentity identity;
};

class CacheDirectory {
 public:
  // Opens `path` (absolute or relative; if `writable`, created 0700 with its parents) and removes
  // temporary files older than an hour. kCacheIo names the path, the problem (not a folder, a
  // symbolic link, another owner, a mode that lets others write) and the fix.
  static Expected<std::unique_ptr<CacheDirectory>> open(FileSystem& files, const std::string& path,
                                                        bool writable);
  CacheDirectory(const CacheDirectory&) = delete;
  CacheDirectory& operator=(const CacheDirectory&) = delete;

  const std::string& path() const { return path_; }
  bool writable() const { return writable_; }

  static std::string entry_name(const KernelKey& key);
  // The 64 hex digits of a name; empty: not the name of an entry.
  static std::string key_hex(const std::string& name);
  std::string full_path(const std::string& name) const;

  // Null: no such entry. kCacheIo: it could not be read.
  Expected<std::optional<EntryFile>> read(const std::string& name) const;

  // Makes `bytes` the entry of `name`, atomically. kCacheIo names the step that failed.
  Error write(const std::string& name, llvm::ArrayRef<u8> bytes);

  // Moves a bad entry, be it a file or a folder, to v1/bad if this user owns it and it is still
  // what `seen` describes. With 16 there, it is removed instead.
  void quarantine(const std::string& name, const FileIdentity& seen);

  // All entries, by name. kCacheIo: a folder could not be listed.
  Expected<std::vector<EntryName>> entries() const;

  // The entries in the folder of `name`, one of 256, in any order, without those that cannot be
  // read.
  std::vector<EntryName> neighbours(const std::string& name) const;

  // Sets the time of an entry that is in use, for pruning by age, if the time in `seen` is at least
  // an hour old. Failures are ignored.
  void mark_used(const std::string& name, const FileIdentity& seen);

  // The lock of an entry that this process is about to make; waits at most `patience` for another
  // process. kUnavailable if the folder is read-only.
  EntryLock lock_entry(const std::string& name, std::chrono::milliseconds patience);

  // Keeps other processes from pruning while it lives.
  class PruneLock {
   public:
    PruneLock(PruneLock&& other) noexcept : directory_(std::exchange(other.directory_, nullptr)) {}
    PruneLock& operator=(PruneLock&&) = delete;
    ~PruneLock();

   private:
    friend class CacheDirectory;
    explicit PruneLock(const CacheDirectory& directory) : directory_(&directory) {}
    const CacheDirectory* directory_;
  };
  // Empty: another process is pruning. Held on a file system without locks: two processes that
  // prune at once only repeat some work.
  std::optional<PruneLock> try_lock();

  // Removes an entry, be it a file or a folder. False: it is still there.
  bool remove(const std::string& name);

  // Removes temporary files and locks of dead processes, an hour after the last write.
  void sweep_orphans();

  // Removes the files of v1/`folder` ("tmp", "locks" or "bad") that are at least that old.
  void sweep(const char* folder, i64 min_age_seconds);

 private:
  CacheDirectory(FileSystem& files, std::string path, OpenFile root, bool writable)
      : files_(files), path_(std::move(path)), folder_(std::move(root)), writable_(writable) {}

  Expected<bool> check_part(const char* part) const;
  Error make_part(const char* part);
  bool remove_all(const std::string& path, int depth);
  int read_open_file(int file, EntryFile& entry) const;
  Expected<OpenFile> create_temporary(std::string& name);
  int write_temporary(OpenFile file, llvm::ArrayRef<u8> bytes, const char*& step);
  int publish(const std::string& temporary, const std::string& name);
  Error write_error(const char* step, int error) const;
  Error part_error(const char* part, const std::string& problem) const;

  FileSystem& files_;
  std::string path_;
  OpenFile folder_;  // <path>/v1
  const int root_ = folder_.get();
  bool writable_;
};

}  // namespace catenary
