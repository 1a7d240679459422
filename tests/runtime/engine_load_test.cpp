// SPDX-License-Identifier: Apache-2.0
// Engine::load over a fake driver: the driver calls, each made once; and every refusal, before a
// driver call where possible.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/engine.h"
#include "tests/support/affine_chain.h"
#include "tests/support/fake_driver.h"

using namespace catenary;
using catenary::cuda::ScopedDriver;
using catenary::testing::affine_chain;
using catenary::testing::affine_compiled;
using catenary::testing::fake;
using catenary::testing::fake_api;
using catenary::testing::no_cache;
using catenary::testing::parameter_slot;

TEST_CASE("a load forces the lazy load, raises the shared-memory limit, and happens once") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  const auto count = [](const std::string& call) {
    return std::count(fake().calls.begin(), fake().calls.end(), call);
  };
  {
    auto first = llvm::cantFail(engine.load(affine_compiled(), 1));
    CHECK(first->device() == 1);
    CHECK(first->workspace_bytes() == 4096);
    CHECK(fake().calls[0] == "push 101");
    CHECK(count("load") == 3);
    CHECK(count("func_load k_scale") == 1);
    CHECK(count("attribute 8=65536") == 1);
    CHECK(fake().loaded_relaxed);
    CHECK(fake().capture_mode == 0);
    CHECK(fake().pushed == 0);
    auto second = llvm::cantFail(engine.load(affine_compiled(), 1));
    CHECK(count("load") == 3);  // the same kernels on the same device
    auto third = llvm::cantFail(engine.load(affine_compiled(), 0));
    CHECK(count("load") == 6);
    CHECK(count("unload") == 0);
  }
  CHECK(count("unload") == 6);
}

namespace {

// A load that returns once two are at it.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  int at_it = 0;
  bool met = false;
};
Meeting& meeting() {
  static Meeting one;
  return one;
}

cuda::Result load_together(cuda::Library* library, const void*, int*, void**, unsigned, int*,
                           void**, unsigned) {
  static std::atomic<std::uintptr_t> next{1};
  *library = reinterpret_cast<cuda::Library>(next++);
  Meeting& here = meeting();
  std::unique_lock lock(here.mutex);
  here.met = here.met || ++here.at_it == 2;
  here.changed.notify_all();
  here.changed.wait_for(lock, std::chrono::seconds(60), [&] { return here.met; });
  return cuda::kSuccess;
}

}  // namespace

TEST_CASE("threads load different kernels at the same time") {
  cuda::Api api = fake_api();
  api.library_load_data = load_together;
  // What the fake driver keeps of the other calls is for one thread.
  api.library_unload = [](cuda::Library) { return cuda::kSuccess; };
  api.library_get_kernel = [](cuda::Kernel* kernel, cuda::Library library, const char*) {
    return *kernel = reinterpret_cast<cuda::Kernel>(library), cuda::kSuccess;
  };
  api.func_load = [](cuda::Function) { return cuda::kSuccess; };
  api.func_set_attribute = [](cuda::Function, int, int) { return cuda::kSuccess; };
  api.ctx_push_current = [](cuda::Context) { return cuda::kSuccess; };
  api.ctx_pop_current = [](cuda::Context*) { return cuda::kSuccess; };
  api.thread_exchange_stream_capture_mode = [](int*) { return cuda::kSuccess; };
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(api));
  Engine engine{no_cache()};
  const std::shared_ptr<CompiledChain> chains[] = {affine_compiled(), affine_compiled()};
  for (auto& bucket : chains[1]->buckets) {
    for (CompiledKernel& kernel : bucket) kernel.key.bytes[0] ^= 0xff;
  }
  std::vector<std::thread> threads;
  for (const auto& chain : chains) {
    threads.emplace_back([&engine, chain] { CHECK(static_cast<bool>(engine.load(chain, 0))); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(meeting().met);
}

TEST_CASE("an older driver without cuFuncLoad still loads") {
  cuda::Api api = fake_api();
  api.func_load = nullptr;
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(api));
  Engine engine{no_cache()};
  CHECK(static_cast<bool>(engine.load(affine_compiled(), 0)));
}

TEST_CASE("a persistent grid has no more clusters than run at once; those of two always do") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  const auto grid = [&](int cluster, i64 limit) {
    auto compiled = affine_compiled();
    KernelPlan& plan = compiled->plan.buckets[1].kernels[0];
    plan.cluster = cluster;
    plan.grid.limit = limit;
    const auto executable = llvm::cantFail(engine.load(std::move(compiled), 0));
    alignas(256) static unsigned char x[2048], b[32], y[1024], workspace[4096];
    void* tensors[] = {x, b, y};
    const float alpha = 1;
    LaunchArguments arguments;
    arguments.tensors = tensors;
    arguments.scalars = alpha;
    arguments.workspace = workspace;
    arguments.symbol = 64;
    fake().launches.clear();
    llvm::cantFail(executable->launch(arguments));
    return fake().launches.at(0).grid;
  };
  fake().clusters = 7;
  CHECK(grid(4, 48) == 28);
  CHECK(grid(8, 48) == 48);
  CHECK(grid(2, 48) == 48);
  CHECK(grid(4, 0) == 64);
  fake().clusters = 0;  // the driver's answer for what never fits: the launch says why
  CHECK(grid(4, 48) == 4);
  const auto asked = [](const std::string& call) { return llvm::is_contained(fake().calls, call); };
  CHECK(asked("clusters of 4"));
  CHECK(!asked("clusters of 2"));
  fake().clusters_result = 1;
  auto compiled = affine_compiled();
  compiled->plan.buckets[1].kernels[0].cluster = 4;
  compiled->plan.buckets[1].kernels[0].grid.limit = 48;
  const ErrorReport report = take_report(engine.load(compiled, 0).takeError());
  CHECK(report.code == ErrorCode::kDriver);
  CHECK(report.message.find("asking for the clusters of kernel k_all") != std::string::npos);
}

