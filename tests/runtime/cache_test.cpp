// SPDX-License-Identifier: Apache-2.0
// The cache on a sound disk: tiers, counters, the folder and its refusals, errors that are kept,
// list, clear and prune.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/support/cache_fixture.h"
#include "tests/support/temp_dir.h"

namespace catenary {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::entry_path;
using test::fast_folder;
using test::FaultyFiles;
using test::files_below;
using test::Fixture;
using test::Sample;
using test::ScopedEnv;
using test::TempDir;
using test::write_file;

TEST_SUITE("tiers") {
  TEST_CASE("a kernel is compiled once, then comes from memory, then from disk") {
    TempDir dir(fast_folder());
    const Sample sample(1, 100'000);
    {
      Fixture f(dir / "cache");
      CHECK(f.cache.find(sample.key, sample.record) == nullptr);
      const auto first = f.get(sample);
      CHECK(*first == sample.cubin);
      CHECK(f.get(sample) == first);
      CHECK(f.cache.find(sample.key, sample.record) == first);
      CHECK(f.compiles == 1);
      const CacheStats stats = f.cache.stats();
      CHECK(stats.misses == 1);
      CHECK(stats.memory_hits == 2);
      CHECK(stats.disk_hits == 0);
      CHECK(f.warnings.empty());
    }
    Fixture f(dir / "cache");
    CHECK(*f.cache.find(sample.key, sample.record) == sample.cubin);
    CHECK(*f.get(sample) == sample.cubin);
    CHECK(f.compiles == 0);
    CHECK(f.cache.stats().disk_hits == 1);
    CHECK(f.cache.stats().memory_hits == 1);
    CHECK(fs::exists(entry_path(dir / "cache", sample)));
    CHECK(files_below(dir / "cache").size() == 1);
  }

  TEST_CASE("folders are 0700 and files 0600, whatever the umask") {
    TempDir dir(fast_folder());
    const mode_t old = ::umask(0);
    Fixture f(dir / "a/b/cache");
    f.get(Sample(1));
    ::umask(old);
    for (const auto& file : fs::recursive_directory_iterator(dir / "a")) {
      const auto mode = file.status().permissions();
      CHECK((mode & (fs::perms::group_all | fs::perms::others_all)) == fs::perms::none);
    }
  }

  TEST_CASE("memory keeps the most recently used cubins") {
    CubinCache cache({.directory = "", .mode = CacheMode::kOff, .warn = {}, .memory_bytes = 5000});
    int compiles = 0;
    auto get = [&](int number) {
      const Sample sample(number, 2000);
      auto got = cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> {
        ++compiles;
        return sample.cubin;
      });
      REQUIRE(got);
      CHECK(**got == sample.cubin);
    };
    for (int number : {1, 2, 1, 3}) get(number);  // 2 is the oldest and is dropped
    CHECK(compiles == 3);
    get(1);
    get(3);
    CHECK(compiles == 3);
    get(2);
    CHECK(compiles == 4);
  }

  TEST_CASE("a cubin above the bound of the memory tier is still returned") {
    CubinCache cache({.directory = "", .mode = CacheMode::kOff, .warn = {}, .memory_bytes = 10});
    for (int number : {1, 2}) {
      const Sample sample(number);
      auto got =
          cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> { return sample.cubin; });
      REQUIRE(got);
      CHECK(**got == sample.cubin);
    }
  }

  TEST_CASE("a deterministic error is kept, a transient one is not") {
    CubinCache cache({.directory = "", .mode = CacheMode::kOff, .warn = {}});
    const Sample sample(1);
    int compiles = 0;
    auto message = [&](ErrorCode code, const Sample& of) {
      auto got = cache.get(of.key, of.record, [&]() -> Expected<Cubin> {
        ++compiles;
        return make_error(code, "kernel kern: no {}", compiles);
      });
      REQUIRE_FALSE(got);
      const ErrorReport report = take_report(got.takeError());
      CHECK(report.code == code);
      return report.message;
    };
    for (ErrorCode code : {ErrorCode::kOutOfMemory, ErrorCode::kNvrtcMissing}) {
      CHECK(message(code, sample) != message(code, sample));
    }
    CHECK(compiles == 4);
    CHECK(message(ErrorCode::kCompileFailed, sample) == "kernel kern: no 5");
    CHECK(message(ErrorCode::kCompileFailed, sample) == "kernel kern: no 5");
    CHECK(compiles == 5);
    CHECK(cache.find(sample.key, sample.record) == nullptr);
    CHECK(cache.stats().memory_hits == 0);

    // More errors than are kept: all are dropped, so the first kernel is compiled again.
    for (int i = 2; i < 1500; ++i) message(ErrorCode::kCompileFailed, Sample(i, 0));
    const int before = compiles;
    message(ErrorCode::kCompileFailed, sample);
    CHECK(compiles == before + 1);
  }

