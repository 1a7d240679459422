// SPDX-License-Identifier: Apache-2.0
// The simulator as the process's driver: properties, copies, fills, kernels of an engine, graphs,
// faults as errors. Each kind of device refuses the machine code of the other.
#include "runtime/driver/simulated_driver.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "runtime/driver/simulated_launch.h"
#include "tests/support/simulated_device.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::cuda;
using namespace catenary::testing;
using catenary::test::ScopedEnv;

namespace {

// A kernel of one thread that writes `value`, or element `from` if that is not negative, to element
// `at`, after its dependency wait.
const char* const kStoring =
    "#include \"ptx/global.cuh\"\n"
    "#include \"ptx/sync.cuh\"\n"
    "struct P { unsigned* to; catenary::i64 at, from; unsigned value; };\n"
    "extern \"C\" __global__ void storing(const __grid_constant__ P p) {\n"
    "  catenary::griddepcontrol_wait();\n"
    "  const unsigned value = p.from < 0 ? p.value : catenary::ld_global_u32(p.to + p.from);\n"
    "  catenary::st_global_u32(p.to + p.at, value);\n"
    "}\n";
struct StoringParameters {
  void* to;
  i64 at;
  i64 from;
  unsigned value;
};
constexpr unsigned kOne = std::bit_cast<unsigned>(1.0f);

// The kernel, loaded and launched by driver calls, over a buffer of eight numbers.
class Storing {
 public:
  Storing() : buffer_(empty_buffer(32)) {
    REQUIRE(api().ctx_push_current(must(driver().primary_context(0))) == kSuccess);
    const HostCompiler* compiler = must(HostCompiler::get());
    image_ = must(compiler->compile({{"storing", "", kStoring}, "sm_90a", {}})).cubin.image;
    Kernel kernel = nullptr;
    REQUIRE(api().library_load_data(&library_, image_.data(), nullptr, nullptr, 0, nullptr, nullptr,
                                    0) == kSuccess);
    REQUIRE(api().library_get_kernel(&kernel, library_, "storing") == kSuccess);
    REQUIRE(api().kernel_get_function(&function_, kernel) == kSuccess);
  }
  ~Storing() {
    api().library_unload(library_);
    Context popped = nullptr;
    api().ctx_pop_current(&popped);
  }

  // Element `at` becomes 1, or the value of element `from`. The output is the first three of each
  // four elements.
  Result launch(i64 at, i64 from = -1, bool first_of_chain = true) {
    SimulatedLaunch facts;
    facts.parameter_bytes = sizeof(StoringParameters);
    TensorType layout;
    layout.shape = {{2, false}, {3, false}};
    layout.strides = {4, 1};
    sim::Region region{"y", sim::RegionRole::kOutput, buffer_.get(), 32};
    facts.tensors.push_back({std::move(region), std::move(layout)});
    facts.first_of_chain = first_of_chain;
    LaunchAttribute attribute{};
    attribute.id = kAttributeSimulatedLaunch;
    attribute.value.pointer = &facts;
    return launch_with(at, from, &attribute, 1);
  }
  Result launch_with(i64 at, i64 from, LaunchAttribute* attributes, unsigned count) {
    LaunchConfig config{1, 1, 1, 1, 1, 1, 0, nullptr, attributes, count};
    StoringParameters parameters{address(buffer_), at, from, kOne};
    void* pointers[] = {&parameters};
    return api().launch_kernel_ex(&config, function_, pointers, nullptr);
  }

  std::vector<float> values() const { return floats_of(buffer_); }
  DeviceBuffer& buffer() { return buffer_; }

 private:
  DeviceBuffer buffer_;
  std::vector<u8> image_;
  Library library_ = nullptr;
  Function function_ = nullptr;
};

}  // namespace

// Must run first: afterwards the simulator is chosen for the process.
TEST_CASE("CATENARY_DEVICE chooses the driver; an unknown value is refused") {
  {
    const ScopedEnv none("CATENARY_DEVICE", nullptr);
    CHECK_FALSE(must(simulator_chosen()));
  }
  {
    const ScopedEnv cuda("CATENARY_DEVICE", "cuda");
    CHECK_FALSE(must(simulator_chosen()));
  }
  {
    const ScopedEnv sim("CATENARY_DEVICE", "sim");
    CHECK(must(simulator_chosen()));
  }
  const ScopedEnv wrong("CATENARY_DEVICE", "tpu");
  auto chosen = simulator_chosen();
  REQUIRE_FALSE(chosen);
  const ErrorReport report = take_report(chosen.takeError());
  CHECK(report.code == ErrorCode::kInvalidArgument);
  CHECK(has(report.message, "'tpu'"));
  auto opened = Driver::get();
  REQUIRE_FALSE(opened);
  CHECK(take_report(opened.takeError()).code == ErrorCode::kInvalidArgument);
}

