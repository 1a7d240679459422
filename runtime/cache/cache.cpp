// SPDX-License-Identifier: Apache-2.0
// The path of a lookup (README.md has the figure): memory, disk, compile, store. A problem of the
// disk tier is a miss, a counter and one warning; it never fails a lookup.
#include "runtime/cache/cache.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "compiler/compile/environment.h"
#include "ir/callbacks.h"
#include "ir/log.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "runtime/cache/cache_directory.h"
#include "runtime/cache/cache_entry.h"
#include "runtime/cache/cache_prune.h"
#include "runtime/cache/memory_tier.h"
#include "runtime/cache/single_flight.h"
#include "runtime/warnings.h"

namespace catenary {
namespace {

constexpr size_t kMaxFailures = 1024;
constexpr i64 kDefaultMaxBytes = i64{2} << 30;

using CubinPtr = std::shared_ptr<const Cubin>;

// The result of a lookup: a cubin, or an error if the cubin is null.
struct Outcome {
  CubinPtr cubin;
  ErrorReport error;
  CacheTier tier = CacheTier::kMemory;
};

// The result of looking for a key on disk.
struct Loaded {
  std::optional<Outcome> outcome;  // verified; empty is a miss, for any reason
  bool unreadable = false;         // a miss because the folder cannot be read
};

// The only failure that is an entry on disk: the next choice of a plan depends on it.
bool is_kept_on_disk(const Outcome& outcome) {
  return outcome.cubin ||
         (outcome.error.code == ErrorCode::kKernelRejected && !outcome.error.message.empty());
}

Outcome outcome_of(CacheEntry entry) {
  if (entry.rejection.empty()) {
    return {std::make_shared<const Cubin>(std::move(entry.cubin)), {}, CacheTier::kDisk};
  }
  ErrorReport error;
  error.code = ErrorCode::kKernelRejected;
  error.message = std::move(entry.rejection);
  return {nullptr, std::move(error), CacheTier::kDisk};
}

bool is_deterministic(ErrorCode code) {
  return code == ErrorCode::kCompileFailed || code == ErrorCode::kKernelRejected ||
         code == ErrorCode::kUnsupported || code == ErrorCode::kResourceLimit;
}

// Where the disk tier is, if there is one.
struct CacheLocation {
  std::string directory;  // empty: no disk tier
  CacheMode mode = CacheMode::kReadWrite;
  std::string why_off;  // the reason for an empty directory
  std::string warning;
};

struct Bound {
  i64 max_bytes = kDefaultMaxBytes;
  std::string warning;
};

Bound find_bound(const CacheOptions& options) {
  Bound bound;
  const std::string text = environment("CATENARY_CACHE_MAX_BYTES");
  i64 bytes = 0;
  if (options.max_bytes) {
    bound.max_bytes = std::max<i64>(0, *options.max_bytes);
  } else if (text.empty()) {
    return bound;
  } else if (llvm::StringRef(text).getAsInteger(10, bytes) || bytes < 0) {
    bound.warning = fmt::format(
        "CATENARY_CACHE_MAX_BYTES={} is ignored: give a number of bytes, or 0 for no bound", text);
  } else {
    bound.max_bytes = bytes;
  }
  return bound;
}

// Used where the options name no directory.
void apply_environment(CacheLocation& location) {
  location.warning = read_cache_mode("CATENARY_CACHE", location.mode);
  location.directory = environment("CATENARY_CACHE_DIR");
  if (!location.directory.empty()) return;
  // XDG Base Directory Specification: a relative path is ignored.
  if (const std::string xdg = environment("XDG_CACHE_HOME"); xdg.starts_with('/')) {
    location.directory = xdg + "/catenary";
  } else if (const std::string home = environment("HOME"); !home.empty()) {
    location.directory = home + "/.cache/catenary";
  }
}

CacheLocation find_location(const CacheOptions& options) {
  CacheLocation location{options.directory, options.mode, "", ""};
  if (location.directory.empty()) apply_environment(location);
  if (location.mode == CacheMode::kOff) {
    location.directory.clear();
    location.why_off = "the disk cache is switched off";
  } else if (location.directory.empty()) {
    location.why_off = "no folder for the cache is known: set CATENARY_CACHE_DIR or HOME";
    if (location.warning.empty()) location.warning = location.why_off;
  }
  return location;
}

// All checks of a file before its bytes may reach the driver.
Expected<CacheEntry> verified(EntryFile file, const std::string& name) {
  if (!file.problem.empty()) return make_error_text(ErrorCode::kCorruptArtifact, file.problem);
  Expected<CacheEntry> entry = parse_entry(file.bytes);
  if (entry && CacheDirectory::entry_name(entry->key) != name) {
    return make_error(ErrorCode::kCorruptArtifact, "it holds key {}", entry->key.hex());
  }
  return entry;
}

}  // namespace

struct CubinCache::State {
  explicit State(CacheOptions given)
      : options(std::move(given)),
        size_bound(find_bound(options).max_bytes),
        warnings(options.warn),
        memory(options.memory_bytes) {}