  TEST_CASE("a rejected kernel is an entry on disk, other errors are not") {
    TempDir dir(fast_folder());
    for (const ErrorCode code : {ErrorCode::kKernelRejected, ErrorCode::kCompileFailed}) {
      const Sample sample(static_cast<int>(code));
      const bool kept = code == ErrorCode::kKernelRejected;
      int compiles = 0;
      const auto message = [&](CubinCache& cache) {
        const auto compile = [&]() -> Expected<Cubin> {
          ++compiles;
          return make_error(code, "kernel kern spills {} bytes", compiles);
        };
        auto got =
            cache.get(sample.key, sample.record, compile, nullptr, {"kern", "sm_90a", "nvrtc 13"});
        REQUIRE_FALSE(got);
        const ErrorReport report = take_report(got.takeError());
        CHECK(report.code == code);
        return report.message;
      };
      const std::string folder = dir / (kept ? "kept" : "lost");
      Fixture first(folder);
      CHECK(message(first.cache) == "kernel kern spills 1 bytes");
      CHECK(message(first.cache) == "kernel kern spills 1 bytes");
      for (const CacheMode mode : {CacheMode::kReadWrite, CacheMode::kReadOnly}) {
        Fixture next(folder, mode);
        const int before = compiles;
        if (kept) CHECK(next.cache.find(sample.key, sample.record) == nullptr);
        CHECK((message(next.cache) == "kernel kern spills 1 bytes") == kept);
        CHECK(compiles == before + (kept ? 0 : 1));
        CHECK(next.cache.stats().disk_hits == (kept ? 1 : 0));
        CHECK(next.warnings.empty());
        auto listed = next.cache.list();
        REQUIRE(listed);
        REQUIRE(listed->size() == (kept ? 1 : 0));
        if (!kept) continue;
        CHECK((*listed)[0].rejection == "kernel kern spills 1 bytes");
        CHECK((*listed)[0].problem == "");
        CHECK((*listed)[0].symbol == "kern");
        CHECK((*listed)[0].arch == "sm_90a");
        CHECK((*listed)[0].compiler_id == "nvrtc 13");
      }
    }
  }

  TEST_CASE("a compile that ran out of memory can succeed later") {
    CubinCache cache({.directory = "", .mode = CacheMode::kOff, .warn = {}});
    const Sample sample(1);
    auto failed = cache.get(sample.key, sample.record, []() -> Expected<Cubin> {
      return make_error(ErrorCode::kOutOfMemory, "no memory for kern");
    });
    REQUIRE_FALSE(failed);
    CHECK(take_report(failed.takeError()).message == "no memory for kern");
    auto got =
        cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> { return sample.cubin; });
    REQUIRE(got);
    CHECK(**got == sample.cubin);
  }
}

// A file system in which every file belongs to `owner`.
class OwnedBy : public FaultyFiles {
 public:
  explicit OwnedBy(uid_t owner) : owner_(owner) {}
  bool files_only = false;
  int stat(int directory, const char* path, struct stat* out) override {
    const int result = FaultyFiles::stat(directory, path, out);
    if (result >= 0 && !(files_only && S_ISDIR(out->st_mode))) out->st_uid = owner_;
    return result;
  }

 private:
  uid_t owner_;
};

