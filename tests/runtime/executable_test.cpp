// SPDX-License-Identifier: Apache-2.0
// Executable over a fake driver: which kernels are launched, with which bytes, in which order;
// every wrong argument. The compiled chain is written by hand: no compiler takes part.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "runtime/engine.h"
#include "shared/params.h"
#include "simulator/model/tensor_map.h"
#include "tests/support/affine_chain.h"
#include "tests/support/fake_driver.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// Not inlined: the compiler would warn of free() on a pointer from operator new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

using namespace catenary;
using catenary::testing::affine_compiled;
using catenary::testing::fake;
using catenary::testing::fake_api;
using catenary::testing::FakeLaunch;
using catenary::testing::kAffineColumns;
using catenary::testing::kAffineMaxRows;
using catenary::testing::no_cache;
using cuda::ScopedDriver;

namespace {

// A fake driver, an engine, and the test chain loaded on device 0.
struct Loaded {
  ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  std::shared_ptr<const Executable> executable = llvm::cantFail(engine.load(affine_compiled(), 0));
};

// Addresses that no test reads or writes, and valid arguments over them.
struct Arguments {
  alignas(256) unsigned char x[kAffineMaxRows * kAffineColumns * 4];
  alignas(256) unsigned char b[kAffineColumns * 4];
  alignas(256) unsigned char y[kAffineMaxRows * kAffineColumns * 2];
  alignas(256) unsigned char workspace[4096];
  void* tensors[3] = {x, b, y};
  float scalars[1] = {2.5f};
  LaunchArguments launch;
  explicit Arguments(i64 symbol) {
    launch.tensors = tensors;
    launch.scalars = scalars;
    launch.symbol = symbol;
    launch.workspace = workspace;
    launch.stream = reinterpret_cast<cuda::Stream>(0x55);
  }
};

template <typename Struct>
Struct image_as(const FakeLaunch& launch) {
  Struct value;
  REQUIRE(launch.image.size() >= sizeof value);
  std::memcpy(&value, launch.image.data(), sizeof value);
  return value;
}

void expect_refused(const Loaded& loaded, const LaunchArguments& launch,
                    std::initializer_list<const char*> parts) {
  const ErrorReport report = take_report(loaded.executable->launch(launch));
  CHECK(report.code == ErrorCode::kInvalidArgument);
  for (const char* part : parts) {
    CAPTURE(part);
    CAPTURE(report.message);
    CHECK(report.message.find(part) != std::string::npos);
  }
  CHECK(fake().launches.empty());
}

}  // namespace

TEST_CASE("kernels are launched in order with the planned bytes") {
  Loaded loaded;
  Arguments arguments(9);
  llvm::cantFail(loaded.executable->launch(arguments.launch));
  REQUIRE(fake().launches.size() == 2);

  const FakeLaunch& scale = fake().launches[0];
  CHECK(scale.kernel == "k_scale");
  CHECK(scale.grid == 2 * 3);
  CHECK(scale.block == 128);
  CHECK(scale.smem == 0);
  CHECK(scale.stream == arguments.launch.stream);
  const auto first = image_as<Params<2, 1>>(scale);
  CHECK(first.ptr[0] == arguments.x);
  CHECK(first.ptr[1] == arguments.workspace + 512);
  CHECK(first.symbol == 9);
  CHECK(first.scalar[0] == 2.5f);
  CHECK(first.pdl == 0);

  const FakeLaunch& add = fake().launches[1];
  CHECK(add.kernel == "k_add");
  CHECK(add.grid == 2);
  const auto second = image_as<Params<3, 0>>(add);
  CHECK(second.ptr[0] == arguments.workspace + 512);
  CHECK(second.ptr[1] == arguments.b);
  CHECK(second.ptr[2] == arguments.y);
  CHECK(second.symbol == 9);
}

