// SPDX-License-Identifier: Apache-2.0
// Memory runs out at every allocation of what opens files and locks them: no descriptor stays open
// and no lock is kept.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <filesystem>
#include <functional>

#include "compiler/compile/helper/process.h"
#include "compiler/compile/host_process.h"
#include "compiler/compile/scratch_folder.h"
#include "ir/npy.h"
#include "ir/out_of_memory.h"
#include "ir/output_file.h"
#include "runtime/cache/cache_prune.h"
#include "runtime/lookup/pack_lookup.h"
#include "runtime/pack/pack_bytes.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/failing_memory.h"
#include "tests/support/packed_chains.h"
#include "tests/support/temp_dir.h"

#if defined(CATENARY_FAILING_MEMORY)

using namespace catenary;
using test::must;
using test::TempDir;

namespace {

int open_files() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// Runs `call` with every allocation failing in turn, until it makes fewer, and then `after`.
void fail_each(const std::function<void()>& call, const std::function<void()>& after) {
  throw_when_out_of_memory();
  long made = 0;
  for (long n = 0; made >= n; ++n) {
    CAPTURE(n);
    {
      const FailingMemory failing(n, n + 1);
      try {
        call();
      } catch (const std::bad_alloc&) {
      }
      made = allocations;
    }
    after();
  }
}

void check_closed(const std::string& what, const std::function<void()>& call) {
  CAPTURE(what);
  const int before = open_files();
  int worst = before;
  fail_each(call, [&] { worst = std::max(worst, open_files()); });
  CHECK(worst == before);
}

template <typename T>
void ignore(Expected<T> result) {
  llvm::consumeError(result.takeError());
}

const KernelKey kKey{};

}  // namespace

TEST_CASE("the cache's folder") {
  const TempDir folder;
  const std::string path = folder / "cache";
  FileSystem& files = FileSystem::real();
  const std::string name = CacheDirectory::entry_name(kKey);
  const auto directory = must(CacheDirectory::open(files, path, true));
  REQUIRE_FALSE(static_cast<bool>(directory->write(name, std::vector<u8>(100, 1))));
  check_closed("list", [&] {
    std::vector<std::string> names;
    files.list(AT_FDCWD, "/proc/self", &names);
  });
  check_closed("open", [&] { ignore(CacheDirectory::open(files, path, true)); });
  check_closed("a link", [&] { ignore(CacheDirectory::open(files, "/proc/self/cwd", false)); });
  check_closed("a shared folder", [&] { ignore(CacheDirectory::open(files, "/tmp", false)); });
  check_closed("read", [&] { ignore(directory->read(name)); });
  check_closed("write",
               [&] { llvm::consumeError(directory->write(name, std::vector<u8>(100, 1))); });
  check_closed("entries", [&] { ignore(directory->entries()); });
  check_closed("lock", [&] { directory->lock_entry(name, std::chrono::milliseconds(0)); });
}

TEST_CASE("files that a user names") {
  const TempDir folder;
  const std::string path = folder / "file";
  test::write_file(path, std::vector<u8>(100, 1));
  check_closed("pack", [&] { ignore(open_pack_file(path)); });
  check_closed("a folder as a pack", [&] { ignore(open_pack_file(folder.path())); });
  check_closed("npy", [&] { ignore(read_npy(path)); });
  check_closed("output", [&] { llvm::consumeError(write_output(path, "text")); });
  const ChainRequest request =
      make_request(test::layer_chain(), must(find_target("h200")), false, {});
  LookupOptions options;
  options.trace = folder / "trace";
  check_closed("trace", [&] { PackLookup(options).trace(request); });
}

TEST_CASE("programs and their folder") {
  check_closed("program", [] { run_process({"/bin/true"}, 60); });
  HelperOptions options;
  options.memory_bytes = i64{1} << 30;
  options.seconds = 60;
  check_closed("helper", [&] { ignore(HelperProcess::start("/bin/false", options)); });
  check_closed("scratch folder", [] { ignore(ScratchFolder::make()); });
}

TEST_CASE("pruning gives its lock back") {
  const TempDir folder;
  FileSystem& files = FileSystem::real();
  const auto directory = must(CacheDirectory::open(files, folder / "cache", true));
  const auto other = must(CacheDirectory::open(files, folder / "cache", true));
  const std::string name = CacheDirectory::entry_name(kKey);
  const std::vector<u8> bytes(100, 1);
  const auto write = [&] { REQUIRE_FALSE(static_cast<bool>(directory->write(name, bytes))); };
  write();
  fail_each(
      [&] {
        SizeBound bound(1);
        llvm::consumeError(bound.after_write(*directory, name));
      },
      [&] {
        CHECK(other->try_lock());
        write();
      });
  CHECK(other->try_lock());
  const auto held = directory->try_lock();
  CHECK(held);
  CHECK_FALSE(other->try_lock());
}

#endif
