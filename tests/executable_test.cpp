// SPDX-License-Identifier: Apache-2.0
// Executable over a fake driver: what is launched, with which bytes, in which order; every wrong
// argument; loading and its refusals. The compiled chain is made by hand, so no compiler takes
// part.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "runtime/engine.h"
#include "shared/params.h"
#include "tests/support/fake_driver.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// Not inlined: the compiler would otherwise see free() meet a pointer from operator new.
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
using catenary::testing::fake;
using catenary::testing::fake_api;
using catenary::testing::FakeLaunch;
using cuda::ScopedDriver;

namespace {

constexpr i64 kColumns = 8;
constexpr i64 kMaxRows = 64;

TensorType rows(DType dtype, i64 align = 16) {
  TensorType type;
  type.dtype = dtype;
  type.shape = {Dim{kMaxRows, true}, Dim{kColumns, false}};
  type.align = align;
  return type;
}

// y[M, 8] = x[M, 8] * alpha + b[8], M in 0..64. Parameters: x, alpha, b.
VerifiedChain test_chain() {
  Chain chain;
  chain.name = "affine";
  chain.symbol = Symbol{"M", 0, kMaxRows};
  const ValueId x = chain.parameter(Role::kInput, "x", rows(DType::kF32));
  TensorType scalar;
  scalar.align = 4;
  const ValueId alpha = chain.parameter(Role::kScalar, "alpha", scalar);
  TensorType bias;
  bias.shape = {Dim{kColumns, false}};
  const ValueId b = chain.parameter(Role::kWeight, "b", bias);
  const ValueId scaled = chain.elementwise(Op::kScale, {Use{x, ""}, Use{alpha, ""}}, {}, "scaled");
  const ValueId y = chain.elementwise(Op::kAdd, {Use{scaled, ""}, Use{b, ""}}, {}, "y");
  chain.returns(y, DType::kBF16);
  return llvm::cantFail(verify(std::move(chain)));
}

SlotBinding parameter_slot(int position, i64 align) {
  SlotBinding slot;
  slot.index = position;
  slot.align = align;
  return slot;
}

SlotBinding output_slot(int index) {
  SlotBinding slot;
  slot.kind = SlotBinding::Kind::kOutput;
  slot.index = index;
  return slot;
}

SlotBinding workspace_slot(i64 offset) {
  SlotBinding slot;
  slot.kind = SlotBinding::Kind::kWorkspace;
  slot.workspace_offset = offset;
  return slot;
}

KernelPlan kernel_plan(const char* symbol, std::vector<SlotBinding> slots, GridRule grid) {
  KernelPlan kernel;
  kernel.symbol = symbol;
  kernel.slots = std::move(slots);
  kernel.grid = grid;
  kernel.threads = 128;
  return kernel;
}

// M in 0..16: k_scale then k_add through the workspace. M in 17..64: one kernel with shared memory.
std::shared_ptr<CompiledChain> test_compiled(const char* arch = "sm_90a") {
  Plan plan;
  plan.target = llvm::cantFail(find_target("h200"));
  plan.workspace_bytes = 4096;
  PlanBucket small{0, 16, {}, {true, true}};
  small.kernels.push_back(kernel_plan("k_scale", {parameter_slot(0, 16), workspace_slot(512)},
                                      GridRule{.fixed = 2, .scale = 1, .block = 4}));
  small.kernels[0].scalars = {1};
  small.kernels.push_back(kernel_plan("k_add",
                                      {workspace_slot(512), parameter_slot(2, 16), output_slot(0)},
                                      GridRule{.scale = 1, .block = 8}));
  PlanBucket large{17, kMaxRows, {}, {false}};
  large.kernels.push_back(
      kernel_plan("k_all", {parameter_slot(0, 16), parameter_slot(2, 16), output_slot(0)},
                  GridRule{.scale = 1}));
  large.kernels[0].smem_bytes = 65536;
  plan.buckets = {small, large};

  auto compiled = std::make_shared<CompiledChain>(CompiledChain{test_chain(), plan, {}});
  u8 number = 0;
  for (const PlanBucket& bucket : plan.buckets) {
    compiled->buckets.emplace_back();
    for (const KernelPlan& kernel : bucket.kernels) {
      CompiledKernel made;
      made.key.bytes[0] = ++number;
      auto cubin = std::make_shared<Cubin>();
      cubin->symbol = kernel.symbol;
      cubin->arch = arch;
      cubin->image = {0x7f, 'E', 'L', 'F'};
      made.cubin = cubin;
      compiled->buckets.back().push_back(std::move(made));
    }
  }
  return compiled;
}

EngineOptions no_cache() {
  EngineOptions options;
  options.cache.mode = CacheMode::kOff;
  return options;
}

// A driver of fakes, an engine and the test chain loaded on device 0.
struct Loaded {
  ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  std::shared_ptr<const Executable> executable = llvm::cantFail(engine.load(test_compiled(), 0));
};

// Device memory that nobody touches, and the arguments that use it well.
struct Arguments {
  alignas(256) unsigned char x[kMaxRows * kColumns * 4];
  alignas(256) unsigned char b[kColumns * 4];
  alignas(256) unsigned char y[kMaxRows * kColumns * 2];
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

