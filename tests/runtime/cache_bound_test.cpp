// SPDX-License-Identifier: Apache-2.0
// The size bound of the cache directory: estimate, interval and lock; times of use; owners and
// modes of the ancestors.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "runtime/cache/cache_prune.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/temp_dir.h"

namespace catenary {
namespace {

namespace fs = std::filesystem;
using test::entry_path;
using test::fast_folder;
using test::FaultyFiles;
using test::Fixture;
using test::Sample;
using test::ScopedEnv;
using test::TempDir;

// A cache with a bound; collects its warnings.
struct Bounded {
  Bounded(const std::string& folder, std::optional<i64> max_bytes, FileSystem* own = nullptr)
      : cache({.directory = folder,
               .warn = [this](const std::string& text) { warnings.push_back(text); },
               .max_bytes = max_bytes,
               .file_system = own ? own : &files}) {}
  void put(int number) {
    const Sample sample(number);
    auto got =
        cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> { return sample.cubin; });
    REQUIRE(got);
  }
  FaultyFiles files;
  std::vector<std::string> warnings;
  CubinCache cache;
};

bool on_disk(const std::string& folder, int number) {
  return fs::exists(entry_path(folder, Sample(number)));
}

int count_on_disk(const std::string& folder, int first, int count) {
  int found = 0;
  for (int i = first; i < first + count; ++i) found += on_disk(folder, i);
  return found;
}

i64 age_seconds(const std::string& path) {
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path);
  return std::chrono::duration_cast<std::chrono::seconds>(age).count();
}

void set_age(const std::string& path, std::chrono::minutes age) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

// Bytes of the entry of one sample.
i64 entry_bytes() {
  TempDir dir(fast_folder());
  Fixture(dir / "cache").get(Sample(1));
  return static_cast<i64>(fs::file_size(entry_path(dir / "cache", Sample(1))));
}