// The kernel of the large bucket, with a map of x (M rows of 8 columns) before its pointers.
std::shared_ptr<CompiledChain> mapped_chain() {
  auto compiled = affine_compiled();
  KernelPlan& plan = compiled->plan.buckets[1].kernels[0];
  MapBinding map;
  map.slot = 0;
  map.dtype = DType::kF32;
  map.dims = {{Extent(kAffineColumns), 4, 8}, {Extent(kAffineMaxRows, 1), kAffineColumns * 4, 16}};
  CHECK(map_limit(map, plan.slots[0]) == "");
  plan.maps = {map};
  plan.cluster = 2;
  plan.grid.limit = 48;
  return compiled;
}

TEST_CASE("tensor maps are encoded at each launch, before the pointers") {
  Loaded loaded;
  const auto executable = llvm::cantFail(loaded.engine.load(mapped_chain(), 0));
  fake().image_bytes = sizeof(Params<3, 0, 1>);
  for (i64 symbol : {17, 64}) {
    Arguments arguments(symbol);
    fake().launches.clear();
    llvm::cantFail(executable->launch(arguments.launch));
    REQUIRE(fake().launches.size() == 1);
    const FakeLaunch& launch = fake().launches[0];
    CHECK(launch.cluster == 2);
    CHECK(launch.grid == std::min<i64>(symbol, 48));
    const auto image = image_as<Params<3, 0, 1>>(launch);
    CHECK(image.ptr[0] == arguments.x);
    CHECK(image.ptr[2] == arguments.y);
    CHECK(image.symbol == symbol);
    const auto spec = sim::decode_tensor_map(image.map[0]);
    REQUIRE(spec.has_value());
    CHECK(spec->base == reinterpret_cast<u64>(arguments.x));
    CHECK(spec->sizes[0] == kAffineColumns);
    CHECK(spec->sizes[1] == static_cast<u64>(symbol));
    CHECK(spec->strides[0] == kAffineColumns * 4);
    CHECK(spec->box[1] == 16);
    CHECK(spec->dtype == DType::kF32);
    CHECK_FALSE(spec->as_tf32);
  }
}

TEST_CASE("a map that the driver refuses stops the launch") {
  Loaded loaded;
  auto compiled = mapped_chain();
  compiled->plan.buckets[1].kernels[0].maps[0].dims[1].stride = 24;
  CHECK(map_limit(compiled->plan.buckets[1].kernels[0].maps[0],
                  compiled->plan.buckets[1].kernels[0].slots[0])
            .find("24 bytes") != std::string::npos);
  const auto executable = llvm::cantFail(loaded.engine.load(compiled, 0));
  Arguments arguments(20);
  const ErrorReport report = take_report(executable->launch(arguments.launch));
  CHECK(report.code == ErrorCode::kInvalidArgument);
  CHECK(report.message.find("24 bytes") != std::string::npos);
  CHECK(fake().launches.empty());
}

TEST_CASE("the error names the rule of tensor maps that is broken") {
  const SlotBinding slot = catenary::testing::parameter_slot(0, 16);
  MapBinding good;
  good.dims = {{Extent(64), 2, 64}, {Extent(128), 128, 32}};
  good.swizzle = Swizzle::k128;
  CHECK(map_limit(good, slot) == "");
  CHECK(map_limit(good, catenary::testing::parameter_slot(0, 8)) != "");
  const auto problem_with = [&](auto change) {
    MapBinding map = good;
    change(map);
    return map_limit(map, slot);
  };
  CHECK(problem_with([](MapBinding& m) { m.dims[1].stride = 136; }) != "");
  CHECK(problem_with([](MapBinding& m) { m.dims[1].stride = 0; }) != "");
  CHECK(problem_with([](MapBinding& m) { m.dims[1].stride = i64{1} << 40; }) != "");
  CHECK(problem_with([](MapBinding& m) { m.dims[1].box = 257; }) != "");
  CHECK(problem_with([](MapBinding& m) { m.dims[0].box = 32; }) != "");
  CHECK(problem_with([](MapBinding& m) { m.dims[0].size = Extent((i64{1} << 32) + 1); }) != "");
  CHECK(problem_with([](MapBinding& m) { m.dims.resize(1); }) != "");
  CHECK(problem_with([](MapBinding& m) { m.dims.resize(6, m.dims[1]); }) != "");
}

