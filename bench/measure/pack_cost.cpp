// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/pack_cost.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "bench/measure/silent_driver.h"
#include "ir/parallel.h"
#include "ir/text/text.h"
#include "llvm/Support/Path.h"
#include "runtime/engine.h"
#include "tuner/statistics.h"

namespace catenary::bench {
namespace {

// Microseconds of body().
template <typename Body>
Expected<double> time_us(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  if (Error error = body()) return error;
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  return took.count();
}

// The median of `repeats` times after one that does not count.
template <typename Body>
Expected<double> median_us(int repeats, const Body& body) {
  std::vector<double> all;
  for (int i = -1; i < repeats; ++i) {
    Expected<double> us = time_us(body);
    if (!us) return us.takeError();
    if (i >= 0) all.push_back(*us);
  }
  return median(std::move(all));
}

// What reading any file costs at least.
Error map_first_page(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return make_error(ErrorCode::kIo, "cannot open the pack {}", path);
  const off_t bytes = ::lseek(file, 0, SEEK_END);
  void* mapped = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  if (mapped == MAP_FAILED) return make_error(ErrorCode::kIo, "cannot map the pack {}", path);
  const volatile u8 first = *static_cast<const u8*>(mapped);
  (void)first;
  ::munmap(mapped, static_cast<size_t>(bytes));
  return Error::success();
}

// Sums bytes of machine code by family and architecture.
class Sizes {
 public:
  Error add(const Pack& pack, const ChainRecord& record) {
    for (const BucketRecord& bucket : record.buckets) {
      for (const KernelRecord& kernel : bucket.kernels) {
        Expected<PackBlob> blob = pack.find_blob(kernel.identity);
        if (!blob) return blob.takeError();
        const auto bytes = static_cast<i64>(blob->bytes);
        ++kernels_;
        if (all_.insert(kernel.identity).second) bytes_ += bytes;
        families_[kernel.family].add(kernel.identity, bytes);
        archs_[record.arch].add(kernel.identity, bytes);
      }
    }
    return Error::success();
  }
  void write(PackCost& cost) const {
    cost.kernels = kernels_;
    cost.code_bytes = bytes_;
    for (const auto& [name, part] : families_) {
      cost.families.push_back({name, part.kernels, part.bytes});
    }
    for (const auto& [name, part] : archs_) {
      cost.archs.push_back({name, part.kernels, part.bytes});
    }
  }

