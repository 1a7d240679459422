// SPDX-License-Identifier: Apache-2.0
#include "runtime/lookup/pack_lookup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "compiler/compile/host_compiler.h"
#include "ir/descriptor.h"
#include "ir/file_limit.h"
#include "ir/text/text.h"
#include "runtime/cache/file_system.h"
#include "runtime/lookup/nearest.h"

namespace catenary {
namespace {

constexpr size_t kShownDigits = 16;  // of a key, as `catenary pack list` shows it

i64 largest_smem(const ChainRecord& record) {
  i64 largest = 0;
  for (const BucketRecord& bucket : record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) {
      largest = std::max(largest, kernel.smem_bytes);
    }
  }
  return largest;
}

// How far the GPU that an entry is planned for is from the device. 0: the same kind of GPU. An
// entry at any distance gives right results; its plan is meant for distance 0.
i64 distance(const Target& planned, const Target& device) {
  const i64 sms = std::abs(planned.sm_count - device.sm_count);
  return 2 * sms + (planned.name != device.name);
}

// The record under the names of `chain`. Null: its tables are of another chain.
std::shared_ptr<ChainRecord> under_names_of(const ChainRecord& found, const VerifiedChain& chain) {
  auto record = std::make_shared<ChainRecord>(found);
  record->text = print(chain.chain());
  record->name = chain.chain().name;
  if (record->symbol.has_value() != chain.chain().symbol.has_value()) return nullptr;
  if (record->symbol) {
    record->symbol->name = chain.chain().symbol->name;
    if (*record->symbol != *chain.chain().symbol) return nullptr;
  }
  size_t tensor = 0;
  size_t scalars = 0;
  std::map<ValueId, int> places;  // of the tensor parameters
  const auto same = [&](const std::string& name, Role role, const TensorType& type, int in_place) {
    if (tensor == record->tensors.size()) return false;
    TensorRecord& mine = record->tensors[tensor++];
    mine.name = name;
    return mine.role == role && mine.type == type && mine.in_place == in_place;
  };
  for (ValueId id : chain.parameters()) {
    const Value& value = chain.value(id);
    if (value.role == Role::kScalar) {
      ++scalars;
    } else {
      places[id] = static_cast<int>(tensor);
      if (!same(value.name, value.role, chain.info(id).type, -1)) return nullptr;
    }
  }
  if (scalars != record->num_scalars || tensor != record->num_inputs) return nullptr;
  const auto& outputs = chain.chain().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int in_place = outputs[i].in_place < 0 ? -1 : places.at(outputs[i].in_place);
    if (!same(chain.value(outputs[i].value).name, Role::kInput,
              chain.output_type(static_cast<int>(i)), in_place)) {
      return nullptr;
    }
  }
  return tensor == record->tensors.size() ? record : nullptr;
}

// One write at the end of the file, so that lines of several processes do not mix.
Error append_line(const std::string& path, std::string line) {
  line += '\n';
  const FileLimitIsAnError limit;
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  ssize_t written = -1;
  if (file) written = ::write(file.get(), line.data(), line.size());
  const int error = written < 0 ? errno : ENOSPC;
  if (written == static_cast<ssize_t>(line.size())) return Error::success();
  return make_error(ErrorCode::kIo, "cannot write the trace {}: {}", path, errno_text(error));
}

}  // namespace

struct PackLookup::Candidate {
  std::shared_ptr<const Pack> pack;
  PackEntry entry;
  KernelKey key;
  size_t arch = 0;  // index in archs_for()
  i64 distance = 0;
  bool better_than(const Candidate& other) const {
    return std::tie(arch, distance) < std::tie(other.arch, other.distance);
  }
};

PackLookup::PackLookup(LookupOptions options)
    : options_(std::move(options)), warnings_(options_.warn) {
  for (const auto& pack : options_.packs) packs_.push_back({pack, 0});
}

void PackLookup::add(std::shared_ptr<const Pack> pack, int priority) {
  const std::lock_guard lock(mutex_);
  const auto after = std::ranges::find_if(
      packs_, [priority](const Added& added) { return added.priority < priority; });
  packs_.insert(after, {std::move(pack), priority});
}

std::vector<PackLookup::Added> PackLookup::packs() const {
  const std::lock_guard lock(mutex_);
  return packs_;
}

bool PackLookup::idle() const {
  if (mode() != JitMode::kAuto || !options_.trace.empty()) return false;
  const std::lock_guard lock(mutex_);
  return packs_.empty();
}