TEST_CASE("the symbol picks the bucket") {
  Loaded loaded;
  for (const auto& [symbol, kernels] :
       std::initializer_list<std::pair<i64, size_t>>{{1, 2}, {16, 2}, {17, 1}, {64, 1}}) {
    CAPTURE(symbol);
    fake().launches.clear();
    Arguments arguments(symbol);
    llvm::cantFail(loaded.executable->launch(arguments.launch));
    CHECK(fake().launches.size() == kernels);
  }
  CHECK(fake().launches[0].smem == 65536);
  CHECK(fake().launches[0].grid == 64);
}

TEST_CASE("a launch has PDL where it is planned; the first kernel only if allow_pdl is set") {
  Loaded loaded;
  Arguments small(4);
  llvm::cantFail(loaded.executable->launch(small.launch));
  CHECK_FALSE(fake().launches[0].pdl);
  CHECK(fake().launches[1].pdl);
  // The parameters have the PDL flag.
  CHECK(image_as<Params<2, 1>>(fake().launches[0]).pdl == 0);
  CHECK(image_as<Params<3, 0>>(fake().launches[1]).pdl == 1);

  fake().launches.clear();
  small.launch.allow_pdl = true;
  llvm::cantFail(loaded.executable->launch(small.launch));
  CHECK(fake().launches[0].pdl);
  CHECK(fake().launches[1].pdl);
  CHECK(image_as<Params<2, 1>>(fake().launches[0]).pdl == 1);

  fake().launches.clear();
  Arguments large(20);
  large.launch.allow_pdl = true;
  llvm::cantFail(loaded.executable->launch(large.launch));
  CHECK_FALSE(fake().launches[0].pdl);
}

TEST_CASE("disable_pdl overrides the plan and allow_pdl") {
  Loaded loaded;
  Arguments small(4);
  small.launch.disable_pdl = true;
  for (const bool allow_pdl : {false, true}) {
    fake().launches.clear();
    small.launch.allow_pdl = allow_pdl;
    llvm::cantFail(loaded.executable->launch(small.launch));
    REQUIRE(fake().launches.size() == 2);
    CHECK_FALSE(fake().launches[0].pdl);
    CHECK_FALSE(fake().launches[1].pdl);
  }
}

TEST_CASE("a kernel without CTAs is skipped, and the next kernel has no PDL") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  auto compiled = affine_compiled();
  compiled->plan.buckets[0].kernels[0].grid = GridRule{.fixed = 0};
  auto executable = llvm::cantFail(engine.load(compiled, 0));
  Arguments arguments(4);
  arguments.launch.allow_pdl = true;
  llvm::cantFail(executable->launch(arguments.launch));
  REQUIRE(fake().launches.size() == 1);
  CHECK(fake().launches[0].kernel == "k_add");
  CHECK_FALSE(fake().launches[0].pdl);
}

TEST_CASE("a symbol of 0 launches nothing and allows null for tensors without elements") {
  Loaded loaded;
  Arguments arguments(0);
  arguments.tensors[0] = nullptr;
  arguments.tensors[2] = nullptr;
  llvm::cantFail(loaded.executable->launch(arguments.launch));
  CHECK(fake().launches.empty());
  arguments.tensors[1] = nullptr;  // b has elements for every M
  expect_refused(loaded, arguments.launch, {"tensor 1", "'b'", "null"});
}

TEST_CASE("wrong counts are refused") {
  Loaded loaded;
  Arguments arguments(4);
  arguments.launch.tensors = llvm::makeArrayRef(arguments.tensors, 2);
  expect_refused(loaded, arguments.launch, {"'affine'", "3 tensors", "got 2"});
  arguments.launch.tensors = arguments.tensors;
  arguments.launch.scalars = {};
  expect_refused(loaded, arguments.launch, {"1 scalars", "got 0"});
}