TEST_SUITE("folder") {
  // The disk tier is off, one warning has every part, and the cache still works.
  void check_off(Fixture & f, std::initializer_list<std::string> parts) {
    CHECK(f.cache.directory() == "");
    REQUIRE(f.warnings.size() == 1);
    CHECK(f.warnings[0] == f.cache.why_off());
    for (const std::string& part : parts) CHECK_MESSAGE(f.warned_of(part), f.warnings[0]);
    CHECK(*f.get(Sample(1)) == Sample(1).cubin);
    CHECK(*f.get(Sample(1)) == Sample(1).cubin);
    CHECK(f.compiles == 1);
    CHECK(f.warnings.size() == 1);
    auto listed = f.cache.list();
    REQUIRE_FALSE(listed);
    const ErrorReport report = take_report(listed.takeError());
    CHECK(report.code == ErrorCode::kCacheIo);
    CHECK(report.message.find(f.cache.why_off()) != std::string::npos);
  }

  TEST_CASE(
      "a folder that others can write, a link, a file, a folder of another user: refused by name") {
    TempDir dir(fast_folder());
    fs::create_directory(dir / "open");
    fs::permissions(dir / "open", fs::perms(0777));
    Fixture open(dir / "open");
    check_off(open, {dir / "open", "0777", "chmod go-w"});
    CHECK(files_below(dir / "open").empty());

    fs::create_directory(dir / "real");
    fs::permissions(dir / "real", fs::perms(0700));
    fs::create_directory_symlink(dir / "real", dir / "link");
    for (const std::string& name : {dir / "link", dir / "link/"}) {
      Fixture link(name);
      check_off(link, {dir / "link", "symbolic link"});
    }

    std::ofstream(dir / "file") << "x";
    Fixture file(dir / "file");
    check_off(file, {dir / "file", "not a folder"});
    Fixture below(dir / "file/below");
    check_off(below, {dir / "file/below", "Not a directory"});

    OwnedBy other(4242);
    Fixture owned(dir / "real", CacheMode::kReadWrite, &other);
    check_off(owned, {dir / "real", "user 4242", "0700"});
    CHECK(files_below(dir / "real").empty());
  }

  TEST_CASE("v1 must pass the same checks") {
    TempDir dir(fast_folder());
    fs::create_directories(dir / "cache/v1");
    fs::permissions(dir / "cache", fs::perms(0700));
    fs::permissions(dir / "cache/v1", fs::perms(0770));
    Fixture f(dir / "cache");
    check_off(f, {dir / "cache/v1", "0770"});
  }

  TEST_CASE("an entry of another user is not read and not moved") {
    TempDir dir(fast_folder());
    const Sample sample(1);
    Fixture(dir / "cache").get(sample);
    OwnedBy other(4242);
    other.files_only = true;
    Fixture f(dir / "cache", CacheMode::kReadWrite, &other);
    CHECK(*f.get(sample) == sample.cubin);
    CHECK(f.compiles == 1);
    CHECK(f.warned_of("it belongs to user 4242"));
    CHECK_FALSE(fs::exists(dir / "cache/v1/bad"));
  }

  TEST_CASE("a folder that becomes a link while in use: nothing is written to its target") {
    TempDir dir(fast_folder());
    Fixture f(dir / "cache");
    f.get(Sample(1));
    fs::rename(dir / "cache", dir / "moved");
    fs::create_directory(dir / "trap");
    fs::create_directory_symlink(dir / "trap", dir / "cache");
    CHECK(*f.get(Sample(2)) == Sample(2).cubin);
    CHECK(files_below(dir / "trap").empty());
    Fixture next(dir / "cache");
    check_off(next, {"symbolic link"});
  }

  TEST_CASE(
      "a folder that is removed while in use: write errors are counted, kernels are returned") {
    TempDir dir(fast_folder());
    Fixture f(dir / "cache");
    f.get(Sample(1));
    fs::remove_all(dir / "cache");
    for (int i = 2; i < 5; ++i) CHECK(*f.get(Sample(i)) == Sample(i).cubin);
    CHECK(f.cache.stats().write_errors == 3);
    CHECK(f.warnings.size() == 1);
    Fixture next(dir / "cache");
    next.get(Sample(1));
    CHECK(next.cache.stats().write_errors == 0);
  }

  TEST_CASE("a read-only folder is read, and every write that fails is counted") {
    TempDir dir(fast_folder());
    Fixture(dir / "cache").get(Sample(1));
    class ReadOnly : public FaultyFiles {
      int open(int directory, const char* path, int flags, mode_t mode) override {
        if (flags & O_CREAT) return -EROFS;
        return FaultyFiles::open(directory, path, flags, mode);
      }
      int mkdir(int directory, const char* path, mode_t) override {
        struct stat info;
        return stat(directory, path, &info) >= 0 ? -EEXIST : -EROFS;
      }
    } files;
    Fixture f(dir / "cache", CacheMode::kReadWrite, &files);
    CHECK(*f.get(Sample(1)) == Sample(1).cubin);
    CHECK(f.cache.stats().disk_hits == 1);
    for (int i = 2; i < 5; ++i) CHECK(*f.get(Sample(i)) == Sample(i).cubin);
    CHECK(f.cache.stats().write_errors == 3);
    CHECK(f.warnings.size() == 1);
    CHECK(f.warned_of("Read-only file system"));
  }

  TEST_CASE("read-only mode reads and changes nothing") {
    TempDir dir(fast_folder());
    const std::string folder = dir / "cache";
    Fixture(folder).get(Sample(1));
    write_file(entry_path(folder, Sample(2)), {1, 2, 3});
    Fixture f(folder, CacheMode::kReadOnly);
    for (int i = 1; i < 4; ++i) CHECK(*f.get(Sample(i)) == Sample(i).cubin);
    CHECK(f.cache.stats().disk_hits == 1);
    CHECK(f.cache.stats().corrupt == 1);
    CHECK(f.cache.stats().write_errors == 0);
    CHECK(files_below(folder).size() == 2);
    CHECK(bytes_of(entry_path(folder, Sample(2))) == std::vector<u8>{1, 2, 3});
    auto pruned = f.cache.prune(0);
    REQUIRE_FALSE(pruned);
    const ErrorReport report = take_report(pruned.takeError());
    CHECK(report.code == ErrorCode::kCacheIo);
    CHECK(report.message.find(folder) != std::string::npos);

    Fixture absent(dir / "absent", CacheMode::kReadOnly);
    CHECK(absent.cache.directory() == "");
    CHECK_FALSE(fs::exists(dir / "absent"));
  }

  TEST_CASE(
      "sources of the folder, in order: the option, CATENARY_CACHE_DIR, XDG_CACHE_HOME, HOME") {
    TempDir dir(fast_folder());
    ScopedEnv mode("CATENARY_CACHE", nullptr);
    ScopedEnv own("CATENARY_CACHE_DIR", (dir / "own").c_str());
    ScopedEnv xdg("XDG_CACHE_HOME", (dir / "xdg").c_str());
    ScopedEnv home("HOME", (dir / "home").c_str());
    CHECK(Fixture(dir / "option").cache.directory() == dir / "option");
    CHECK(Fixture("").cache.directory() == dir / "own");
    ScopedEnv no_own("CATENARY_CACHE_DIR", nullptr);
    CHECK(Fixture("").cache.directory() == dir / "xdg/catenary");
    ScopedEnv relative("XDG_CACHE_HOME", "relative");
    CHECK(Fixture("").cache.directory() == dir / "home/.cache/catenary");
    ScopedEnv no_home("HOME", nullptr);
    Fixture nowhere("");
    check_off(nowhere, {"CATENARY_CACHE_DIR"});
    CHECK_FALSE(fs::exists("relative"));
  }

  TEST_CASE("CATENARY_CACHE switches it off or to read-only; another value gives a warning") {
    TempDir dir(fast_folder());
    ScopedEnv own("CATENARY_CACHE_DIR", (dir / "own").c_str());
    {
      ScopedEnv off("CATENARY_CACHE", "off");
      Fixture f("");
      CHECK(f.cache.directory() == "");
      CHECK(f.cache.why_off().find("off") != std::string::npos);
      CHECK(f.warnings.empty());
      CHECK_FALSE(fs::exists(dir / "own"));
      // A folder that the caller names overrides the environment.
      CHECK(Fixture(dir / "named").cache.directory() == dir / "named");
    }
    {
      ScopedEnv wrong("CATENARY_CACHE", "of");
      Fixture f("");
      CHECK(f.warned_of("CATENARY_CACHE=of"));
      CHECK(f.cache.directory() == dir / "own");
    }
    ScopedEnv read_only("CATENARY_CACHE", "ro");
    Fixture f("");
    f.get(Sample(1));
    CHECK(f.cache.directory() == dir / "own");
    CHECK(files_below(dir / "own").empty());
  }
}