  const FakeLaunch& add = fake().launches[1];
  CHECK(add.kernel == "k_add");
  CHECK(add.grid == 2);
  const auto second = image_as<Params<3, 0>>(add);
  CHECK(second.ptr[0] == arguments.workspace + 512);
  CHECK(second.ptr[1] == arguments.b);
  CHECK(second.ptr[2] == arguments.y);
  CHECK(second.symbol == 9);
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

TEST_CASE("an edge overlaps where it is planned and, before the first kernel, allowed") {
  Loaded loaded;
  Arguments small(4);
  llvm::cantFail(loaded.executable->launch(small.launch));
  CHECK_FALSE(fake().launches[0].overlap);
  CHECK(fake().launches[1].overlap);

  fake().launches.clear();
  small.launch.overlap_previous = true;
  llvm::cantFail(loaded.executable->launch(small.launch));
  CHECK(fake().launches[0].overlap);
  CHECK(fake().launches[1].overlap);

  fake().launches.clear();
  Arguments large(20);
  large.launch.overlap_previous = true;
  llvm::cantFail(loaded.executable->launch(large.launch));
  CHECK_FALSE(fake().launches[0].overlap);
}

TEST_CASE("a kernel without CTAs is skipped, and what follows it overlaps nothing") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  auto compiled = test_compiled();
  compiled->plan.buckets[0].kernels[0].grid = GridRule{.fixed = 0};
  auto executable = llvm::cantFail(engine.load(compiled, 0));
  Arguments arguments(4);
  arguments.launch.overlap_previous = true;
  llvm::cantFail(executable->launch(arguments.launch));
  REQUIRE(fake().launches.size() == 1);
  CHECK(fake().launches[0].kernel == "k_add");
  CHECK_FALSE(fake().launches[0].overlap);
}

TEST_CASE("an empty symbol launches nothing and takes null for what has no elements") {
  Loaded loaded;
  Arguments arguments(0);
  arguments.tensors[0] = nullptr;
  arguments.tensors[2] = nullptr;
  llvm::cantFail(loaded.executable->launch(arguments.launch));
  CHECK(fake().launches.empty());
  arguments.tensors[1] = nullptr;  // b has elements whatever M is
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
  workspace.tensors[1] = workspace.x + 16;  // two that are read may share memory
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
  fake().launches.reserve(4);
  fake().image_bytes = 0;
  llvm::cantFail(loaded.executable->launch(arguments.launch));
  const long before = allocations.load();
  // The fake's own record of the name fits std::string's inner buffer.
  Error error = loaded.executable->launch(arguments.launch);
  const long after = allocations.load();
  CHECK_FALSE(static_cast<bool>(error));
  CHECK(after == before);
}

TEST_CASE("threads may launch one executable at once") {
  const cuda::Api api = [] {
    cuda::Api table = fake_api();
    table.launch_kernel_ex = [](const cuda::LaunchConfig*, cuda::Function, void**, void**) {
      static std::atomic<int> count{0};
      return ++count, 0;
    };
    return table;
  }();
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(api));
  Engine engine{no_cache()};
  auto executable = llvm::cantFail(engine.load(test_compiled(), 0));
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

TEST_CASE("loading forces the load, raises the limit once and unloads at the end") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  const auto count = [](const std::string& call) {
    return std::count(fake().calls.begin(), fake().calls.end(), call);
  };
  {
    auto first = llvm::cantFail(engine.load(test_compiled(), 1));
    CHECK(first->device() == 1);
    CHECK(first->workspace_bytes() == 4096);
    CHECK(fake().calls[0] == "push 101");
    CHECK(count("load") == 3);
    CHECK(count("func_load k_scale") == 1);
    CHECK(count("attribute 8=65536") == 1);
    CHECK(fake().loaded_relaxed);
    CHECK(fake().capture_mode == 0);
    CHECK(fake().pushed == 0);
    auto second = llvm::cantFail(engine.load(test_compiled(), 1));
    CHECK(count("load") == 3);  // the same kernels on the same device
    auto third = llvm::cantFail(engine.load(test_compiled(), 0));
    CHECK(count("load") == 6);
    CHECK(count("unload") == 0);
  }
  CHECK(count("unload") == 6);
}

