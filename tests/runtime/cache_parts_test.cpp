// SPDX-License-Identifier: Apache-2.0
// The folders below v1: checked as their root is; a folder in a file's place and a file in a
// folder's place heal; pruning of a large cache looks at few of them.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "runtime/cache/cache_prune.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/temp_dir.h"

namespace catenary {
namespace {

namespace fs = std::filesystem;
using test::entry_path;
using test::fast_folder;
using test::FaultyFiles;
using test::files_below;
using test::Fixture;
using test::Sample;
using test::TempDir;
using test::write_file;

std::string hash_folder(const std::string& cache, const Sample& sample) {
  return fs::path(entry_path(cache, sample)).parent_path().string();
}

TEST_CASE("a hash folder that others may write is not used, in either direction") {
  TempDir dir(fast_folder());
  const Sample sample(1);
  Fixture(dir / "cache").get(sample);
  const std::string folder = hash_folder(dir / "cache", sample);
  fs::permissions(folder, fs::perms(0770));
  fs::remove(entry_path(dir / "cache", Sample(2)));
  {
    Fixture f(dir / "cache");
    CHECK(*f.get(sample) == sample.cubin);
    CHECK(f.compiles == 1);
    CHECK(f.cache.stats().read_errors == 1);
    CHECK(f.cache.stats().write_errors == 1);
    CHECK(f.warned_of(folder));
    CHECK(f.warned_of("0770"));
    CHECK(f.warned_of("chmod go-w"));
  }
  fs::permissions(folder, fs::perms(0700));
  Fixture f(dir / "cache");
  f.get(sample);
  CHECK(f.compiles == 0);
}

TEST_CASE("a hash folder of another user, or v1/tmp with an open mode, is not used") {
  class OtherHash : public FaultyFiles {
   public:
    int open(int directory, const char* path, int flags, mode_t mode) override {
      const int file = FaultyFiles::open(directory, path, flags, mode);
      if (std::string(path).size() == 2 && std::string(path) != "v1") others.insert(file);
      return file;
    }
    int stat(int directory, const char* path, struct stat* out) override {
      const int result = FaultyFiles::stat(directory, path, out);
      if (*path == '\0' && others.count(directory) != 0) out->st_uid = 4242;
      return result;
    }
    int close(int file) override {
      others.erase(file);
      return FaultyFiles::close(file);
    }
    std::set<int> others;
  };
  TempDir dir(fast_folder());
  Fixture(dir / "cache").get(Sample(1));
  OtherHash files;
  Fixture other(dir / "cache", CacheMode::kReadWrite, &files);
  CHECK(*other.get(Sample(1)) == Sample(1).cubin);
  CHECK(other.compiles == 1);
  CHECK(other.warned_of("user 4242"));
  fs::permissions(dir / "cache/v1/tmp", fs::perms(0777));
  Fixture open(dir / "cache");
  CHECK(*open.get(Sample(2)) == Sample(2).cubin);
  CHECK(open.warned_of("v1/tmp"));
  CHECK_FALSE(fs::exists(entry_path(dir / "cache", Sample(2))));
}

TEST_CASE("a link or a file in a folder's place is replaced by the next write") {
  TempDir dir(fast_folder());
  const Sample sample(1);
  Fixture(dir / "cache").get(sample);
  const std::string folder = hash_folder(dir / "cache", sample);
  fs::create_directory(dir / "trap");
  for (const bool link : {true, false}) {
    fs::remove_all(folder);
    fs::remove_all(dir / "cache/v1/tmp");
    if (link) {
      fs::create_directory_symlink(dir / "trap", folder);
      fs::create_directory_symlink(dir / "trap", dir / "cache/v1/tmp");
    } else {
      write_file(folder, {1});
      write_file(dir / "cache/v1/tmp", {1});
    }
    {
      Fixture f(dir / "cache");
      CHECK(*f.get(sample) == sample.cubin);
      CHECK(f.compiles == 1);
      CHECK(f.warned_of("not used"));
    }
    CHECK(files_below(dir / "trap").empty());
    Fixture f(dir / "cache");
    f.get(sample);
    CHECK(f.compiles == 0);
    CHECK(f.warnings.empty());
  }
}

TEST_CASE("a folder in an entry's place heals, whatever is in it") {
  TempDir dir(fast_folder());
  const Sample sample(1);
  // More often than v1/bad holds files.
  for (int round = 0; round < 20; ++round) {
    const std::string path = entry_path(dir / "cache", sample);
    fs::remove_all(path);
    fs::create_directories(path + "/below/deep");
    fs::permissions(dir / "cache", fs::perms(0700));
    write_file(path + "/below/file", {1});
    for (const char* part : {"cache/v1", "cache"}) fs::permissions(dir / part, fs::perms(0700));
    fs::permissions(hash_folder(dir / "cache", sample), fs::perms(0700));
    {
      Fixture f(dir / "cache");
      CHECK(*f.get(sample) == sample.cubin);
      CHECK(f.compiles == 1);
      CHECK(f.warned_of("not a regular file"));
    }
    Fixture f(dir / "cache");
    f.get(sample);
    CHECK(f.compiles == 0);
    CHECK(f.warnings.empty());
  }
  // clear() removes one too, and what is in v1/bad.
  fs::remove_all(entry_path(dir / "cache", sample));
  fs::create_directories(entry_path(dir / "cache", sample) + "/below");
  CubinCache cache({.directory = dir / "cache", .warn = {}});
  auto removed = cache.clear();
  REQUIRE(!!removed);
  CHECK(*removed == 1);
  CHECK(files_below(dir / "cache").empty());
  CHECK_FALSE(fs::exists(entry_path(dir / "cache", sample)));
}

TEST_CASE("above some thousand entries a write prunes two folders, not all") {
  class Counting : public FaultyFiles {
   public:
    int list(int directory, const char* path, std::vector<std::string>* names) override {
      ++lists;
      return FaultyFiles::list(directory, path, names);
    }
    int lists = 0;
  };
  TempDir dir(fast_folder());
  Counting files;
  auto directory = CacheDirectory::open(files, dir / "cache", true);
  REQUIRE(!!directory);
  constexpr int kEach = 40;
  const std::vector<u8> bytes(100);
  const auto name = [](const std::string& folder, int i) {
    return fmt::format("{}/{:062x}.ctn", folder, i);
  };
  for (const char* folder : {"00", "7f", "ab"}) {
    for (int i = 0; i < kEach; ++i) {
      REQUIRE_FALSE(!!(*directory)->write(name(folder, i), bytes));
      fs::last_write_time((*directory)->full_path(name(folder, i)),
                          fs::file_time_type::clock::now() - std::chrono::hours(kEach - i));
    }
  }
  const auto left = [&](const std::string& folder) {
    return static_cast<int>((*directory)->neighbours(folder).size());
  };
  SizeBound bound(256 * 20 * 100);  // half of the bytes of 256 such folders
  files.lists = 0;
  REQUIRE_FALSE(!!bound.after_write(**directory, name("ab", kEach - 1)));
  CHECK(files.lists == 2);
  CHECK(left("ab") == 16);
  CHECK(left("00") == 16);  // its turn
  CHECK(left("7f") == kEach);
  for (int i = kEach - 16; i < kEach; ++i) {
    CHECK(fs::exists((*directory)->full_path(name("ab", i))));  // the latest
  }
  // Writes to one folder bring the others down as well.
  for (int i = 0; i < 256; ++i) {
    for (int n = 0; n < kEach; ++n) REQUIRE_FALSE(!!(*directory)->write(name("ab", n), bytes));
    REQUIRE_FALSE(!!bound.after_write(**directory, name("ab", 0)));
  }
  CHECK(left("ab") == 16);
  CHECK(left("7f") == 16);
}

}  // namespace
}  // namespace catenary
