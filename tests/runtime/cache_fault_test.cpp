// SPDX-License-Identifier: Apache-2.0
// The cache on a failing disk: every call fails with every error at every point; processes die at
// every step of a write. Always: get() returns the right cubin, no unverified byte is returned, no
// file descriptor leaks, and temporary files do not pile up.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/support/cache_fixture.h"
#include "tests/support/temp_dir.h"

namespace catenary {
namespace {

namespace fs = std::filesystem;
using test::entry_path;
using test::fast_folder;
using test::FaultyFiles;
using test::files_below;
using test::Harm;
using test::Op;
using test::Sample;
using test::TempDir;

int open_files() {
  return static_cast<int>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
}

// True if the cache returns the sample, from any tier.
bool gives(CubinCache& cache, const Sample& sample) {
  auto got =
      cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> { return sample.cubin; });
  if (got) return **got == sample.cubin;
  llvm::consumeError(got.takeError());
  return false;
}

void flip_a_byte(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(200);
  const char byte = static_cast<char>(file.get());
  file.seekp(200);
  file.put(static_cast<char>(byte ^ 1));
}

// The scenario: a first cache has a miss with its write; a second one a hit on an entry unused for
// long, a damaged entry and another miss; a third one a write above the bound.
bool scenario(const std::string& folder, FileSystem& files) {
  const Sample first(1), second(2), third(3), fourth(4);
  const std::chrono::milliseconds patience(1);  // with locks that say that they are held
  bool right = true;
  {
    CubinCache cache(
        {.directory = folder, .warn = {}, .patience = patience, .file_system = &files});
    right &= gives(cache, first) && gives(cache, second);
  }
  if (fs::exists(entry_path(folder, second))) flip_a_byte(entry_path(folder, second));
  if (fs::exists(entry_path(folder, first))) {
    const auto old = fs::file_time_type::clock::now() - std::chrono::hours(2);
    fs::last_write_time(entry_path(folder, first), old);
  }
  {
    CubinCache cache(
        {.directory = folder, .warn = {}, .patience = patience, .file_system = &files});
    right &= gives(cache, first) & gives(cache, second) & gives(cache, third);
  }
  CubinCache cache({.directory = folder,
                    .warn = {},
                    .max_bytes = 1000,
                    .patience = patience,
                    .file_system = &files});
  return right & gives(cache, fourth) & gives(cache, fourth);
}

// After the fault, a cache on the sound file system finds no problem, except the damaged entry if
// the fault kept it from being replaced.
void check_aftermath(const std::string& folder) {
  FaultyFiles sound;
  CubinCache cache({.directory = folder, .warn = {}, .file_system = &sound});
  REQUIRE(cache.directory() == folder);
  for (int i = 1; i <= 4; ++i) CHECK(gives(cache, Sample(i)));
  auto infos = cache.list();
  REQUIRE(infos);
  CHECK(infos->size() == 4);
  for (const CacheEntryInfo& info : *infos) CHECK(info.problem == "");
  CHECK(files_below(folder + "/v1/tmp").size() <= 3);
}

struct Fault {
  Op op;
  Harm harm;
  std::vector<int> errors;
};

const Fault kFaults[] = {
    {Op::kOpen, Harm::kError, {ENOENT, EACCES, EMFILE, ENFILE, ELOOP, EROFS, ESTALE, EEXIST}},
    {Op::kMkdir, Harm::kError, {EEXIST, EACCES, ENOSPC, EROFS}},
    {Op::kRename, Harm::kError, {EXDEV, EACCES, ENOENT, ENOSPC, ESTALE}},
    {Op::kUnlink, Harm::kError, {ENOENT, EBUSY, EACCES}},
    {Op::kStat, Harm::kError, {EACCES, EIO, ESTALE}},
    {Op::kList, Harm::kError, {ENOENT, EACCES, EMFILE, EIO}},
    {Op::kRead, Harm::kError, {EIO, ESTALE}},
    {Op::kRead, Harm::kShort, {0}},
    {Op::kRead, Harm::kZero, {0}},
    {Op::kRead, Harm::kFlip, {0}},
    {Op::kWrite, Harm::kError, {ENOSPC, EDQUOT, EIO, EFBIG}},
    {Op::kWrite, Harm::kShort, {0}},
    {Op::kWrite, Harm::kZero, {0}},
    {Op::kWrite, Harm::kFlip, {0}},
    {Op::kFsync, Harm::kError, {EIO, ENOSPC}},
    {Op::kClose, Harm::kError, {EIO, EDQUOT}},
    {Op::kTouch, Harm::kError, {EACCES, EROFS, ENOENT}},
    {Op::kLock, Harm::kError, {EWOULDBLOCK, ENOLCK, EBADF}},
};

// Runs the scenario with the n-th call failing, for n = 1, 2, ... until none fails. Returns the
// number of runs in which a call failed.
int sweep(const Fault& fault, int error, bool persistent) {
  for (int nth = 1;; ++nth) {
    TempDir dir(fast_folder());
    FaultyFiles files;
    files.op = fault.op;
    files.harm = fault.harm;
    files.error = error;
    files.nth = nth;
    files.persistent = persistent;
    CAPTURE(static_cast<int>(fault.op));
    CAPTURE(static_cast<int>(fault.harm));
    CAPTURE(error);
    CAPTURE(nth);
    CAPTURE(persistent);
    const int before = open_files();
    const bool right = scenario(dir / "cache", files);
    CHECK(right);
    CHECK(open_files() == before);
    if (files.fired == 0) return nth - 1;
    check_aftermath(dir / "cache");
    REQUIRE(nth < 500);
  }
}

TEST_CASE("any one call fails") {
  for (const Fault& fault : kFaults) {
    for (int error : fault.errors) {
      CHECK(sweep(fault, error, false) >= 1);
    }
  }
}

TEST_CASE("every call of a kind fails from the n-th on") {
  for (const Fault& fault : kFaults) {
    for (int error : fault.errors) CHECK(sweep(fault, error, true) >= 0);
  }
}

// Interrupted calls are repeated, so the counters do not show them.
TEST_CASE("an interrupted call is repeated") {
  for (Op op : {Op::kOpen, Op::kMkdir, Op::kRename, Op::kRead, Op::kWrite, Op::kFsync}) {
    CAPTURE(static_cast<int>(op));
    TempDir dir(fast_folder());
    FaultyFiles files;
    files.op = op;
    files.error = EINTR;
    // The calls for entries, not those that open the folder.
    files.nth = op == Op::kOpen ? 3 : 1;
    const Sample sample(1);
    {
      CubinCache cache({.directory = dir / "cache", .warn = {}, .file_system = &files});
      CHECK(gives(cache, sample));
      CHECK(cache.stats().write_errors == 0);
    }
    CubinCache cache({.directory = dir / "cache", .warn = {}, .file_system = &files});
    CHECK(gives(cache, sample));
    CHECK(cache.stats().disk_hits == 1);
    CHECK(cache.stats().read_errors == 0);
    CHECK(files.fired == 1);
  }
}

TEST_CASE("a full disk: kernels are still compiled, one warning says why") {
  TempDir dir(fast_folder());
  FaultyFiles files;
  files.op = Op::kWrite;
  files.error = ENOSPC;
  files.nth = 1;
  files.persistent = true;
  std::vector<std::string> warnings;
  CubinCache cache({.directory = dir / "cache",
                    .warn = [&](const std::string& text) { warnings.push_back(text); },
                    .file_system = &files});
  for (int i = 0; i < 5; ++i) CHECK(gives(cache, Sample(i)));
  CHECK(cache.stats().write_errors == 5);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find(dir / "cache") != std::string::npos);
  CHECK(warnings[0].find("No space left on device") != std::string::npos);
  CHECK(files_below(dir / "cache").empty());
  CHECK(gives(cache, Sample(3)));
  CHECK(cache.stats().memory_hits == 1);
}