TEST_CASE("an invalid target or seed is named, and can be corrected") {
  {
    const ScopedEnv target("CATENARY_SIM_TARGET", "h900");
    auto table = simulator_api();
    REQUIRE_FALSE(table);
    const ErrorReport report = take_report(table.takeError());
    CHECK(report.code == ErrorCode::kInvalidArgument);
    CHECK(has(report.message, "CATENARY_SIM_TARGET"));
    CHECK(has(report.message, "'h900'"));
  }
  {
    const ScopedEnv seed("CATENARY_SIM_SEED", "many");
    auto table = simulator_api();
    REQUIRE_FALSE(table);
    CHECK(has(take_report(table.takeError()).message, "'many'"));
  }
  CHECK(static_cast<bool>(simulator_api()));
}

TEST_CASE("every entry point is set, and probe returns the target") {
#define CATENARY_DRIVER(member, name, version, parameters) \
  {                                                        \
    INFO(#name);                                           \
    const bool filled = api().member != nullptr;           \
    CHECK(filled);                                         \
  }
#include "runtime/driver/driver.def"
#undef CATENARY_DRIVER
  CHECK(driver().simulated());
  CHECK(driver().device_count() == 1);
  const DeviceInfo info = must(probe(0));
  CHECK(info.name == "Catenary simulator (h200)");
  CHECK(info.target == must(find_target("h200")));
  CHECK(info.compute_capability == 90);
  auto none = probe(1);
  CHECK_FALSE(none);
  CHECK(take_report(none.takeError()).code == ErrorCode::kInvalidArgument);
}

TEST_CASE("memory: copies, fills, and accesses outside of an allocation") {
  const DeviceBuffer a = buffer_of({1, 2, 3, 4});
  DeviceBuffer b = empty_buffer(16);
  for (float value : floats_of(b)) CHECK(std::isnan(value));
  CHECK(api().memcpy_dtod_async(b.get(), a.get(), 16, nullptr) == kSuccess);
  CHECK(floats_of(b) == std::vector<float>{1, 2, 3, 4});
  must(b.fill(0));
  CHECK(floats_of(b) == std::vector<float>{0, 0, 0, 0});
  char bytes[32] = {};
  CHECK(api().memcpy_dtoh(bytes, a.get() + 8, 9) == kErrorInvalidValue);
  CHECK(api().memcpy_htod(a.get() + 16, bytes, 1) == kErrorInvalidValue);
  CHECK(api().memset_d8(reinterpret_cast<DevicePtr>(bytes), 0, 1) == kErrorInvalidValue);
  CHECK(api().mem_free(a.get() + 8) == kErrorInvalidValue);
  DevicePtr huge = 0;
  CHECK(api().mem_alloc(&huge, size_t{1} << 61) == kErrorOutOfMemory);
  const ErrorReport report = take_report(driver().error(kErrorOutOfMemory, "allocating"));
  CHECK(report.code == ErrorCode::kOutOfMemory);
  CHECK(take_report(driver().error(kErrorNotSupported, "mapping")).code == ErrorCode::kDriver);
  CHECK(api().mem_create(nullptr, 0, nullptr, 0) == kErrorNotSupported);
}

TEST_CASE("an engine with the host compiler runs a chain") {
  if (skipped()) return;
  REQUIRE(driver().simulated());
  Engine engine(for_host());
  auto executable = must(engine.prepare(increment_chain(), 0));
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const DeviceBuffer dx = buffer_of(x);
  const DeviceBuffer dy = buffer_of(std::vector<float>(64, -1));
  must(executable->launch(arguments_of({address(dx), address(dy)})));
  const std::vector<float> y = floats_of(dy);
  for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == x[i] + 1);
  // The next launch reads what this one wrote.
  must(executable->launch(arguments_of({address(dy), address(dx)})));
  CHECK(floats_of(dx)[63] == 65);
}