TEST_CASE("load refuses during capture, for another GPU, and where the driver does") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  const auto report_of = [&](const char* arch, int device, cuda::Stream stream = nullptr) {
    return take_report(engine.load(affine_compiled(arch), device, stream).takeError());
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
  expect(take_report(engine.load(std::shared_ptr<const ChainRecord>(), 0).takeError()),
         ErrorCode::kInvalidArgument, {"null"});
  CHECK(std::count(fake().calls.begin(), fake().calls.end(), "load") == 0);

  const auto stream = reinterpret_cast<cuda::Stream>(0x77);
  fake().capture_status = 1;
  fake().capturing_stream = stream;
  expect(report_of("sm_90a", 0, stream), ErrorCode::kNotWarmedCapture, {"prepare() before"});
  fake().capture_status = 0;
  fake().capture_result = 906;
  expect(report_of("sm_90a", 0), ErrorCode::kNotWarmedCapture, {"prepare() before"});
  expect(take_report(engine.prepare(affine_chain().chain(), 0).takeError()),
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

// Drivers load the machine code of their major version and of older ones.
TEST_CASE("machine code of a newer CUDA than the driver's is told as such") {
  const std::pair<const char*, int> oldest[] = {{"nvrtc 13.0.88 CL-36424714", 13000},
                                                {"nvrtc 12.8.93 CL-35583870", 12000},
                                                {"nvrtc 11.8.89 CL-1", cuda::kMinimumDriver},
                                                {"nvrtc 13", 13000},
                                                {"nvrtc x.y", cuda::kMinimumDriver},
                                                {"host g++ 13.1", cuda::kMinimumDriver},
                                                {"", cuda::kMinimumDriver}};
  for (const auto& [compiler, expected] : oldest) {
    CAPTURE(compiler);
    CHECK(cuda::oldest_driver_for(compiler) == expected);
  }
  const auto message = [](int version) {
    cuda::Api api = fake_api();
    fake().version = version;
    const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(api));
    fake().load_result = 200;
    auto record = std::make_shared<ChainRecord>(*make_record(affine_compiled()));
    for (BucketRecord& bucket : record->buckets) {
      for (KernelRecord& kernel : bucket.kernels) {
        Cubin cubin = *kernel.cubin;
        cubin.compiler_id = "nvrtc 13.0.88 CL-36424714";
        kernel.cubin = std::make_shared<const Cubin>(cubin);
      }
    }
    Engine engine{no_cache()};
    std::shared_ptr<const ChainRecord> shared = record;
    const ErrorReport report = take_report(engine.load(shared, 0).takeError());
    CHECK(report.code == (version < 13000 ? ErrorCode::kArchMismatch : ErrorCode::kDriver));
    return report.message;
  };
  CHECK(message(12080).find("nvrtc 13.0.88 CL-36424714 and needs driver 13.0, and this one is "
                            "12.8") != std::string::npos);
  CHECK(message(13020).find("needs driver") == std::string::npos);
}

TEST_CASE("load refuses parameters and grids that exceed the limits of a launch") {
  const ScopedDriver driver = llvm::cantFail(ScopedDriver::over(fake_api()));
  Engine engine{no_cache()};
  auto compiled = affine_compiled();
  compiled->plan.buckets[1].kernels[0].slots.assign(512, parameter_slot(0, 16));
  ErrorReport report = take_report(engine.load(compiled, 0).takeError());
  CHECK(report.code == ErrorCode::kResourceLimit);
  CHECK(report.message.find("k_all") != std::string::npos);
  CHECK(report.message.find("512 pointers") != std::string::npos);

  compiled = affine_compiled();
  compiled->plan.buckets[0].kernels[1].grid = GridRule{.fixed = i64{1} << 31};
  report = take_report(engine.load(compiled, 0).takeError());
  CHECK(report.code == ErrorCode::kResourceLimit);
  CHECK(report.message.find("2147483648 CTAs") != std::string::npos);
}