TEST_CASE("all calls fail: the cache works in memory only") {
  for (int error : {EIO, EACCES, ENOSYS}) {
    class Dead : public FileSystem {
     public:
      explicit Dead(int error) : error_(error) {}
      int open(int, const char*, int, mode_t) override { return -error_; }
      int mkdir(int, const char*, mode_t) override { return -error_; }
      int stat(int, const char*, struct stat*) override { return -error_; }
      int list(int, const char*, std::vector<std::string>*) override { return -error_; }

     private:
      int error_;
    } files(error);
    TempDir dir(fast_folder());
    int warnings = 0;
    CubinCache cache({.directory = dir / "cache",
                      .warn = [&](const std::string&) { ++warnings; },
                      .file_system = &files});
    CHECK(cache.directory() == "");
    CHECK(cache.why_off().find(dir / "cache") != std::string::npos);
    CHECK(warnings == 1);
    CHECK(gives(cache, Sample(1)));
    CHECK(gives(cache, Sample(1)));
    CHECK(cache.stats().memory_hits == 1);
  }
}

// Dies at the `point`-th boundary between the calls that write an entry, or between two bytes.
class Deadly : public FileSystem {
  void mark() {
    if (armed && ++passed == point) ::kill(::getpid(), SIGKILL);
  }
  template <typename Call>
  auto around(Call call) {
    mark();
    auto result = call();
    mark();
    return result;
  }