TEST_SUITE("care") {
  TEST_CASE("the list shows every entry and its problem") {
    TempDir dir(fast_folder());
    const std::string folder = dir / "cache";
    Fixture f(folder);
    for (int i = 0; i < 3; ++i) f.get(Sample(i));
    write_file(entry_path(folder, Sample(3)), {1, 2, 3});
    write_file(folder + "/v1/ab/not-an-entry", {1});
    write_file(folder + "/v1/README", {1});
    auto infos = f.cache.list();
    REQUIRE(infos);
    REQUIRE(infos->size() == 4);
    for (const CacheEntryInfo& info : *infos) {
      bool known = false;
      for (int i = 0; i < 4; ++i) {
        const Sample sample(i);
        if (info.key_hex != sample.key.hex()) continue;
        known = true;
        CHECK(info.bytes == static_cast<i64>(fs::file_size(entry_path(folder, sample))));
        CHECK(info.symbol == (i < 3 ? sample.cubin.symbol : ""));
        CHECK(info.arch == (i < 3 ? "sm_90a" : ""));
        CHECK(info.compiler_id == (i < 3 ? sample.cubin.compiler_id : ""));
        CHECK(info.problem == (i < 3 ? "" : "it is truncated at 3 bytes"));
      }
      CHECK(known);
    }
  }

  TEST_CASE("clear removes every entry, from memory too") {
    TempDir dir(fast_folder());
    Fixture f(dir / "cache");
    for (int i = 0; i < 3; ++i) f.get(Sample(i));
    write_file(entry_path(dir / "cache", Sample(3)), {});
    write_file(dir / "cache/v1/bad/x", {1});
    write_file(dir / "cache/v1/tmp/x", {1});
    auto removed = f.cache.clear();
    REQUIRE(removed);
    CHECK(*removed == 4);
    CHECK(files_below(dir / "cache").empty());
    f.get(Sample(0));
    CHECK(f.compiles == 4);
  }

  TEST_CASE("prune removes the oldest entries until the others fit") {
    TempDir dir(fast_folder());
    Fixture f(dir / "cache");
    const auto now = fs::file_time_type::clock::now();
    i64 bytes = 0;
    for (int i = 0; i < 6; ++i) {
      f.get(Sample(i));
      const std::string path = entry_path(dir / "cache", Sample(i));
      // From oldest to newest: 3 0 5 2 4 1.
      fs::last_write_time(path, now - std::chrono::hours((i * 5 + 3) % 6 + 1));
      bytes = static_cast<i64>(fs::file_size(path));
    }
    auto removed = f.cache.prune(6 * bytes);
    REQUIRE(removed);
    CHECK(*removed == 0);
    removed = f.cache.prune(3 * bytes + 1);
    REQUIRE(removed);
    CHECK(*removed == 3);
    for (int i = 0; i < 6; ++i) {
      CHECK(fs::exists(entry_path(dir / "cache", Sample(i))) == ((i * 5 + 3) % 6 < 3));
    }
    auto wrong = f.cache.prune(-1);
    REQUIRE_FALSE(wrong);
    const ErrorReport report = take_report(wrong.takeError());
    CHECK(report.code == ErrorCode::kInvalidArgument);
    CHECK(report.message.find("-1") != std::string::npos);
  }

  TEST_CASE("an entry that cannot be removed is named") {
    TempDir dir(fast_folder());
    FaultyFiles files;
    Fixture f(dir / "cache", CacheMode::kReadWrite, &files);
    f.get(Sample(1));
    files.op = test::Op::kUnlink;
    files.error = EACCES;
    files.nth = 1;
    files.persistent = true;
    auto removed = f.cache.prune(0);
    REQUIRE_FALSE(removed);
    const ErrorReport report = take_report(removed.takeError());
    CHECK(report.code == ErrorCode::kCacheIo);
    CHECK(report.message.find(entry_path(dir / "cache", Sample(1))) != std::string::npos);
  }
}

}  // namespace
}  // namespace catenary