TEST_CASE("a captured launch runs when its graph is launched, each time") {
  if (skipped()) return;
  Engine engine(for_host());
  auto forth = must(engine.prepare(increment_chain(), 0));
  const DeviceBuffer a = buffer_of(std::vector<float>(64, 0));
  const DeviceBuffer b = buffer_of(std::vector<float>(64, 0));
  Stream stream = nullptr;
  REQUIRE(api().stream_create(&stream, 0) == kSuccess);
  REQUIRE(api().stream_begin_capture(stream, kCaptureModeThreadLocal) == kSuccess);
  int status = kCaptureStatusNone;
  CHECK(api().stream_is_capturing(stream, &status) == kSuccess);
  CHECK(status == kCaptureStatusActive);
  CHECK(api().stream_is_capturing(nullptr, &status) == kErrorStreamCaptureImplicit);
  auto refused = engine.prepare(increment_chain(), 0, stream);
  REQUIRE_FALSE(refused);
  CHECK(take_report(refused.takeError()).code == ErrorCode::kNotWarmedCapture);
  must(forth->launch(arguments_of({address(a), address(b)}, stream)));
  must(forth->launch(arguments_of({address(b), address(a)}, stream)));
  CHECK(api().stream_synchronize(stream) == kErrorStreamCaptureUnsupported);
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  REQUIRE(api().stream_end_capture(stream, &graph) == kSuccess);
  REQUIRE(api().graph_instantiate(&exec, graph, 0) == kSuccess);
  CHECK(api().graph_destroy(graph) == kSuccess);
  CHECK(floats_of(a)[0] == 0);
  for (int i = 0; i < 3; ++i) CHECK(api().graph_launch(exec, stream) == kSuccess);
  CHECK(api().stream_synchronize(stream) == kSuccess);
  CHECK(floats_of(a)[63] == 6);
  CHECK(floats_of(b)[63] == 5);
  CHECK(api().graph_exec_destroy(exec) == kSuccess);
  CHECK(api().stream_destroy(stream) == kSuccess);
}

TEST_CASE("events and streams wait for the queue") {
  if (skipped()) return;
  Storing storing;
  Event event = nullptr;
  REQUIRE(api().event_create(&event, 0) == kSuccess);
  CHECK(storing.launch(3) == kSuccess);
  CHECK(api().event_record(event, nullptr) == kSuccess);
  CHECK(api().event_synchronize(event) == kSuccess);
  CHECK(storing.values()[3] == 1);
  float milliseconds = -1;
  CHECK(api().event_elapsed_time(&milliseconds, event, event) == kSuccess);
  CHECK(milliseconds == 0);
  CHECK(api().event_destroy(event) == kSuccess);
}

TEST_CASE(
    "a chain that reads an output before it has written it is a fault, in the order of the queue") {
  if (skipped()) return;
  Storing storing;
  must(storing.buffer().fill(0));
  CHECK(storing.launch(0) == kSuccess);
  CHECK(storing.launch(1, 0, /*first_of_chain=*/false) == kSuccess);
  CHECK(storing.values() == std::vector<float>{1, 1, 0, 0, 0, 0, 0, 0});
  CHECK(storing.launch(2, 3) == kSuccess);  // not an element of the output
  CHECK(api().ctx_synchronize() == kSuccess);
  CHECK(storing.launch(0) == kSuccess);
  CHECK(storing.launch(2, 1) == kSuccess);  // another chain wrote element 1
  CHECK(api().ctx_synchronize() == kErrorLaunchFailed);
  const ErrorReport report = take_report(driver().error(kErrorLaunchFailed, "waiting"));
  CHECK(report.code == ErrorCode::kSimulatorFault);
  CHECK(has(report.message, "[unwritten"));
}

TEST_CASE("a launch does not change the bytes between an output's elements") {
  if (skipped()) return;
  REQUIRE(driver().simulated());
  Chain chain;
  chain.name = "padded";
  TensorType type;
  type.shape = {{4, false}, {3, false}};
  const ValueId x = chain.parameter(Role::kInput, "x", type);
  const ValueId y = chain.elementwise(Op::kRelu, {Use{x, ""}}, {}, "y");
  chain.returns(y, DType::kF32);
  chain.returns(y, DType::kF32);
  chain.outputs[0].strides = {5, 1};
  chain.outputs[1].strides = {2, 9};
  Engine engine(for_host());
  auto executable = must(engine.prepare(std::move(chain), 0));
  const DeviceBuffer dx = buffer_of(std::vector<float>(12, 1));
  const DeviceBuffer rows = buffer_of(std::vector<float>(18, 7));
  const DeviceBuffer columns = buffer_of(std::vector<float>(25, 7));
  must(executable->launch(arguments_of({address(dx), address(rows), address(columns)})));
  const std::vector<float> by_row = floats_of(rows);
  for (size_t i = 0; i < by_row.size(); ++i) CHECK(by_row[i] == (i % 5 < 3 ? 1 : 7));
  const std::vector<float> by_column = floats_of(columns);
  for (size_t i = 0; i < by_column.size(); ++i) {
    CHECK(by_column[i] == (i % 9 < 7 && i % 9 % 2 == 0 ? 1 : 7));
  }
}