 public:
  int point = 0;  // 0: never
  bool armed = false;
  int passed = 0;

  int open(int directory, const char* path, int flags, mode_t mode) override {
    if (!(flags & O_CREAT)) return FileSystem::open(directory, path, flags, mode);
    return around([&] { return FileSystem::open(directory, path, flags, mode); });
  }
  int mkdir(int directory, const char* path, mode_t mode) override {
    return around([&] { return FileSystem::mkdir(directory, path, mode); });
  }
  ssize_t write(int file, const void* bytes, size_t count) override {
    return around([&]() -> ssize_t {
      const ssize_t half = FileSystem::write(file, bytes, count / 2);
      mark();
      const u8* rest = static_cast<const u8*>(bytes) + half;
      return half + FileSystem::write(file, rest, count - half);
    });
  }
  int fsync(int file) override {
    return around([&] { return file < 0 ? -EBADF : 0; });
  }
  int close(int file) override {
    return around([&] { return FileSystem::close(file); });
  }
  int rename(int directory, const char* from, const char* to) override {
    return around([&] { return FileSystem::rename(directory, from, to); });
  }
};

// Writes one entry in a process of its own. Returns its wait status.
int write_and_die(const std::string& folder, const Sample& sample, int point) {
  const pid_t child = ::fork();
  if (child == 0) {
    Deadly files;
    files.point = point;
    CubinCache cache({.directory = folder, .warn = {}, .file_system = &files});
    files.armed = true;
    ::_exit(gives(cache, sample) && cache.stats().write_errors == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_CASE("a process killed at any point of a write leaves no bad entry") {
  TempDir dir(fast_folder());
  const std::string folder = dir / "cache";
  int number = 0, points = 0;
  for (int point = 1;; ++point) {
    CAPTURE(point);
    int status = 0;
    for (int repeat = 0; repeat < 10; ++repeat) {
      status = write_and_die(folder, Sample(number++), point);
      if (!WIFSIGNALED(status)) break;
      CHECK(WTERMSIG(status) == SIGKILL);
    }
    if (!WIFSIGNALED(status)) {
      CHECK(WEXITSTATUS(status) == 0);
      break;
    }
    points = point;
  }
  CHECK(points >= 12);

  FaultyFiles sound;
  CubinCache cache({.directory = folder, .warn = {}, .file_system = &sound});
  auto infos = cache.list();
  REQUIRE(infos);
  CHECK_FALSE(infos->empty());
  for (const CacheEntryInfo& info : *infos) CHECK(info.problem == "");
  for (int i = 0; i < number; ++i) CHECK(gives(cache, Sample(i)));
  CHECK(cache.stats().corrupt == 0);
  CHECK(cache.stats().disk_hits == infos->size());
  CHECK(cache.stats().write_errors == 0);

  // Dead processes left at most one temporary file each, removed once it is an hour old.
  const auto orphans = files_below(folder + "/v1/tmp");
  CHECK_FALSE(orphans.empty());
  CHECK(orphans.size() <= static_cast<size_t>(number));
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(2);
  for (const std::string& path : orphans) fs::last_write_time(path, old);
  CubinCache next({.directory = folder, .warn = {}});
  CHECK(files_below(folder + "/v1/tmp").empty());
}

TEST_CASE("a limit of file sizes is a warning, not a signal") {
  TempDir dir(fast_folder());
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit = {64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string warning;
    CubinCache cache(
        {.directory = dir / "cache", .warn = [&](const std::string& text) { warning = text; }});
    const bool right = gives(cache, Sample(1)) && cache.stats().write_errors == 1 &&
                       warning.find("File too large") != std::string::npos;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(files_below(dir / "cache/v1/tmp").empty());
}

}  // namespace
}  // namespace catenary