TEST_SUITE("size bound") {
  TEST_CASE("above the bound, the least recently used entries are removed, down to 80% of it") {
    TempDir dir(fast_folder());
    const std::string folder = dir / "cache";
    const i64 bytes = entry_bytes();
    constexpr int kCount = 400;  // so many that most folders have several entries
    {
      Bounded unbounded(folder, 0);
      for (int i = 0; i < kCount; ++i) unbounded.put(i);
    }
    CHECK(count_on_disk(folder, 0, kCount) == kCount);
    for (int i = 0; i < kCount; ++i) {
      set_age(entry_path(folder, Sample(i)), std::chrono::minutes(2 * (kCount - i)));
    }
    Bounded bounded(folder, kCount * bytes * 3 / 4);
    int last = kCount;
    while (count_on_disk(folder, 0, kCount) == kCount && last < kCount + 100) bounded.put(last++);
    const int left = count_on_disk(folder, 0, last);
    CHECK(left <= kCount * 6 / 10);
    CHECK(left >= kCount * 6 / 10 - 12);  // entries differ by a few bytes
    for (int i = last - left; i < last; ++i) CHECK(on_disk(folder, i));
    CHECK(bounded.warnings.empty());
  }

  TEST_CASE("a cache prunes once per interval, not at every write") {
    TempDir dir(fast_folder());
    Bounded first(dir / "cache", 1);
    first.put(1);
    CHECK_FALSE(on_disk(dir / "cache", 1));
    first.put(2);
    CHECK(on_disk(dir / "cache", 2));
    Bounded second(dir / "cache", 1);
    second.put(3);
    CHECK(count_on_disk(dir / "cache", 1, 3) == 0);
  }

  TEST_CASE("one process prunes at a time; a file system without locks does not prevent pruning") {
    TempDir dir(fast_folder());
    Fixture(dir / "cache").get(Sample(1));
    const int other = ::open((dir / "cache/v1").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(other >= 0);
    REQUIRE(::flock(other, LOCK_EX) == 0);
    Bounded waits(dir / "cache", 1);
    waits.put(2);
    CHECK(count_on_disk(dir / "cache", 1, 2) == 2);
    CHECK(waits.warnings.empty());

    FaultyFiles lockless;
    lockless.op = test::Op::kLock;
    lockless.error = ENOLCK;
    lockless.nth = 1;
    lockless.persistent = true;
    Bounded prunes(dir / "cache", 1, &lockless);
    prunes.put(3);
    CHECK(count_on_disk(dir / "cache", 1, 3) == 0);
    ::close(other);

    // The lock was released.
    Bounded next(dir / "cache", 1);
    next.put(4);
    const int after = ::open((dir / "cache/v1").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(::flock(after, LOCK_EX | LOCK_NB) == 0);
    ::close(after);
  }

  TEST_CASE("an entry that cannot be removed gives a warning, and the kernel is still returned") {
    TempDir dir(fast_folder());
    FaultyFiles files;
    files.op = test::Op::kUnlink;
    files.error = EACCES;
    files.nth = 1;
    files.persistent = true;
    Bounded f(dir / "cache", 1, &files);
    f.put(1);
    REQUIRE(f.warnings.size() == 1);
    CHECK(f.warnings[0].find(entry_path(dir / "cache", Sample(1))) != std::string::npos);
  }

  TEST_CASE("the estimate counts the entry once, and its neighbours for all 256 folders") {
    TempDir dir(fast_folder());
    FaultyFiles files;
    auto directory = CacheDirectory::open(files, dir / "cache", true);
    REQUIRE(directory);
    const std::string own = "ab/" + std::string(62, '0') + ".ctn";
    const std::string other = "ab/" + std::string(62, '1') + ".ctn";
    const std::string far = "cd/" + std::string(62, '0') + ".ctn";
    const std::vector<u8> bytes(100);
    CHECK(!(*directory)->write(own, bytes));
    CHECK(!(*directory)->write(far, bytes));
    CHECK(estimate_bytes(**directory, own) == 100);
    CHECK(!(*directory)->write(other, bytes));
    CHECK(estimate_bytes(**directory, own) == 100 + 256 * 100);
  }

  TEST_CASE("sources of the bound, in order: the option, CATENARY_CACHE_MAX_BYTES, 2 GiB") {
    TempDir dir(fast_folder());
    const i64 usual = i64{2} << 30;
    {
      ScopedEnv none("CATENARY_CACHE_MAX_BYTES", nullptr);
      CHECK(Bounded(dir / "cache", std::nullopt).cache.max_bytes() == usual);
    }
    ScopedEnv set("CATENARY_CACHE_MAX_BYTES", "5000");
    CHECK(Bounded(dir / "cache", std::nullopt).cache.max_bytes() == 5000);
    CHECK(Bounded(dir / "cache", 7).cache.max_bytes() == 7);
    CHECK(Bounded(dir / "cache", -7).cache.max_bytes() == 0);
    for (const char* wrong : {"2GiB", "-1", "99999999999999999999", " "}) {
      ScopedEnv bad("CATENARY_CACHE_MAX_BYTES", wrong);
      Bounded f(dir / "cache", std::nullopt);
      CHECK(f.cache.max_bytes() == usual);
      REQUIRE(f.warnings.size() == 1);
      CHECK(f.warnings[0].find(wrong) != std::string::npos);
    }
  }
}

TEST_CASE("a hit sets the time of use at most once an hour, and never in read-only mode") {
  TempDir dir(fast_folder());
  const Sample sample(1);
  const std::string path = entry_path(dir / "cache", sample);
  Fixture(dir / "cache").get(sample);
  set_age(path, std::chrono::minutes(50));
  Fixture(dir / "cache").get(sample);
  CHECK(age_seconds(path) >= 50 * 60);
  set_age(path, std::chrono::minutes(70));
  Fixture(dir / "cache", CacheMode::kReadOnly).get(sample);
  CHECK(age_seconds(path) >= 70 * 60);
  Fixture(dir / "cache").get(sample);
  CHECK(age_seconds(path) < 60);
}

// A file system whose ancestors of the cache have other owners or modes: `change` edits the result
// of every stat by "..", and gets the number of levels.
class Above : public FileSystem {
 public:
  std::function<int(int level, struct stat& info)> change;
  int stat(int directory, const char* path, struct stat* out) override {
    const int result = FileSystem::stat(directory, path, out);
    const std::string text = path;
    if (result < 0 || !text.starts_with("..")) return result;
    return change(static_cast<int>(std::count(text.begin(), text.end(), '/')) + 1, *out);
  }
};

void check_refused(Above& files, const std::string& folder, std::vector<std::string> parts) {
  for (CacheMode mode : {CacheMode::kReadWrite, CacheMode::kReadOnly}) {
    Fixture f(folder, mode, &files);
    CHECK(f.cache.directory() == "");
    parts.push_back(folder);
    for (const std::string& part : parts) {
      CAPTURE(part);
      CAPTURE(f.cache.why_off());
      CHECK(f.cache.why_off().find(part) != std::string::npos);
    }
    CHECK(f.warnings.size() == 1);
    CHECK(*f.get(Sample(1)) == Sample(1).cubin);
  }
}

TEST_SUITE("folders above") {
  TEST_CASE("an ancestor that others can write, or of another user, is refused at every level") {
    TempDir dir(fast_folder());
    const std::string folder = dir / "a/b/cache";
    Fixture(folder).get(Sample(1));
    const std::string names[] = {dir / "a/b", dir / "a", dir.path()};
    for (int at = 1; at <= 3; ++at) {
      const std::string name = fs::canonical(names[at - 1]).string() + " above it";
      Above files;
      for (mode_t mode : {0770, 0702}) {
        files.change = [=](int level, struct stat& info) {
          if (level == at) info.st_mode = (info.st_mode & S_IFMT) | mode;
          return 0;
        };
        check_refused(files, folder, {name, fmt::format("0{:o}", mode), "chmod go-w"});
      }
      files.change = [=](int level, struct stat& info) {
        if (level == at) info.st_uid = 4242;
        return 0;
      };
      check_refused(files, folder, {name, "user 4242"});
      files.change = [=](int level, struct stat&) { return level == at ? -EACCES : 0; };
      check_refused(files, folder, {name, "Permission denied"});
    }
  }

  TEST_CASE("ancestors of root and of this user are accepted, whatever links the path has") {
    TempDir dir(fast_folder());
    fs::create_directory(dir / "real");
    fs::create_directory_symlink(dir / "real", dir / "link");
    Above files;
    int levels = 0;
    files.change = [&](int level, struct stat& info) {
      levels = std::max(levels, level);
      if (level == 1) info.st_uid = 0;
      return 0;
    };
    Fixture f(dir / "link/cache", CacheMode::kReadWrite, &files);
    CHECK(f.cache.why_off() == "");
    CHECK(levels >= 3);
  }

  TEST_CASE("the checks apply to the real folder that a link points to") {
    TempDir dir(fast_folder());
    fs::create_directories(dir / "open/real");
    fs::permissions(dir / "open", fs::perms(0777));
    fs::create_directory_symlink(dir / "open/real", dir / "link");
    Fixture f(dir / "link/cache");
    CHECK(f.cache.directory() == "");
    CHECK(f.cache.why_off().find(fs::canonical(dir / "open").string()) != std::string::npos);
  }

  TEST_CASE("no message asks to change the mode of a shared folder") {
    TempDir dir(fast_folder());
    fs::create_directory(dir / "shared");
    fs::permissions(dir / "shared", fs::perms(01777));
    Fixture f(dir / "shared");
    CHECK(f.cache.why_off().find("mode 1777") != std::string::npos);
    CHECK(f.cache.why_off().find("CATENARY_CACHE_DIR") != std::string::npos);
    CHECK(f.cache.why_off().find("chmod") == std::string::npos);
  }

  TEST_CASE("below a sticky folder, this user must own the cache and its mode must be 0700") {
    TempDir dir(fast_folder());
    fs::create_directory(dir / "sticky");
    fs::permissions(dir / "sticky", fs::perms(01777));
    const std::string folder = dir / "sticky/cache";
    Fixture made(folder);
    CHECK(made.cache.directory() == folder);
    for (const int mode : {0755, 0710}) {
      fs::permissions(folder, fs::perms(mode));
      Fixture f(folder);
      CHECK(f.cache.directory() == "");
      for (const std::string& part :
           {folder, fmt::format("0{:o}", mode), std::string("chmod 700")}) {
        CHECK(f.cache.why_off().find(part) != std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace catenary
