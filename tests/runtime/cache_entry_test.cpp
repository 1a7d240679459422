// SPDX-License-Identifier: Apache-2.0
// Entries that differ from what was written: truncated, changed, under another name, not a regular
// file. Each is a miss with one warning, and is then replaced by a sound entry.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "llvm/Support/SHA256.h"
#include "runtime/cache/cache_entry.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/temp_dir.h"

namespace catenary {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::entry_path;
using test::fast_folder;
using test::files_below;
using test::Fixture;
using test::Sample;
using test::TempDir;
using test::write_file;

ErrorReport report_of(Expected<CacheEntry> entry) {
  if (entry) return {};
  return take_report(entry.takeError());
}

// Every prefix, a byte more, and every byte changed.
void check_damage(const std::vector<u8>& good) {
  REQUIRE(report_of(parse_entry(good)).code == ErrorCode::kOk);
  for (size_t size = 0; size < good.size(); ++size) {
    const std::vector<u8> cut(good.begin(), good.begin() + static_cast<long>(size));
    CHECK(report_of(parse_entry(cut)).code == ErrorCode::kCorruptArtifact);
  }
  std::vector<u8> longer = good;
  longer.push_back(0);
  CHECK(report_of(parse_entry(longer)).code == ErrorCode::kCorruptArtifact);
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<u8> changed = good;
    changed[at] ^= static_cast<u8>(1u << (at % 8));
    CHECK(report_of(parse_entry(changed)).code == ErrorCode::kCorruptArtifact);
  }
}