Error PackLookup::add_candidates(const ChainRequest& request,
                                 const std::shared_ptr<const Pack>& pack,
                                 std::optional<Candidate>& best) {
  const std::vector<std::string> archs = archs_for(request);
  for (size_t arch = 0; arch < archs.size(); ++arch) {
    const KernelKey key = chain_key(request.canonical, archs[arch], request.options);
    Expected<std::pair<size_t, size_t>> rows = pack->rows_of(key);
    if (!rows) return rows.takeError();
    for (size_t row = rows->first; row < rows->second; ++row) {
      Expected<PackEntry> entry = pack->entry(row);
      if (!entry) return entry.takeError();
      if (entry->canonical != request.canonical) continue;
      if (largest_smem(entry->record) > request.target.smem_per_cta) continue;
      Candidate candidate{pack, std::move(*entry), key, arch, 0};
      candidate.distance = distance(candidate.entry.record.target, request.target);
      if (!best || candidate.better_than(*best)) best = std::move(candidate);
    }
  }
  return Error::success();
}

Expected<std::shared_ptr<const ChainRecord>> PackLookup::take(const ChainRequest& request,
                                                              Candidate best) {
  const Target planned = best.entry.record.target;
  auto read = best.pack->record(std::move(best.entry));
  if (!read) return read.takeError();
  std::shared_ptr<ChainRecord> record = under_names_of(**read, request.chain);
  if (!record) {
    return make_error(ErrorCode::kCorruptArtifact,
                      "the pack {} cannot be used: its entry of chain '{}' has the tensors of "
                      "another chain",
                      best.pack->name(), request.chain.chain().name);
  }
  record->from = fmt::format("entry {} of the pack {}", best.key.hex().substr(0, kShownDigits),
                             best.pack->name());
  if (planned.sm_count != request.target.sm_count) {
    warn_once(message_format(
        "chain '{}' of the pack {} is planned for {} SMs ({}), and the device has {}: it is right, "
        "and a pack built for this device may be faster",
        record->name, best.pack->name(), planned.sm_count, planned.name, request.target.sm_count));
  }
  return record;
}

Expected<std::shared_ptr<const ChainRecord>> PackLookup::find(const ChainRequest& request) {
  const std::vector<Added> all = packs();
  for (size_t i = 0; i < all.size();) {
    std::optional<Candidate> best;
    const int priority = all[i].priority;
    for (; i < all.size() && all[i].priority == priority; ++i) {
      if (Error error = add_candidates(request, all[i].pack, best)) {
        if (mode() == JitMode::kOff) return error;
        warn_unread(request, std::move(error));
      }
    }
    if (!best) continue;
    auto record = take(request, std::move(*best));
    if (record || mode() == JitMode::kOff) return record;
    warn_unread(request, record.takeError());
  }
  return nullptr;
}

void PackLookup::warn_unread(const ChainRequest& request, Error error) {
  warn_once(take_report(std::move(error)).message);
  const std::lock_guard lock(mutex_);
  unread_.insert({request.key, fit_of(request.target)});
}

Error PackLookup::miss(const ChainRequest& request) {
  bool first = false;
  bool unread = false;
  {
    const std::lock_guard lock(mutex_);
    first = missed_.insert({request.key, fit_of(request.target)}).second;
    unread = unread_.contains({request.key, fit_of(request.target)});
    if (first) missed_lines_ += request_line(request) + '\n';
  }
  if (mode() == JitMode::kAuto || (mode() == JitMode::kWarn && !first)) return Error::success();
  std::vector<std::shared_ptr<const Pack>> searched;
  for (const Added& added : packs()) searched.push_back(added.pack);
  const std::string what =
      message_format("chain '{}' for {} is in no pack", request.chain.chain().name,
                     request.target.name == request.target.arch || request.host
                         ? arch_words(request.arch())
                         : request.target.name + " (" + request.arch() + ")");
  if (unread) {
    warn_once(what + " that can be read, and is compiled");
    return Error::success();
  }
  const std::string why = nearest_text(request, searched);
  if (mode() == JitMode::kWarn) {
    warn_once(message_format("{}, and is compiled: {}", what, why));
    return Error::success();
  }
  return make_error(ErrorCode::kPackMiss,
                    "{}, and compiling is off: {}; build a pack of what was missed", what, why);
}

Error PackLookup::refuse_compiling(const ChainRequest& request) const {
  if (mode() != JitMode::kOff) return Error::success();
  return make_error(
      ErrorCode::kPackMiss,
      "chain '{}' would be compiled for {}, and compiling is off: take it from a pack",
      request.chain.chain().name, arch_words(request.arch()));
}

void PackLookup::trace(const ChainRequest& request) {
  if (options_.trace.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!traced_.insert({request.key, fit_of(request.target)}).second) return;
  }
  if (Error error = append_line(options_.trace, request_line(request))) {
    warn_once(take_report(std::move(error)).message);
  }
}

std::string PackLookup::missed() const {
  const std::lock_guard lock(mutex_);
  return missed_lines_;
}

}  // namespace catenary