  void open_directory();
  void warn(const std::string& message) { warnings.warn(message); }
  std::optional<Outcome> recall(const CubinId& id);
  void keep(const CubinId& id, const Outcome& outcome);
  Loaded load(const CubinId& id);
  std::optional<Outcome> load_locked(const CubinId& id, EntryLock& lock);
  Outcome produce(const CubinId& id, const Compile& compile, EntryLock& lock);
  void store(const CubinId& id, const Outcome& outcome, const KernelName& name);
  Error need_directory(bool writable) const;

  const CacheOptions options;
  SizeBound size_bound;
  std::unique_ptr<CacheDirectory> directory;  // null: no disk tier
  std::string directory_path;
  std::string why_off;

  Warnings warnings;
  std::mutex mutex;  // guards memory and failures
  MemoryTier memory;
  std::map<CubinId, ErrorReport> failures;

  SingleFlight<CubinId, Outcome> flights;
  std::atomic<u64> memory_hits{0}, disk_hits{0}, misses{0};
  std::atomic<u64> write_errors{0}, read_errors{0}, corrupt{0};
};

void CubinCache::State::open_directory() {
  const CacheLocation location = find_location(options);
  why_off = location.why_off;
  const Bound bound = find_bound(options);
  if (!bound.warning.empty()) warn(bound.warning);
  if (!location.warning.empty()) warn(location.warning);
  if (location.directory.empty()) {
    log_event(LogLevel::kDebug, "no cache on disk: {}", why_off);
    return;
  }
  FileSystem& files = options.file_system ? *options.file_system : FileSystem::real();
  auto opened =
      CacheDirectory::open(files, location.directory, location.mode == CacheMode::kReadWrite);
  if (!opened) {
    why_off = take_report(opened.takeError()).message;
    warn(why_off);
    return;
  }
  directory = std::move(*opened);
  directory_path = directory->path();
  log_event(LogLevel::kDebug, "cache {}, {}", directory_path,
            directory->writable() ? "read-write" : "read-only");
}

std::optional<Outcome> CubinCache::State::recall(const CubinId& id) {
  std::lock_guard lock(mutex);
  if (CubinPtr cubin = memory.find(id)) return Outcome{std::move(cubin), {}};
  if (const auto it = failures.find(id); it != failures.end()) return Outcome{nullptr, it->second};
  return std::nullopt;
}

// If memory for it runs out, the outcome is not kept; the caller still has it.
void CubinCache::State::keep(const CubinId& id, const Outcome& outcome) try {
  std::lock_guard lock(mutex);
  if (outcome.cubin) {
    memory.insert(id, outcome.cubin);
  } else if (is_deterministic(outcome.error.code)) {
    // Clearing all is the simplest bound; it costs one failing compile per error.
    if (failures.size() >= kMaxFailures) failures.clear();
    failures.emplace(id, outcome.error);
  }
} catch (const std::bad_alloc&) {
}

Loaded CubinCache::State::load(const CubinId& id) {
  if (!directory) return {std::nullopt, true};
  const std::string name = CacheDirectory::entry_name(id.first);
  Expected<std::optional<EntryFile>> file = directory->read(name);
  if (!file) {
    ++read_errors;
    warn(take_report(file.takeError()).message);
    return {std::nullopt, true};
  }
  if (!*file) {
    log_event(LogLevel::kDebug, "no entry {}", directory->full_path(name));
    return {};
  }
  const FileIdentity identity = (*file)->identity;
  Expected<CacheEntry> entry = verified(std::move(**file), name);
  if (entry && entry->record != id.second) {
    entry = make_error(ErrorCode::kCorruptArtifact, "its key record differs");
  }
  if (!entry) {
    ++corrupt;
    warn(fmt::format("cache entry {} is not used: {}; the kernel is compiled again",
                     directory->full_path(name), take_report(entry.takeError()).message));
    directory->quarantine(name, identity);
    return {};
  }
  ++disk_hits;
  directory->mark_used(name, identity);
  return {outcome_of(std::move(*entry))};
}

// Loads from disk. After a miss it takes the entry's lock and looks again, since another process
// may have stored the entry by then.
std::optional<Outcome> CubinCache::State::load_locked(const CubinId& id, EntryLock& lock) {
  Loaded first = load(id);
  if (first.outcome || first.unreadable) return std::move(first.outcome);
  const std::string name = CacheDirectory::entry_name(id.first);
  lock = directory->lock_entry(name, options.patience);
  if (lock.state() == EntryLock::State::kHeld) return load(id).outcome;
  if (lock.state() == EntryLock::State::kTimedOut && options.patience.count() > 0) {
    warn(
        fmt::format("another process holds the lock of cache entry {} for more than {} ms; the "
                    "kernel is compiled here as well",
                    directory->full_path(name), options.patience.count()));
  }
  return std::nullopt;
}

// The work of one flight. Another flight of the same key may have ended between the first recall()
// and this one. `lock` is the entry's until the caller has stored it.
Outcome CubinCache::State::produce(const CubinId& id, const Compile& compile, EntryLock& lock) {
  if (std::optional<Outcome> known = recall(id)) {
    if (known->cubin) ++memory_hits;
    return *known;
  }
  std::optional<Outcome> loaded = load_locked(id, lock);
  Outcome outcome;
  if (loaded) {
    outcome = std::move(*loaded);
  } else {
    ++misses;
    outcome.tier = CacheTier::kCompiled;
    Expected<Cubin> cubin = compile();
    if (cubin) {
      outcome.cubin = std::make_shared<const Cubin>(std::move(*cubin));
    } else {
      outcome.error = take_report(cubin.takeError());
      if (!is_kept_on_disk(outcome)) lock.mark_failed();
    }
  }
  keep(id, outcome);
  return outcome;
}

// If memory for its bytes runs out, the entry is not written.
void CubinCache::State::store(const CubinId& id, const Outcome& outcome,
                              const KernelName& kernel) try {
  if (!directory || !directory->writable() || !is_kept_on_disk(outcome)) return;
  CacheEntry entry;
  entry.key = id.first;
  entry.record = id.second;
  entry.rejection = outcome.error.message;
  if (outcome.cubin) {
    entry.cubin = *outcome.cubin;
  } else {
    entry.cubin.symbol = kernel.symbol;
    entry.cubin.arch = kernel.arch;
    entry.cubin.compiler_id = kernel.compiler_id;
  }
  const std::string name = CacheDirectory::entry_name(id.first);
  const std::vector<u8> bytes = serialize_entry(entry);
  if (Error error = directory->write(name, bytes)) {
    ++write_errors;
    warn(take_report(std::move(error)).message);
    return;
  }
  log_event(LogLevel::kDebug, "wrote entry {} of {} bytes", directory->full_path(name),
            bytes.size());
  if (Error late = size_bound.after_write(*directory, name)) {
    warn(take_report(std::move(late)).message);
  }
} catch (const std::bad_alloc&) {
  ++write_errors;
}

Error CubinCache::State::need_directory(bool writable) const {
  if (!directory) return make_error(ErrorCode::kCacheIo, "there is no disk cache: {}", why_off);
  if (writable && !directory->writable()) {
    return make_error(ErrorCode::kCacheIo,
                      "cache folder {} is open read-only: set "
                      "CATENARY_CACHE=rw to change it",
                      directory_path);
  }
  return Error::success();
}

CubinCache::CubinCache(CacheOptions options) : state_(std::make_unique<State>(std::move(options))) {
  state_->open_directory();
}

CubinCache::~CubinCache() = default;

Expected<CubinPtr> CubinCache::get(const KernelKey& key, const std::string& record,
                                   const Compile& compile, CacheTier* tier,
                                   const KernelName& name) {
  const CubinId id{key, record};
  std::optional<Outcome> outcome = state_->recall(id);
  bool led = false;
  const CallbacksHeld held;  // during the flight, and while the entry is locked
  EntryLock lock;
  if (!outcome) {
    auto result = state_->flights.run(id, [&] { return state_->produce(id, compile, lock); });
    outcome = std::move(result.value);
    led = result.led;
  }
  // After the flight: the callers that wait for the cubin do not wait for the disk.
  if (led && outcome->tier == CacheTier::kCompiled) state_->store(id, *outcome, name);
  if (!outcome->cubin) {
    const ErrorReport& error = outcome->error;
    return make_error_text(error.code, error.message, error.at);
  }
  if (!led) ++state_->memory_hits;
  if (tier != nullptr) *tier = led ? outcome->tier : CacheTier::kMemory;
  return outcome->cubin;
}

CubinPtr CubinCache::find(const KernelKey& key, const std::string& record) {
  const CubinId id{key, record};
  if (std::optional<Outcome> known = state_->recall(id); known && known->cubin) {
    ++state_->memory_hits;
    return known->cubin;
  }
  const std::optional<Outcome> loaded = state_->load(id).outcome;
  if (!loaded) return nullptr;
  state_->keep(id, *loaded);
  return loaded->cubin;
}

CacheStats CubinCache::stats() const {
  const State& s = *state_;
  return {s.memory_hits, s.disk_hits, s.misses, s.write_errors, s.read_errors, s.corrupt};
}

const std::string& CubinCache::directory() const { return state_->directory_path; }

std::string CubinCache::why_off() const { return state_->why_off; }

void CubinCache::warn(const std::string& line) { state_->warn(line); }

i64 CubinCache::max_bytes() const { return state_->size_bound.max_bytes(); }

Expected<std::vector<CacheEntryInfo>> CubinCache::list() const {
  if (Error error = state_->need_directory(false)) return error;
  auto names = state_->directory->entries();
  if (!names) return names.takeError();
  std::vector<CacheEntryInfo> infos;
  for (const EntryName& entry : *names) {
    Expected<std::optional<EntryFile>> file = state_->directory->read(entry.name);
    if (file && !*file) continue;  // removed since the listing
    CacheEntryInfo info;
    info.key_hex = CacheDirectory::key_hex(entry.name);
    info.path = state_->directory->full_path(entry.name);
    info.bytes = entry.identity.bytes;
    Expected<CacheEntry> content =
        file ? verified(std::move(**file), entry.name) : Expected<CacheEntry>(file.takeError());
    if (content) {
      info.symbol = content->cubin.symbol;
      info.arch = content->cubin.arch;
      info.compiler_id = content->cubin.compiler_id;
      info.rejection = std::move(content->rejection);
    } else {
      info.problem = take_report(content.takeError()).message;
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

Expected<int> CubinCache::clear() {
  {
    std::lock_guard lock(state_->mutex);
    state_->memory.clear();
    state_->failures.clear();
  }
  Expected<int> removed = prune(0);
  if (!removed) return removed;
  for (const char* folder : {"tmp", "locks", "bad"}) {
    state_->directory->sweep(folder, std::numeric_limits<i64>::min());
  }
  return removed;
}

Expected<int> CubinCache::remove(llvm::ArrayRef<std::string> keys_hex) {
  if (Error error = state_->need_directory(true)) return error;
  auto names = state_->directory->entries();
  if (!names) return names.takeError();
  int removed = 0;
  for (const EntryName& entry : *names) {
    if (!llvm::is_contained(keys_hex, CacheDirectory::key_hex(entry.name))) continue;
    if (!state_->directory->remove(entry.name)) {
      return make_error(ErrorCode::kCacheIo,
                        "cache entry {} cannot be removed: check the mode of its folder",
                        state_->directory->full_path(entry.name));
    }
    ++removed;
  }
  return removed;
}

Expected<int> CubinCache::prune(i64 max_bytes) {
  if (max_bytes < 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the cache cannot be pruned to {} bytes: give 0 or more", max_bytes);
  }
  if (Error error = state_->need_directory(true)) return error;
  return prune_entries(*state_->directory, max_bytes);
}

}  // namespace catenary