TEST_CASE("a fault is the result of the calls that wait until it is reported; later launches run") {
  if (skipped()) return;
  Storing storing;
  DevicePtr other = 0;
  REQUIRE(api().mem_alloc(&other, 16) == kSuccess);
  CHECK(storing.launch(8) == kSuccess);  // one past the end
  CHECK(api().ctx_synchronize() == kErrorLaunchFailed);
  CHECK(api().mem_free(other) == kErrorLaunchFailed);  // not reported yet
  const ErrorReport report = take_report(driver().error(kErrorLaunchFailed, "waiting"));
  CHECK(report.code == ErrorCode::kSimulatorFault);
  CHECK(exit_code(report.code) == 1);
  CAPTURE(report.message);
  CHECK(has(report.message, "waiting failed: kernel storing"));
  CHECK(has(report.message, "CTA 0"));
  CHECK(has(report.message, "storing.cu:7 (st_global_u32)"));
  CHECK(has(report.message, "seed 1"));
  CHECK(api().ctx_synchronize() == kSuccess);
  CHECK(storing.launch(7) == kSuccess);
  CHECK(storing.values()[7] == 1);
}

TEST_CASE("the message of a fault has the seed") {
  if (skipped()) return;
  Storing storing;
  must(set_simulator_seed(77));
  CHECK(storing.launch(-1) == kSuccess);
  CHECK(api().ctx_synchronize() == kErrorLaunchFailed);
  CHECK(has(take_report(driver().error(kErrorLaunchFailed, "waiting")).message, "seed 77"));
  must(set_simulator_seed(1));
}

TEST_CASE("progress counts the kernels as they are compiled, and their CTAs as they end") {
  if (skipped()) return;
  Chain chain;
  chain.name = "long";
  TensorType type;
  type.shape = {{100, false}, {1000, false}};
  const ValueId x = chain.parameter(Role::kInput, "x", type);
  chain.returns(chain.elementwise(Op::kRelu, {Use{x, ""}}, {}, "y"), DType::kF32);
  EngineOptions options = for_host();
  std::vector<std::pair<i64, i64>> compiled;
  options.progress = [&](i64 done, i64 all) { compiled.emplace_back(done, all); };
  Engine engine(std::move(options));
  auto executable = must(engine.prepare(std::move(chain), 0));
  CHECK(compiled == std::vector<std::pair<i64, i64>>{{1, 1}});
  const DeviceBuffer dx = buffer_of(std::vector<float>(100'000, 1));
  const DeviceBuffer dy = buffer_of(std::vector<float>(100'000, 7));
  std::vector<std::pair<u64, u64>> told;
  must(set_simulator_progress([&](u64 done, u64 all) { told.emplace_back(done, all); }));
  must(executable->launch(arguments_of({address(dx), address(dy)})));
  CHECK(floats_of(dy).back() == 1);
  must(set_simulator_progress({}));
  REQUIRE(told.size() > 1);
  for (size_t i = 0; i < told.size(); ++i) {
    CHECK(told[i] == std::pair<u64, u64>(i + 1, told.size()));
  }
}

TEST_CASE("a launch without the simulator's attribute is refused") {
  if (skipped()) return;
  Storing storing;
  Context popped = nullptr;
  REQUIRE(api().ctx_pop_current(&popped) == kSuccess);
  CHECK(storing.launch(0) == kErrorInvalidContext);
  REQUIRE(api().ctx_push_current(popped) == kSuccess);
  CHECK(storing.launch_with(0, -1, nullptr, 0) == kErrorInvalidValue);
}

TEST_CASE("the simulator refuses a GPU's machine code, and a GPU that of the simulator") {
  Engine engine(no_cache());
  REQUIRE(driver().simulated());
  auto loaded = engine.load(affine_compiled(), 0);
  REQUIRE_FALSE(loaded);
  ErrorReport report = take_report(loaded.takeError());
  CHECK(report.code == ErrorCode::kArchMismatch);
  for (const char* part : {"'affine'", "sm_90a", "simulator", "kHost"}) {
    INFO(part);
    CHECK(has(report.message, part));
  }
  auto wrong = engine.load(affine_compiled("host:sm_80"), 0);
  REQUIRE_FALSE(wrong);
  report = take_report(wrong.takeError());
  CHECK(report.code == ErrorCode::kArchMismatch);
  CHECK(has(report.message, "sm_80"));
  CHECK(has(report.message, "sm_90"));

  std::vector<u8> cubin(64);
  std::copy_n(
      "\x7f"
      "ELF",
      4, cubin.begin());
  cubin[18] = 190;  // EM_CUDA
  Library library = nullptr;
  CHECK(api().library_load_data(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
        kErrorNoBinaryForGpu);
  report = take_report(driver().error(kErrorNoBinaryForGpu, "loading"));
  CHECK(report.code == ErrorCode::kArchMismatch);
  CHECK(has(report.message, "GPU's machine code"));

  const ScopedDriver real = must(ScopedDriver::over(catenary::testing::fake_api()));
  auto host = engine.load(affine_compiled("host:sm_90a"), 0);
  REQUIRE_FALSE(host);
  report = take_report(host.takeError());
  CHECK(report.code == ErrorCode::kArchMismatch);
  CHECK(has(report.message, "kNvrtc"));
  CHECK(has(report.message, "H200"));
}
