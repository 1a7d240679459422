// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/tuning.h"

#include <fcntl.h>

#include <cerrno>

#include "compiler/compile/environment.h"
#include "compiler/compile/templates.h"
#include "runtime/cache/cache_directory.h"
#include "runtime/warnings.h"

namespace catenary {
namespace {

// The cause in a folder's error message, without its part about the cubin cache.
std::string cause(Error error) {
  const std::string message = take_report(std::move(error)).message;
  return message.substr(0, message.find("; "));
}

// Why a sound record must not be used; empty: it may.
std::string stale(const TuningRecord& record) {
  if (record.templates == templates_digest()) return "";
  return "it was measured with other device templates, run `catenary tune` again";
}

}  // namespace

struct TuningStore::State {
  explicit State(TuningOptions given) : options(std::move(given)), warnings(options.warn) {}

  TuningOptions options;
  Warnings warnings;
  std::string path;  // empty: no tuning
  std::string why_off = "tuning is switched off: set CATENARY_TUNING to ro or rw";
  std::unique_ptr<CacheDirectory> directory;  // null: nothing to read

  FileSystem& files() const {
    return options.file_system != nullptr ? *options.file_system : FileSystem::real();
  }
  void warn(const std::string& message) { warnings.warn(message); }
  void apply_environment();
  void find_path(const std::string& cache_directory);
  Error open(bool writable);
  Error need_directory(bool writable);
  Expected<TuningRecord> read(const std::string& name, EntryFile file) const;
};

void TuningStore::State::apply_environment() {
  const std::string ignored = read_cache_mode("CATENARY_TUNING", options.mode);
  if (!ignored.empty()) warn(ignored);
  options.directory = environment("CATENARY_TUNING_DIR");
}

void TuningStore::State::find_path(const std::string& cache_directory) {
  if (options.directory.empty()) apply_environment();
  if (options.mode == CacheMode::kOff) return;
  path = options.directory;
  if (path.empty() && !cache_directory.empty()) path = cache_directory + "/tuning";
  if (path.empty()) why_off = "no folder for tuning records is known: set CATENARY_TUNING_DIR";
}

Error TuningStore::State::open(bool writable) {
  auto opened = CacheDirectory::open(files(), path, writable);
  if (!opened) return opened.takeError();
  directory = std::move(*opened);
  return Error::success();
}

// Every check between a file's bytes and a plan, except that of the device.
Expected<TuningRecord> TuningStore::State::read(const std::string& name, EntryFile file) const {
  if (!file.problem.empty()) return make_error_text(ErrorCode::kCorruptArtifact, file.problem);
  Expected<TuningRecord> record = parse_tuning(file.bytes);
  if (!record) return record.takeError();
  Target target;
  target.name = record->target;
  target.arch = record->arch;
  target.sm_count = record->sm_count;
  if (CacheDirectory::entry_name(tuning_key(target, record->signature)) != name) {
    return make_error(ErrorCode::kCorruptArtifact, "it is another contraction's or device's ({})",
                      record->target);
  }
  return record;
}

TuningStore::TuningStore(TuningOptions options, const std::string& cache_directory)
    : state_(std::make_unique<State>(std::move(options))) {
  state_->find_path(cache_directory);
  if (state_->path.empty()) return;
  // Most users have no records: that is not worth a warning.
  struct stat info;
  const std::string root = state_->path + "/v1";
  if (state_->files().stat(AT_FDCWD, root.c_str(), &info) < 0) return;
  if (Error error = state_->open(false)) {
    state_->warn(fmt::format("no tuning records are used: {}", cause(std::move(error))));
  }
}

TuningStore::~TuningStore() = default;

const std::string& TuningStore::directory() const { return state_->path; }
bool TuningStore::writable() const {
  return !state_->path.empty() && state_->options.mode == CacheMode::kReadWrite;
}

std::optional<TuningRecord> TuningStore::find(const Target& target,
                                              const std::string& signature) const {
  if (!state_->directory) return std::nullopt;
  const std::string name = CacheDirectory::entry_name(tuning_key(target, signature));
  auto file = state_->directory->read(name);
  if (!file) {
    state_->warn(fmt::format("no tuning records are used: {}", cause(file.takeError())));
    return std::nullopt;
  }
  if (!*file) return std::nullopt;
  Expected<TuningRecord> record = state_->read(name, std::move(**file));
  std::string reason;
  if (!record) {
    reason = take_report(record.takeError()).message;
  } else {
    reason = stale(*record);
  }
  if (reason.empty()) return std::move(*record);
  state_->warn(
      fmt::format("tuning record {} is not used: {}", state_->directory->full_path(name), reason));
  return std::nullopt;
}

std::optional<TunedChoice> TuningStore::choice(const Target& target,
                                               const std::string& signature) const {
  const auto record = find(target, signature);
  if (!record) return std::nullopt;
  return TunedChoice{record->winner, tuning_summary(*record)};
}

Error TuningStore::State::need_directory(bool writable) {
  if (path.empty()) return make_error_text(ErrorCode::kCacheIo, why_off);
  if (writable && options.mode != CacheMode::kReadWrite) {
    return make_error(ErrorCode::kCacheIo,
                      "tuning records are read-only: set CATENARY_TUNING=rw to change them");
  }
  if (directory && directory->writable() >= writable) return Error::success();
  if (Error error = open(writable)) {
    return make_error(ErrorCode::kCacheIo, "tuning records: {}", cause(std::move(error)));
  }
  return Error::success();
}

Error TuningStore::write(const TuningRecord& record) {
  if (Error error = state_->need_directory(true)) return error;
  Target target;
  target.name = record.target;
  target.arch = record.arch;
  target.sm_count = record.sm_count;
  const std::string name = CacheDirectory::entry_name(tuning_key(target, record.signature));
  if (Error error = state_->directory->write(name, tuning_bytes(record))) {
    return make_error(ErrorCode::kCacheIo, "the tuning record was not kept: {}",
                      cause(std::move(error)));
  }
  return Error::success();
}

Expected<std::vector<TuningEntry>> TuningStore::list() const {
  std::vector<TuningEntry> found;
  if (state_->path.empty()) return make_error_text(ErrorCode::kCacheIo, state_->why_off);
  if (!state_->directory) return found;
  auto names = state_->directory->entries();
  if (!names) return names.takeError();
  for (const EntryName& entry : *names) {
    TuningEntry one{entry.name, {}, ""};
    auto file = state_->directory->read(entry.name);
    if (!file) return file.takeError();
    if (!*file) continue;
    Expected<TuningRecord> record = state_->read(entry.name, std::move(**file));
    if (record) {
      one.record = std::move(*record);
      one.unused = stale(one.record);
    } else {
      one.unused = take_report(record.takeError()).message;
    }
    found.push_back(std::move(one));
  }
  return found;
}

Expected<int> TuningStore::clear() {
  if (!state_->path.empty() && !state_->directory) return 0;
  if (Error error = state_->need_directory(true)) return error;
  auto names = state_->directory->entries();
  if (!names) return names.takeError();
  int removed = 0;
  for (const EntryName& entry : *names) {
    if (!state_->directory->remove(entry.name)) {
      return make_error(ErrorCode::kCacheIo, "tuning record {} cannot be removed: check its folder",
                        state_->directory->full_path(entry.name));
    }
    ++removed;
  }
  return removed;
}

}  // namespace catenary