 private:
  struct Part {
    void add(const KernelKey& identity, i64 size) {
      ++kernels;
      if (seen.insert(identity).second) bytes += size;
    }
    i64 kernels = 0;
    i64 bytes = 0;
    std::set<KernelKey> seen;
  };
  i64 kernels_ = 0;
  i64 bytes_ = 0;
  std::set<KernelKey> all_;
  std::map<std::string, Part> families_, archs_;
};

Expected<std::unique_ptr<Engine>> engine_with(const std::string& path) {
  EngineOptions options;
  options.cache.mode = CacheMode::kOff;
  options.cache.directory = "off";  // not empty, so that CATENARY_CACHE does not override the mode
  options.tuning.mode = CacheMode::kOff;
  options.tuning.directory = "off";
  options.lookup.jit = JitMode::kOff;
  auto engine = std::make_unique<Engine>(std::move(options));
  Expected<std::shared_ptr<const Pack>> pack = Pack::open(path);
  if (!pack) return pack.takeError();
  engine->add_pack(std::move(*pack));
  return engine;
}

// The slowest and the median entry, each the median of its own times.
struct Times {
  double median_us = 0;
  double worst_us = 0;
};

// Runs `step(engine, chain)` for every chain in engines that have done nothing before.
template <typename Step>
Expected<Times> time_entries(const std::string& path, const std::vector<Chain>& chains, int repeats,
                             const Step& step) {
  std::vector<std::vector<double>> times(chains.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    auto engine = engine_with(path);
    if (!engine) return engine.takeError();
    for (size_t i = 0; i < chains.size(); ++i) {
      Chain chain = chains[i];
      Expected<double> us = time_us([&] { return step(**engine, std::move(chain)); });
      if (!us) return us.takeError();
      times[i].push_back(*us);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& one : times) medians.push_back(median(std::move(one)));
  const double worst = *std::max_element(medians.begin(), medians.end());
  return Times{median(std::move(medians)), worst};
}

// Milliseconds to prepare every chain by `threads` threads, and to drop what was prepared.
Expected<double> time_all(const std::string& path, const std::vector<Chain>& chains, int threads) {
  auto engine = engine_with(path);
  if (!engine) return engine.takeError();
  std::vector<ErrorReport> problems(chains.size());
  Expected<double> us = time_us([&]() -> Error {
    parallel_for(static_cast<i64>(chains.size()), threads, [&](i64 i) {
      auto prepared = (*engine)->prepare(chains[static_cast<size_t>(i)], 0);
      if (!prepared) problems[static_cast<size_t>(i)] = take_report(prepared.takeError());
    });
    return Error::success();
  });
  if (!us) return us.takeError();
  for (const ErrorReport& problem : problems) {
    if (problem.code != ErrorCode::kOk) return make_error_text(problem.code, problem.message);
  }
  return *us * 1e-3;
}

Expected<PackTarget> measure_target(const std::string& path, const Target& target,
                                    const std::vector<Chain>& chains, int threads, bool quick) {
  Expected<cuda::ScopedDriver> driver = cuda::ScopedDriver::over(silent_driver(target));
  if (!driver) return driver.takeError();
  Expected<cuda::DeviceInfo> info = cuda::probe(0);
  if (!info) return info.takeError();
  const int repeats = quick ? 3 : 31;
  PackTarget row;
  row.target = target.name;
  row.arch = target.arch;
  row.entries = static_cast<i64>(chains.size());
  auto find = time_entries(path, chains, repeats, [&](Engine& engine, Chain chain) {
    return engine.obtain(std::move(chain), info->target).takeError();
  });
  if (!find) return find.takeError();
  auto prepare = time_entries(path, chains, repeats, [](Engine& engine, Chain chain) {
    return engine.prepare(std::move(chain), 0).takeError();
  });
  if (!prepare) return prepare.takeError();
  row.find_us = find->median_us;
  row.find_worst_us = find->worst_us;
  row.prepare_us = prepare->median_us;
  row.prepare_worst_us = prepare->worst_us;
  for (const auto& [count, ms] : {std::pair{1, &row.all_ms}, {threads, &row.all_parallel_ms}}) {
    Expected<double> all = time_all(path, chains, count);
    if (!all) return all.takeError();
    *ms = *all;
  }
  return row;
}

}  // namespace

Expected<PackCost> measure_pack_cost(const std::string& path, bool quick) {
  const int repeats = quick ? 11 : 101;
  PackCost cost;
  cost.name = llvm::sys::path::filename(path).str();
  cost.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Expected<std::shared_ptr<const Pack>> pack = Pack::open(path);
  if (!pack) return pack.takeError();
  cost.bytes = static_cast<i64>((*pack)->header().bytes);
  cost.entries = static_cast<i64>((*pack)->size());

  Sizes sizes;
  std::map<std::string, std::vector<Chain>> chains;  // by the name of the target
  for (size_t i = 0; i < (*pack)->size(); ++i) {
    Expected<PackEntry> entry = (*pack)->entry(i);
    if (!entry) return entry.takeError();
    const ChainRecord& record = entry->record;
    if (Error error = sizes.add(**pack, record)) return error;
    Expected<Target> target = find_target(record.target.name);
    if (!target) {
      llvm::consumeError(target.takeError());
      continue;
    }
    if (record.arch != target->arch || record.options != ChainOptions()) continue;
    Expected<Chain> chain = parse(record.text);
    if (!chain) return chain.takeError();
    chains[target->name].push_back(std::move(*chain));
  }
  sizes.write(cost);
  if (chains.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the pack {} has no entry for a GPU of `catenary pack build --arch`", path);
  }

  Expected<double> map = median_us(repeats, [&] { return map_first_page(path); });
  if (!map) return map.takeError();
  Expected<double> open = median_us(repeats, [&] { return Pack::open(path).takeError(); });
  if (!open) return open.takeError();
  cost.map_us = *map;
  cost.open_us = *open;
  for (const auto& [name, some] : chains) {
    auto row = measure_target(path, *find_target(name), some, cost.threads, quick);
    if (!row) return row.takeError();
    cost.targets.push_back(std::move(*row));
  }
  return cost;
}

}  // namespace catenary::bench
