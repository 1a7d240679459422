// SPDX-License-Identifier: Apache-2.0
// Measured choices by device and contraction, on disk beside the cubins: read by Engine::compile,
// written by `catenary tune`. The folder is a CacheDirectory and has its rules of trust and its
// atomic writes. A record that is damaged, stale or another device's is passed over with one
// warning; nothing here fails a compile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/plan.h"
#include "runtime/cache/cache.h"
#include "runtime/tuning/tuning_record.h"

namespace catenary {

struct TuningOptions {
  // Empty: CATENARY_TUNING_DIR, else "tuning" below the folder of the cubin cache, if it has one.
  std::string directory;
  // CATENARY_TUNING=off|ro|rw overrides when `directory` is empty. An engine only reads.
  CacheMode mode = CacheMode::kReadWrite;
  // One line per distinct problem. Empty: they go to the log.
  std::function<void(const std::string&)> warn;
  FileSystem* file_system = nullptr;  // null: the real one
};

struct TuningEntry {
  std::string name;  // of its file
  TuningRecord record;
  std::string unused;  // why it is not used; empty: it is
};

// Reading is safe from many threads; one directory may be used by many processes.
class TuningStore {
 public:
  // `cache_directory`: the cubin cache's, may be empty.
  TuningStore(TuningOptions options, const std::string& cache_directory);
  ~TuningStore();

  const std::string& directory() const;  // empty: there is none, and nothing is found
  bool writable() const;

  // The record of a contraction on exactly this target, made for these device templates; nothing
  // when there is none or it may not be used.
  std::optional<TuningRecord> find(const Target& target, const std::string& signature) const;

  // The same as what make_plan asks for (PlanOptions::tuned).
  std::optional<TunedChoice> choice(const Target& target, const std::string& signature) const;

  // kCacheIo: there is no directory, it is read-only, or a step of the write failed.
  Error write(const TuningRecord& record);

  // Every record of the directory, also those that are not used. kCacheIo.
  Expected<std::vector<TuningEntry>> list() const;
  // Removes all; how many. kCacheIo.
  Expected<int> clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace catenary
