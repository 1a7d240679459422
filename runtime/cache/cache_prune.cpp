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

// At least 1, so that a bound of 0 removes empty files too.
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

// Removes entries until at most `target` bytes are left, if there are more than `limit`.
Expected<int> prune_above(CacheDirectory& directory, i64 limit, i64 target) {
  auto entries = directory.entries();
  if (!entries) return entries.takeError();
  i64 total = total_cost(*entries);
  if (total <= limit) return 0;
  llvm::stable_sort(*entries, [](const EntryName& a, const EntryName& b) {
    return a.identity.modified_ns < b.identity.modified_ns;
  });
  int removed = 0;
  std::string stuck;
  for (const EntryName& entry : *entries) {
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

}  // namespace

Expected<int> prune_entries(CacheDirectory& directory, i64 max_bytes) {
  return prune_above(directory, max_bytes, max_bytes);
}

i64 estimate_bytes(const CacheDirectory& directory, const std::string& name) {
  i64 own = 0;
  i64 others = 0;
  for (const EntryName& entry : directory.neighbours(name)) {
    (entry.name == name ? own : others) += cost(entry);
  }
  return own + kFolders * others;
}

// True for one caller in each interval.
bool SizeBound::due() {
  const i64 now = steady_ms();
  i64 next = next_prune_ms_.load();
  return now >= next && next_prune_ms_.compare_exchange_strong(next, now + kPruneIntervalMs);
}

Error SizeBound::after_write(CacheDirectory& directory, const std::string& name) {
  if (max_bytes_ == 0 || estimate_bytes(directory, name) <= max_bytes_) return Error::success();
  if (!due() || !directory.try_lock()) return Error::success();
  directory.sweep_orphans();
  Expected<int> removed = prune_above(directory, max_bytes_, max_bytes_ / 5 * 4);
  directory.unlock();
  return removed.takeError();
}

}  // namespace catenary
