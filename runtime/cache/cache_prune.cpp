// SPDX-License-Identifier: Apache-2.0
// Pruning by age: the time of an entry is that of its last use, within an hour.
#include "runtime/cache/cache_prune.h"

#include <algorithm>
#include <chrono>

#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

constexpr i64 kPruneIntervalMs = 20 * 60 * 1000;
constexpr i64 kFolders = 256;
// Up to this many entries are pruned as a whole, in some ten milliseconds; above it a folder at a
// time, so that no compile waits for more than one folder.
constexpr i64 kFewEntries = 4096;

// At least 1, so that with a bound of 0 empty files are removed too.
i64 cost(const EntryName& entry) { return std::max<i64>(1, entry.identity.bytes); }

i64 total_cost(const std::vector<EntryName>& entries) {
  i64 total = 0;
  for (const EntryName& entry : entries) total += cost(entry);
  return total;
}

i64 steady_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// Removes the least recently used of `entries` until at most `target` bytes are left, if there are
// more than `limit`.
Expected<int> prune_above(CacheDirectory& directory, std::vector<EntryName> entries, i64 limit,
                          i64 target) {
  i64 total = total_cost(entries);
  if (total <= limit) return 0;
  llvm::stable_sort(entries, [](const EntryName& a, const EntryName& b) {
    return a.identity.modified_ns < b.identity.modified_ns;
  });
  int removed = 0;
  std::string stuck;
  for (const EntryName& entry : entries) {
    if (total <= target) break;
    if (!directory.remove(entry.name)) {
      stuck = directory.full_path(entry.name);
      continue;
    }
    total -= cost(entry);
    ++removed;
  }
  if (!stuck.empty() && total > target) {
    return make_error(ErrorCode::kCacheIo,
                      "cache entry {} cannot be removed: check the mode of its folder", stuck);
  }
  return removed;
}

i64 estimate(const std::vector<EntryName>& neighbours, const std::string& name) {
  i64 own = 0;
  i64 others = 0;
  for (const EntryName& entry : neighbours) (entry.name == name ? own : others) += cost(entry);
  return own + kFolders * others;
}

}  // namespace

Expected<int> prune_entries(CacheDirectory& directory, i64 max_bytes) {
  auto entries = directory.entries();
  if (!entries) return entries.takeError();
  return prune_above(directory, std::move(*entries), max_bytes, max_bytes);
}

i64 estimate_bytes(const CacheDirectory& directory, const std::string& name) {
  return estimate(directory.neighbours(name), name);
}

// True for one caller in each interval.
bool SizeBound::due() {
  const i64 now = steady_ms();
  i64 next = next_prune_ms_.load();
  return now >= next && next_prune_ms_.compare_exchange_strong(next, now + kPruneIntervalMs);
}

Error SizeBound::prune_all(CacheDirectory& directory) {
  if (!due()) return Error::success();
  const std::optional<CacheDirectory::PruneLock> lock = directory.try_lock();
  if (!lock) return Error::success();
  directory.sweep_orphans();
  auto entries = directory.entries();
  if (!entries) return entries.takeError();
  return prune_above(directory, std::move(*entries), max_bytes_, target()).takeError();
}

// Each folder has its share of the bound: keys are digests. The written entry's own folder, and
// another one in turn, so that folders without writes come down too.
Error SizeBound::prune_folders(CacheDirectory& directory, std::vector<EntryName> neighbours) {
  const std::string next = fmt::format("{:02x}", next_folder_.fetch_add(1) % kFolders);
  auto removed =
      prune_above(directory, std::move(neighbours), target() / kFolders, target() / kFolders);
  if (!removed) return removed.takeError();
  return prune_above(directory, directory.neighbours(next), target() / kFolders,
                     target() / kFolders)
      .takeError();
}

Error SizeBound::after_write(CacheDirectory& directory, const std::string& name) {
  if (max_bytes_ == 0) return Error::success();
  std::vector<EntryName> neighbours = directory.neighbours(name);
  if (estimate(neighbours, name) <= max_bytes_) return Error::success();
  if (static_cast<i64>(neighbours.size()) * kFolders <= kFewEntries) return prune_all(directory);
  return prune_folders(directory, std::move(neighbours));
}

}  // namespace catenary