TEST_CASE("a symbol out of its range is refused") {
  Loaded loaded;
  for (i64 symbol : {i64{-1}, i64{65}, i64{1} << 40}) {
    Arguments arguments(1);
    arguments.launch.symbol = symbol;
    expect_refused(loaded, arguments.launch,
                   {"M", std::to_string(symbol).c_str(), "0..64", "'affine'"});
  }
}

TEST_CASE("null and misaligned addresses are refused by name") {
  Loaded loaded;
  Arguments arguments(4);
  arguments.tensors[0] = nullptr;
  expect_refused(loaded, arguments.launch, {"tensor 0", "'x'", "null", "128 bytes"});
  arguments.tensors[0] = arguments.x + 4;
  expect_refused(loaded, arguments.launch, {"tensor 0", "'x'", "multiple of 16"});
  arguments.tensors[0] = arguments.x;
  arguments.tensors[2] = nullptr;
  expect_refused(loaded, arguments.launch, {"tensor 2", "'y'", "null"});
  arguments.tensors[2] = arguments.y;

  arguments.launch.workspace = nullptr;
  expect_refused(loaded, arguments.launch, {"workspace is null", "4096"});
  arguments.launch.workspace = arguments.workspace + 128;
  expect_refused(loaded, arguments.launch, {"workspace", "multiple of 256"});
}

TEST_CASE("a written tensor may overlap nothing") {
  Loaded loaded;
  Arguments arguments(4);  // x: 128 bytes, b: 32, y: 64
  arguments.tensors[2] = arguments.x;
  expect_refused(loaded, arguments.launch, {"tensor 2 ('y')", "written", "tensor 0 ('x')"});
  arguments.tensors[2] = arguments.x + 112;
  expect_refused(loaded, arguments.launch, {"tensor 2 ('y')", "tensor 0 ('x')"});
  arguments.tensors[2] = arguments.x + 128;  // next to x at M = 4, inside it at M = 64
  llvm::cantFail(loaded.executable->launch(arguments.launch));
  fake().launches.clear();
  arguments.launch.symbol = 64;
  expect_refused(loaded, arguments.launch, {"tensor 2 ('y')", "tensor 0 ('x')"});

  Arguments inside(64);  // b within y, and both within a third
  inside.tensors[1] = inside.y + 512;
  expect_refused(loaded, inside.launch, {"tensor 2 ('y')", "tensor 1 ('b')"});

  Arguments workspace(4);
  workspace.tensors[1] = workspace.workspace + 4080;
  expect_refused(loaded, workspace.launch, {"the workspace", "tensor 1 ('b')"});
  workspace.tensors[1] = workspace.x + 16;  // two inputs may share memory
  llvm::cantFail(loaded.executable->launch(workspace.launch));
}

TEST_CASE("a launch that the driver refuses names the kernel and stops") {
  Loaded loaded;
  Arguments arguments(4);
  fake().fail_launch = 1;
  fake().launch_result = 700;
  const ErrorReport report = take_report(loaded.executable->launch(arguments.launch));
  CHECK(report.code == ErrorCode::kContextPoisoned);
  CHECK(report.message.find("k_add") != std::string::npos);
  CHECK(report.message.find("'affine'") != std::string::npos);
  CHECK(fake().launches.size() == 1);
  fake().launches.clear();
  fake().fail_launch = 0;
  fake().launch_result = 1;
  CHECK(take_report(loaded.executable->launch(arguments.launch)).code == ErrorCode::kDriver);
}