TEST_CASE("an older driver without cuFuncLoad still loads") {
  cuda::Api api = fake_api();
  api.func_load = nullptr;
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(api));
  Engine engine{no_cache()};
  CHECK(static_cast<bool>(engine.load(test_compiled(), 0)));
}

TEST_CASE("loading refuses capture, other GPUs and what the driver refuses") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  const auto report_of = [&](const char* arch, int device, cuda::Stream stream = nullptr) {
    return take_report(engine.load(test_compiled(arch), device, stream).takeError());
  };
  const auto expect = [](const ErrorReport& report, ErrorCode code,
                         std::initializer_list<const char*> parts) {
    CHECK(report.code == code);
    for (const char* part : parts) {
      CAPTURE(report.message);
      CHECK(report.message.find(part) != std::string::npos);
    }
  };
  expect(report_of("sm_80", 0), ErrorCode::kArchMismatch, {"'affine'", "sm_80", "sm_90", "H200"});
  expect(report_of("sm_100a", 0), ErrorCode::kArchMismatch, {"sm_100a"});
  expect(report_of("sm_90a", 5), ErrorCode::kInvalidArgument, {"device 5"});
  expect(take_report(engine.load(nullptr, 0).takeError()), ErrorCode::kInvalidArgument, {"null"});
  CHECK(std::count(fake().calls.begin(), fake().calls.end(), "load") == 0);

  const auto stream = reinterpret_cast<cuda::Stream>(0x77);
  fake().capture_status = 1;
  fake().capturing_stream = stream;
  expect(report_of("sm_90a", 0, stream), ErrorCode::kNotWarmedCapture, {"prepare() before"});
  fake().capture_status = 0;
  fake().capture_result = 906;
  expect(report_of("sm_90a", 0), ErrorCode::kNotWarmedCapture, {"prepare() before"});
  expect(take_report(engine.prepare(test_chain().chain(), 0).takeError()),
         ErrorCode::kNotWarmedCapture, {"prepare() before"});
  fake().capture_result = 0;
  CHECK(std::count(fake().calls.begin(), fake().calls.end(), "load") == 0);

  fake().smem_per_cta = 48 * 1024;
  expect(report_of("sm_90a", 0), ErrorCode::kResourceLimit, {"k_all", "65536", "49152"});
  fake().smem_per_cta = 227 * 1024;
  fake().load_result = 209;
  expect(report_of("sm_90a", 0), ErrorCode::kArchMismatch, {"k_scale"});
  fake().load_result = 0;
  fake().get_kernel_result = 500;
  expect(report_of("sm_90a", 0), ErrorCode::kDriver, {"k_scale", "entry"});
  CHECK(fake().calls.back() == "unload");
  CHECK(fake().pushed == 0);
}

TEST_CASE("parameters and grids that no launch takes are refused at load") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  auto compiled = test_compiled();
  compiled->plan.buckets[1].kernels[0].slots.assign(512, parameter_slot(0, 16));
  ErrorReport report = take_report(engine.load(compiled, 0).takeError());
  CHECK(report.code == ErrorCode::kResourceLimit);
  CHECK(report.message.find("k_all") != std::string::npos);
  CHECK(report.message.find("512 pointers") != std::string::npos);

  compiled = test_compiled();
  compiled->plan.buckets[0].kernels[1].grid = GridRule{.fixed = i64{1} << 31};
  report = take_report(engine.load(compiled, 0).takeError());
  CHECK(report.code == ErrorCode::kResourceLimit);
  CHECK(report.message.find("2147483648 CTAs") != std::string::npos);
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
    const ErrorReport load = take_report(loaded.engine.load(test_compiled(), 0).takeError());
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
