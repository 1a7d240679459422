// SPDX-License-Identifier: Apache-2.0
// `catenary cache verify` and `catenary doctor` on the cache's folder; a cache that several users
// read.
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cache/cache_entry.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;

namespace {

std::vector<std::string> entries(const Command& command) {
  std::vector<std::string> paths;
  for (const std::string& path : files_below(command.path("cache/v1"))) {
    if (path.ends_with(".ctn")) paths.push_back(path);
  }
  return paths;
}

void compile(Command& command, const char* name, const char* archs) {
  const CommandResult result =
      command(fmt::format("compile {} --arch {} -o {}", chain(name), archs, command.path("out")));
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
}

}  // namespace

TEST_CASE("verify names the damaged entries, and --remove removes only those") {
  Command command;
  compile(command, "scaled", "sm_80,sm_90a");
  const std::vector<std::string> paths = entries(command);
  REQUIRE(paths.size() == 2);
  std::filesystem::resize_file(paths[0], 100);
  const CommandResult found = command("cache verify");
  expect_error(found, 1, {"1 of 2 cache entries are damaged", "cache verify --remove"});
  CHECK(has(found.out, paths[0] + ": "));
  CHECK_FALSE(has(found.out, paths[1]));
  const CommandResult removed = command("cache verify --remove");
  CHECK(removed.exit_code == 0);
  CHECK(has(removed.out, paths[0]));
  CHECK(has(removed.out, "removed 1 damaged entry of 2"));
  CHECK(entries(command) == std::vector<std::string>{paths[1]});
  CHECK(has(command("cache verify --remove").out, "1 entry is sound"));
  expect_error(command("cache verify --remove", "CATENARY_CACHE=off"), 2, {"switched off"});
}

TEST_CASE("list, stats and verify know a kernel that the compiler rejected") {
  Command command;
  compile(command, "scaled", "sm_80");
  const Sample rejected(1);
  catenary::test::write_file(entry_path(command.path("cache"), rejected),
                             serialize_entry({rejected.key,
                                              rejected.record,
                                              {"ctn_k", "sm_80", "nvrtc 13", {}, {}},
                                              "it \x1bspills"}));
  std::filesystem::permissions(entry_path(command.path("cache"), rejected),
                               std::filesystem::perms(0600));
  const CommandResult list = command("cache list");
  INFO(list.err);
  CHECK(has(list.out, "ctn_k  nvrtc 13  NOT USED: it \\x1bspills"));
  CHECK(has(list.out, "2 entries"));
  CHECK(has(command("cache stats").out, "2 (0 damaged, 1 rejected by the compiler)"));
  CHECK(has(command("cache stats --json").out, "\"rejected\": 1"));
  CHECK(has(command("cache list --json").out, "\"rejection\": \"it "));
  CHECK(has(command("cache verify").out, "2 entries are sound"));
}

TEST_CASE("verify --recompile compares the entries of a chain with what the compiler makes") {
  Command command;
  const std::string verify = "cache verify --recompile " + chain("scaled");
  expect_error(command(verify), 2, {"has 1 kernel, and"});
  expect_error(command(verify, "CATENARY_CACHE=off"), 2, {"there is no disk cache"});
  compile(command, "scaled", "sm_80,sm_90a");
  expect_error(command("cache verify --recompile " + chain("linear")), 2,
               {"has 1 kernel, and", "compile the chain"});
  const CommandResult equal = command(verify + " --arch sm_80,sm_90a");
  INFO(equal.err);
  CHECK(equal.exit_code == 0);
  CHECK(has(equal.out, "2 kernels are equal to their entries"));
  // An entry whose digest is right and whose machine code is another.
  for (const std::string& path : entries(command)) {
    Expected<CacheEntry> entry = parse_entry(bytes_of(path));
    REQUIRE(!!entry);
    if (entry->cubin.arch != "sm_80") continue;
    entry->cubin.image[entry->cubin.image.size() / 2] ^= 1;
    catenary::test::write_file(path, serialize_entry(*entry));
  }
  CHECK(has(command("cache verify").out, "2 entries are sound"));
  const CommandResult different = command(verify + " --arch sm_80,sm_90a");
  expect_error(different, 1, {"1 of 2 kernels differs from its cache entry", "[mismatch]"});
  CHECK(has(different.out, "DIFFERENT"));
  CHECK(entries(command).size() == 2);
  expect_error(command("cache verify --arch sm_80"), 2, {"--recompile"});
  expect_error(command("cache verify --recompile /nonexistent.chain"), 2, {"/nonexistent.chain"});
}

