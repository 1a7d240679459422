// SPDX-License-Identifier: Apache-2.0
// Processes that start cold on one cache: each kernel is compiled once, whatever becomes of the
// process that compiles it.
#include "runtime/cache/entry_lock.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>

#include "tests/support/cache_fixture.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::test;

namespace {

constexpr int kProcesses = 16;
constexpr auto kPatience = std::chrono::seconds(300);

CacheOptions options_for(const std::string& folder) {
  return {.directory = folder, .warn = {}, .patience = kPatience};
}

// A pipe between this process and its children.
struct Pipe {
  Pipe() { REQUIRE(::pipe(ends) == 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void put(char byte = 'x') const { [[maybe_unused]] auto wrote = ::write(ends[1], &byte, 1); }
  // The next byte; 0 at the end.
  char take() const {
    char byte = 0;
    return ::read(ends[0], &byte, 1) == 1 ? byte : '\0';
  }
  int ends[2] = {-1, -1};
};

// Runs `work` in a child, whose exit code is its result.
template <typename Work>
pid_t child(Work work) {
  const pid_t process = ::fork();
  REQUIRE(process >= 0);
  if (process == 0) ::_exit(work());
  return process;
}

int exit_code(pid_t process) {
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Tells of its first try of a lock: the file is open then.
class Announcing : public FileSystem {
 public:
  explicit Announcing(const Pipe& told) : told_(told) {}
  int lock(int file, int operation) override {
    const int locked = FileSystem::lock(file, operation);
    if (!announced_) told_.put();
    announced_ = true;
    return locked;
  }

 private:
  const Pipe& told_;
  bool announced_ = false;
};

// A counter that all processes see.
class SharedCounter {
 public:
  SharedCounter() {
    void* page = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    count_ = new (page) std::atomic<int>(0);
  }
  ~SharedCounter() { ::munmap(count_, sizeof(std::atomic<int>)); }
  std::atomic<int>& operator*() const { return *count_; }

 private:
  std::atomic<int>* count_ = nullptr;
};

int files_in(const std::string& folder) {
  std::error_code none;
  const std::filesystem::directory_iterator files(folder, none);
  return none ? 0 : static_cast<int>(std::distance(files, {}));
}

}  // namespace

// A compile goes on only once every process has come, so that without a lock all of them compile.
TEST_CASE("sixteen cold processes compile a kernel once") {
  const TempDir folder(fast_folder());
  const Sample sample(1);
  SharedCounter come, compiles;
  std::vector<pid_t> processes;
  for (int i = 0; i < kProcesses; ++i) {
    processes.push_back(child([&] {
      CubinCache cache(options_for(folder.path()));
      ++*come;
      auto got = cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> {
        ++*compiles;
        while (*come < kProcesses) ::sched_yield();
        return sample.cubin;
      });
      return got && **got == sample.cubin ? 0 : 1;
    }));
  }
  for (const pid_t process : processes) CHECK(exit_code(process) == 0);
  CHECK(*compiles == 1);
  CHECK(files_in(folder / "v1/locks") == 0);
}

TEST_CASE("sixteen cold processes find out once that a kernel is rejected") {
  const TempDir folder(fast_folder());
  const Sample sample(4);
  SharedCounter come, compiles;
  std::vector<pid_t> processes;
  for (int i = 0; i < kProcesses; ++i) {
    processes.push_back(child([&] {
      CubinCache cache(options_for(folder.path()));
      ++*come;
      auto got = cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> {
        ++*compiles;
        while (*come < kProcesses) ::sched_yield();
        return make_error(ErrorCode::kKernelRejected, "it spills");
      });
      return !got && take_report(got.takeError()).message == "it spills" ? 0 : 1;
    }));
  }
  for (const pid_t process : processes) CHECK(exit_code(process) == 0);
  CHECK(*compiles == 1);
  CHECK(files_in(folder / "v1/locks") == 0);
}

TEST_CASE("the lock of a process that is killed is free at once") {
  const TempDir folder(fast_folder());
  const Sample sample(2);
  Pipe compiling, never;
  const pid_t holder = child([&] {
    CubinCache cache(options_for(folder.path()));
    auto got = cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> {
      compiling.put();
      never.take();
      return sample.cubin;
    });
    return got ? 0 : 1;
  });
  CHECK(compiling.take() == 'x');
  CHECK(files_in(folder / "v1/locks") == 1);
  // Two that wait; one of them takes over.
  SharedCounter compiles;
  std::vector<pid_t> waiters;
  for (int i = 0; i < 2; ++i) {
    waiters.push_back(child([&] {
      CubinCache cache(options_for(folder.path()));
      auto got = cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> {
        ++*compiles;
        return sample.cubin;
      });
      return got && **got == sample.cubin ? 0 : 1;
    }));
  }
  ::kill(holder, SIGKILL);
  CHECK(exit_code(holder) == -1);
  for (const pid_t waiter : waiters) CHECK(exit_code(waiter) == 0);
  CHECK(*compiles == 1);
  CHECK(files_in(folder / "v1/locks") == 0);
}

TEST_CASE("a process that hangs is waited for only so long") {
  const TempDir folder(fast_folder());
  const Sample sample(3);
  Fixture first(folder.path());
  CacheOptions impatient = options_for(folder.path());
  impatient.patience = std::chrono::milliseconds(5);
  std::vector<std::string> warnings;
  impatient.warn = [&](const std::string& line) { warnings.push_back(line); };
  int compiles = 0;
  auto outer = first.cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> {
    // This one holds the lock; another cache is another holder, in one process too.
    CubinCache second(impatient);
    auto inner = second.get(sample.key, sample.record, [&]() -> Expected<Cubin> {
      ++compiles;
      return sample.cubin;
    });
    CHECK(inner);
    ++compiles;
    return sample.cubin;
  });
  CHECK(outer);
  CHECK(compiles == 2);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("another process") != std::string::npos);
}

TEST_CASE("after a compile that failed the waiting processes do not wait for each other") {
  const TempDir folder(fast_folder());
  REQUIRE(::mkdir((folder / "locks").c_str(), 0700) == 0);
  const int root = ::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(root >= 0);
  FileSystem& files = FileSystem::real();
  const auto now = std::chrono::milliseconds(0);
  EntryLock holder = EntryLock::acquire(files, root, "locks/a", now);
  REQUIRE(holder.state() == EntryLock::State::kHeld);
  CHECK(EntryLock::acquire(files, root, "locks/a", now).state() == EntryLock::State::kTimedOut);
  Pipe ready;
  const pid_t waiter = child([&] {
    Announcing announcing(ready);
    return static_cast<int>(EntryLock::acquire(announcing, root, "locks/a", kPatience).state());
  });
  ready.take();
  holder.mark_failed();
  holder.release();
  const int state = exit_code(waiter);
  CHECK(state == static_cast<int>(EntryLock::State::kHolderFailed));
  ::close(root);
}