TEST_CASE("a launch allocates nothing") {
  Loaded loaded;
  Arguments arguments(20);
  fake().launches.reserve(8);
  fake().image_bytes = 0;
  const auto mapped = llvm::cantFail(loaded.engine.load(mapped_chain(), 0));
  for (const Executable* executable : {loaded.executable.get(), mapped.get()}) {
    llvm::cantFail(executable->launch(arguments.launch));
    const long before = allocations.load();
    // The fake's record of the kernel name fits the inline buffer of std::string.
    Error error = executable->launch(arguments.launch);
    const long after = allocations.load();
    CHECK_FALSE(static_cast<bool>(error));
    CHECK(after == before);
  }
}

TEST_CASE("a launch needs no current context and leaves the thread's as it is") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  auto executable = llvm::cantFail(engine.load(affine_compiled(), 0));
  Arguments arguments(8);
  REQUIRE(fake().pushed == 0);
  llvm::cantFail(executable->launch(arguments.launch));
  REQUIRE(!fake().launches.empty());
  CHECK(fake().launches.back().context_current);
  CHECK(fake().pushed == 0);
  {
    const auto scope = llvm::cantFail(cuda::ScopedContext::primary(0));
    const size_t before = fake().calls.size();
    llvm::cantFail(executable->launch(arguments.launch));
    CHECK(fake().calls.size() == before);  // that context is current: nothing is pushed
    CHECK(fake().pushed == 1);
  }
}

TEST_CASE("threads may launch one executable at once") {
  const cuda::Api api = [] {
    cuda::Api table = fake_api();
    table.ctx_push_current = [](cuda::Context) { return 0; };
    table.ctx_pop_current = [](cuda::Context*) { return 0; };
    table.ctx_get_current = [](cuda::Context* context) { return *context = nullptr, 0; };
    table.launch_kernel_ex = [](const cuda::LaunchConfig*, cuda::Function, void**, void**) {
      static std::atomic<int> count{0};
      return ++count, 0;
    };
    return table;
  }();
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(api));
  Engine engine{no_cache()};
  auto executable = llvm::cantFail(engine.load(affine_compiled(), 0));
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Arguments arguments(1 + t * 16);
      for (int i = 0; i < 200; ++i) {
        if (Error error = executable->launch(arguments.launch)) {
          llvm::consumeError(std::move(error));
          ++failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("a chain without a symbol takes 0 only") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  Chain chain;
  chain.name = "fixed";
  TensorType type;
  type.shape = {Dim{0, false}, Dim{4, false}};
  const ValueId x = chain.parameter(Role::kInput, "x", type);
  chain.returns(chain.elementwise(Op::kRelu, {Use{x, ""}}, {}, "y"), DType::kF32);
  Plan plan;
  plan.buckets.emplace_back();
  auto compiled = std::make_shared<CompiledChain>(
      CompiledChain{llvm::cantFail(verify(std::move(chain))), plan, {{}}});
  auto executable = llvm::cantFail(engine.load(compiled, 0));
  void* tensors[2] = {nullptr, nullptr};
  LaunchArguments launch;
  launch.tensors = tensors;
  CHECK_FALSE(static_cast<bool>(executable->launch(launch)));
  launch.symbol = 3;
  const ErrorReport report = take_report(executable->launch(launch));
  CHECK(report.code == ErrorCode::kInvalidArgument);
  CHECK(report.message.find("got 3") != std::string::npos);
}

TEST_CASE("a forked child is refused with one sentence") {
  Loaded loaded;
  Arguments arguments(4);
  const pid_t child = fork();
  if (child == 0) {
    const ErrorReport launch = take_report(loaded.executable->launch(arguments.launch));
    const ErrorReport load = take_report(loaded.engine.load(affine_compiled(), 0).takeError());
    const bool refused = launch.code == ErrorCode::kDriver && load.code == ErrorCode::kDriver &&
                         launch.message.find("fork") != std::string::npos &&
                         fake().launches.empty();
    _exit(refused ? 0 : 1);
  }
  REQUIRE(child > 0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  llvm::cantFail(loaded.executable->launch(arguments.launch));
}