TEST_CASE("doctor shows mode, owner and file system of the folders") {
  Command command;
  const CommandResult fresh = command("doctor");
  CHECK(has(fresh.out, "mode 0700, owner "));
  CHECK(has(fresh.out, fmt::format("({})", ::geteuid())));
  CHECK(has(fresh.out, "tuning    " + command.path("cache/tuning") + ": not there yet"));
  CHECK(has(fresh.out, "temporary "));
  std::filesystem::create_directory(command.path("memory"));
  const CommandResult shared =
      command("doctor", "TMPDIR=/dev/shm CATENARY_TUNING_DIR=" + command.path("memory"));
  CHECK(has(shared.out, "temporary /dev/shm: mode 1777, owner root (0), tmpfs"));
}

// Whether a folder above `path` keeps other users out, or lets all of them create files: a cache
// below it is not shared.
bool is_below_unshared(std::filesystem::path path) {
  for (; path != path.root_path(); path = path.parent_path()) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0 || (info.st_mode & S_ISVTX) != 0) return true;
    if ((info.st_mode & S_IXOTH) == 0) return true;
  }
  return false;
}

TEST_CASE("a cache that root has written is read by other users, in read-only mode") {
  if (::geteuid() != 0 || ::access("/usr/bin/setpriv", X_OK) != 0) {
    MESSAGE("skipped: needs root and setpriv");
    return;
  }
  if (is_below_unshared(CATENARY_BINARY_DIR)) {
    MESSAGE("skipped: the build is in a folder below which no cache is shared");
    return;
  }
  Command command;
  compile(command, "scaled", "sm_80");
  // Not below a folder where all users create files.
  const TempDir outside(CATENARY_BINARY_DIR);
  const std::string shared = outside / "shared";
  REQUIRE(::system(fmt::format("chmod 755 '{0}' && cp -r '{1}' '{2}' && chmod -R a+rX '{2}'",
                               outside.path(), command.path("cache"), shared)
                       .c_str()) == 0);
  // The test's folder is root's: this user writes nothing there.
  const auto as_nobody = [&](const std::string& arguments, const std::string& mode) {
    const TempDir out;
    const std::string line = fmt::format(
        "chmod 777 '{0}'; cd '{0}'; setpriv --reuid 65534 --clear-groups env HOME='{0}' "
        "CATENARY_CACHE={1} "
        "CATENARY_CACHE_DIR='{2}' CUDA_VISIBLE_DEVICES= '{3}' {4} > out 2>&1; cp out '{5}'",
        out.path(), mode, shared, CATENARY_COMMAND, arguments, command.path("said"));
    REQUIRE(::system(line.c_str()) == 0);
    return file_text(command.path("said"));
  };
  CHECK(has(as_nobody("cache verify", "ro"), "1 entry is sound"));
  const std::string none = as_nobody("cache stats", "rw");
  INFO(none);
  CHECK(has(none, "entries    1 (0 damaged, 0 rejected by the compiler)"));
  // Closed again, it is another user's cache.
  REQUIRE(::system(fmt::format("chmod -R go-rwx '{}'", shared).c_str()) == 0);
  CHECK(has(as_nobody("cache stats", "ro"), "Permission denied"));
  // A cache that some other user could change is not used.
  REQUIRE(::system(fmt::format("chmod -R a+rX '{0}' && chmod g+w '{0}'", shared).c_str()) == 0);
  CHECK(has(as_nobody("cache stats", "ro"), "lets others write"));
}

TEST_CASE("a process with more rights than its user reads none of the user's variables") {
  if (::geteuid() != 0 || ::access("/usr/bin/setpriv", X_OK) != 0) {
    MESSAGE("skipped: needs root and setpriv");
    return;
  }
  const TempDir folder(CATENARY_BINARY_DIR);
  const std::string program = folder / "catenary";
  std::filesystem::copy_file(CATENARY_COMMAND, program);
  std::filesystem::create_directory(folder / "out");
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  REQUIRE(::chmod((folder / "out").c_str(), 0777) == 0);
  const auto cache_path = [&](mode_t mode) {
    REQUIRE(::chmod(program.c_str(), mode) == 0);
    const std::string line = fmt::format(
        "cd '{0}/out' && setpriv --reuid 65534 --clear-groups env HOME=/nonexistent "
        "CATENARY_CACHE_DIR='{0}/out/mine' '{1}' cache path > said 2>&1",
        folder.path(), program);
    REQUIRE(::system(line.c_str()) != -1);
    return file_text(folder / "out/said");
  };
  CHECK(has(cache_path(0755), "out/mine"));
  const std::string privileged = cache_path(04755);
  INFO(privileged);
  CHECK_FALSE(has(privileged, "mine"));
  CHECK(has(privileged, "no folder for the cache is known"));
}
