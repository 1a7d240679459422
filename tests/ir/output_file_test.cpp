// SPDX-License-Identifier: Apache-2.0
// Files that are written whole or not at all: failures, kills, links, modes, devices.
#include "ir/output_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

using namespace catenary;
using catenary::test::TempDir;
namespace fs = std::filesystem;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int files_in(const std::string& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), {}));
}

std::string message_of(Error error) {
  const ErrorReport report = take_report(std::move(error));
  CHECK(report.code == ErrorCode::kIo);
  return report.message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

mode_t mode_of(const std::string& path) {
  struct stat info;
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 0777;
}

// The exit status of `work` in a child process.
template <typename Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("the file appears and is replaced at commit, not before") {
  const TempDir folder;
  const std::string path = folder / "a.txt";
  Expected<OutputFile> file = OutputFile::open(path);
  REQUIRE(!!file);
  const std::string large(3 << 20, 'x');
  file->write(large);
  CHECK_FALSE(fs::exists(path));
  REQUIRE_FALSE(!!file->commit());
  CHECK(text_of(path) == large);
  Expected<OutputFile> next = OutputFile::open(path);
  REQUIRE(!!next);
  next->write("new");
  CHECK(text_of(path) == large);
  REQUIRE_FALSE(!!next->commit());
  CHECK(text_of(path) == "new");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a file in /dev is replaced whole; a descriptor is not replaced") {
  const std::string path = fmt::format("/dev/shm/catenary_output_file_{}", ::getpid());
  for (const std::string text : {"the first, which is longer", "second"}) {
    Expected<OutputFile> file = OutputFile::open(path);
    REQUIRE(!!file);
    file->write(text);
    REQUIRE_FALSE(!!file->commit());
    CHECK(text_of(path) == text);
  }
  fs::remove(path);
  const TempDir folder;
  const int status = in_child([&] {
    std::freopen((folder / "out").c_str(), "w", stdout);
    Expected<OutputFile> file = OutputFile::open("/dev/stdout");
    if (!file) return 1;
    file->write("text");
    return file->commit() ? 1 : 0;
  });
  CHECK(status == 0);
  CHECK(text_of(folder / "out") == "text");
}

TEST_CASE("a file that is not committed leaves nothing, after a kill too") {
  const TempDir folder;
  REQUIRE_FALSE(!!write_output(folder / "a", "old"));
  {
    Expected<OutputFile> file = OutputFile::open(folder / "a");
    REQUIRE(!!file);
    file->write("new");
  }
  CHECK(files_in(folder.path()) == 1);
  const int status = in_child([&] {
    Expected<OutputFile> file = OutputFile::open(folder / "a");
    if (!file) return 1;
    file->write(std::string(3 << 20, 'x'));
    ::raise(SIGKILL);
    return 0;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(text_of(folder / "a") == "old");
  if (::open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600) < 0) {
    MESSAGE("skipped: this file system has no nameless files");
  } else {
    CHECK(files_in(folder.path()) == 1);
  }
}

TEST_CASE("a write that fails is an error, and the previous file stays") {
  const TempDir folder;
  REQUIRE_FALSE(!!write_output(folder / "a", "old"));
  // SIGXFSZ has its default action, which ends the process.
  const int status = in_child([&] {
    const rlimit limit = {4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message =
        take_report(write_output(folder / "a", std::string(2 << 20, 'x'))).message;
    return has(message, folder / "a") && has(message, "File too large") ? 0 : 1;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(text_of(folder / "a") == "old");
  CHECK(files_in(folder.path()) == 1);
  CHECK(has(message_of(write_output("/dev/full", "x")), "No space left on device"));
}

TEST_CASE("paths that cannot be written are found by check() and by open()") {
  const TempDir folder;
  fs::create_directory(folder / "sub");
  std::ofstream(folder / "file") << "x";
  const std::pair<std::string, const char*> cases[] = {{folder / "none/a", "No such file"},
                                                       {folder / "sub", "it is a folder"},
                                                       {folder / "sub/", "it is a folder"},
                                                       {folder / "file/a", "Not a directory"},
                                                       {folder / "new/", "no file name"},
                                                       {"", "no file name"},
                                                       {"/proc/nowhere", "open"}};
  for (const auto& [path, part] : cases) {
    INFO(path);
    const std::string checked = message_of(OutputFile::check(path));
    INFO(checked);
    CHECK(has(checked, part));
    CHECK(message_of(OutputFile::open(path).takeError()) == checked);
  }
  CHECK_FALSE(!!OutputFile::check(folder / "file"));
  CHECK_FALSE(!!OutputFile::check(folder / "new"));
  CHECK_FALSE(!!OutputFile::check("/dev/null"));
  CHECK(text_of(folder / "file") == "x");
  CHECK(files_in(folder.path()) == 2);
  if (::geteuid() == 0) return;  // root may write everything
  fs::permissions(folder / "file", fs::perms(0444));
  CHECK(has(message_of(OutputFile::check(folder / "file")), "may not write it"));
}

TEST_CASE("links are followed and stay; the mode of the replaced file stays") {
  const TempDir folder;
  fs::create_directory(folder / "real");
  std::ofstream(folder / "real/a") << "old";
  fs::permissions(folder / "real/a", fs::perms(0640));
  fs::create_symlink("real/a", folder / "link");
  fs::create_symlink(folder / "link", folder / "twice");
  fs::create_symlink("real/later", folder / "dangling");
  REQUIRE_FALSE(!!write_output(folder / "twice", "new"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(fs::is_symlink(folder / "twice"));
  CHECK(text_of(folder / "real/a") == "new");
  CHECK(mode_of(folder / "real/a") == 0640);
  REQUIRE_FALSE(!!write_output(folder / "dangling", "made"));
  CHECK(fs::is_symlink(folder / "dangling"));
  CHECK(text_of(folder / "real/later") == "made");
  const mode_t mask = ::umask(022);
  REQUIRE_FALSE(!!write_output(folder / "fresh", "x"));
  ::umask(mask);
  CHECK(mode_of(folder / "fresh") == 0644);
}

TEST_CASE("a pipe is written in place") {
  const TempDir folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_FALSE(!!OutputFile::check(folder / "pipe"));
  const int reader = ::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE_FALSE(!!write_output(folder / "pipe", "hello"));
  char bytes[8] = {};
  CHECK(::read(reader, bytes, sizeof bytes) == 5);
  CHECK(std::string(bytes) == "hello");
  ::close(reader);
}

TEST_CASE("a program writes to the path for programs") {
  const TempDir folder;
  Expected<OutputFile> file = OutputFile::open(folder / "a");
  REQUIRE(!!file);
  std::ofstream(file->path_for_programs()) << "by another";
  REQUIRE_FALSE(!!file->commit());
  CHECK(text_of(folder / "a") == "by another");
}