TEST_SUITE("entry") {
  TEST_CASE("an entry survives serialisation, with empty parts too") {
    for (const Sample& sample : {Sample(1), Sample(2, 0), Sample(3, 100'000)}) {
      CacheEntry entry{sample.key, sample.record, sample.cubin};
      auto back = parse_entry(serialize_entry(entry));
      REQUIRE(back);
      CHECK(back->key == entry.key);
      CHECK(back->record == entry.record);
      CHECK(back->cubin == entry.cubin);
    }
    auto empty = parse_entry(serialize_entry({}));
    REQUIRE(empty);
    CHECK(empty->cubin == Cubin{});
    CHECK(empty->rejection == "");
  }

  TEST_CASE("a rejection survives serialisation, and is no cubin") {
    const CacheEntry entry{
        Sample(1).key, "record", {"kern1", "sm_90a", "nvrtc", {}, {}}, "it spills"};
    auto back = parse_entry(serialize_entry(entry));
    REQUIRE(back);
    CHECK(back->key == entry.key);
    CHECK(back->record == entry.record);
    CHECK(back->cubin == entry.cubin);
    CHECK(back->rejection == "it spills");
  }

  TEST_CASE("a rejection without a reason, or with registers, is refused") {
    const auto sealed = [](std::vector<u8> bytes) {
      const auto digest = llvm::SHA256::hash(llvm::makeArrayRef(bytes).drop_back(32));
      std::copy(digest.begin(), digest.end(), bytes.end() - 32);
      return report_of(parse_entry(bytes));
    };
    std::vector<u8> bytes = serialize_entry({});
    std::memcpy(bytes.data(), "CTNREJCT", 8);
    CHECK(sealed(bytes).code == ErrorCode::kCorruptArtifact);
    bytes = serialize_entry({{}, "", {}, "it spills"});
    CHECK(sealed(bytes).code == ErrorCode::kOk);
    bytes[12] = 96;
    CHECK(sealed(bytes).code == ErrorCode::kCorruptArtifact);
  }

  TEST_CASE("an entry that is truncated, extended or changed in any byte is refused") {
    const Sample sample(1, 700);
    for (const char* rejection : {"", "it spills"}) {
      CacheEntry entry{sample.key, sample.record, sample.cubin, rejection};
      if (!entry.rejection.empty()) entry.cubin.resources = {};
      check_damage(serialize_entry(entry));
    }
  }

  TEST_CASE("the error names the reason") {
    const std::vector<u8> good = serialize_entry({});
    auto changed = [&](size_t at) {
      std::vector<u8> bytes = good;
      bytes[at] ^= 2;
      return report_of(parse_entry(bytes)).message;
    };
    CHECK(changed(0) == "it is not a cache entry");
    CHECK(changed(8) == "it has format version 3, not 1");
    CHECK(changed(good.size() - 1) == "its digest differs");
    CHECK(report_of(parse_entry({})).message == "it is truncated at 0 bytes");
  }
}

TEST_SUITE("bad entries") {
  // Replaces the sample's file by `bytes`: the cache must compile, warn once, and be sound after.
  void check_replaced(const std::string& folder, const Sample& sample, const std::string& reason) {
    {
      Fixture f(folder);
      CHECK(f.cache.find(sample.key, sample.record) == nullptr);
      CHECK(*f.get(sample) == sample.cubin);
      CHECK(f.compiles == 1);
      CHECK(f.cache.stats().corrupt == 1);
      REQUIRE(f.warnings.size() == 1);
      CHECK(f.warned_of(entry_path(folder, sample)));
      CHECK_MESSAGE(f.warned_of(reason), f.warnings[0]);
    }
    Fixture next(folder);
    CHECK(*next.get(sample) == sample.cubin);
    CHECK(next.compiles == 0);
    CHECK(next.warnings.empty());
  }

  TEST_CASE("truncated at every 7th byte or changed at every 13th: a miss, then sound again") {
    TempDir dir(fast_folder());
    const std::string folder = dir / "cache";
    const Sample sample(1, 2000);
    Fixture(folder).get(sample);
    const std::vector<u8> good = bytes_of(entry_path(folder, sample));
    REQUIRE(good.size() > 2000);
    for (size_t size = 0; size < good.size(); size += 7) {
      CAPTURE(size);
      write_file(entry_path(folder, sample),
                 {good.begin(), good.begin() + static_cast<long>(size)});
      check_replaced(folder, sample, "bytes");
    }
    for (size_t at = 0; at < good.size(); at += 13) {
      CAPTURE(at);
      std::vector<u8> changed = good;
      changed[at] ^= 0x10;
      write_file(entry_path(folder, sample), changed);
      check_replaced(folder, sample, "");
    }
    CHECK(files_below(folder + "/v1/bad").size() == 1);
    CHECK(bytes_of(entry_path(folder, sample)) == good);
  }

  TEST_CASE("at most 16 bad files are kept") {
    TempDir dir(fast_folder());
    const std::string folder = dir / "cache";
    Fixture first(folder);
    for (int i = 0; i < 20; ++i) write_file(entry_path(folder, Sample(i)), {1, 2, 3});
    for (int i = 0; i < 20; ++i) CHECK(*first.get(Sample(i)) == Sample(i).cubin);
    CHECK(first.cache.stats().corrupt == 20);
    CHECK(files_below(folder + "/v1/bad").size() == 16);
    Fixture next(folder);
    for (int i = 0; i < 20; ++i) CHECK(*next.get(Sample(i)) == Sample(i).cubin);
    CHECK(next.cache.stats().disk_hits == 20);
  }

  TEST_CASE("the entry of another kernel under this name, and another record under this key") {
    TempDir dir(fast_folder());
    const std::string folder = dir / "cache";
    const Sample sample(1), other(2);
    Fixture(folder).get(other);
    fs::create_directories(fs::path(entry_path(folder, sample)).parent_path());
    fs::copy_file(entry_path(folder, other), entry_path(folder, sample));
    check_replaced(folder, sample, "it holds key " + other.key.hex());

    Sample collision = sample;
    collision.record = other.record;
    collision.cubin = other.cubin;
    check_replaced(folder, collision, "its key record differs");
  }

  TEST_CASE("two records under one key are two kernels in memory") {
    CubinCache cache({.directory = "", .mode = CacheMode::kOff, .warn = {}});
    const Sample sample(1);
    for (const char* record : {"a", "b", "a"}) {
      Cubin own = sample.cubin;
      own.symbol = record;
      auto got = cache.get(sample.key, record, [&]() -> Expected<Cubin> { return own; });
      REQUIRE(got);
      CHECK((*got)->symbol == record);
    }
    CHECK(cache.stats().misses == 2);
  }

  TEST_CASE("a link, a folder, a pipe, a huge file and a file that others can write are not read") {
    TempDir dir(fast_folder());
    const std::string folder = dir / "cache";
    const Sample sample(1);
    const std::string path = entry_path(folder, sample);
    Fixture(folder).get(sample);
    fs::rename(path, dir / "elsewhere");
    fs::create_symlink(dir / "elsewhere", path);
    check_replaced(folder, sample, "it is a symbolic link");

    fs::remove(path);
    fs::create_directory(path);
    check_replaced(folder, sample, "it is not a regular file");

    fs::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    check_replaced(folder, sample, "it is not a regular file");

    fs::permissions(path, fs::perms(0620));
    check_replaced(folder, sample, "its mode 0620 lets others write to it");

    fs::resize_file(path, (64 << 20) + 1);
    check_replaced(folder, sample, "it has 67108865 bytes, over the limit of 67108864");
  }
}

}  // namespace
}  // namespace catenary
