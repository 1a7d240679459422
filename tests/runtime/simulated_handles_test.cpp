// SPDX-License-Identifier: Apache-2.0
// Handles of the simulator's driver that are destroyed or bogus: a fault with a name, and no crash.
#include "runtime/driver/simulated_handles.h"

#include <doctest/doctest.h>

#include "tests/support/simulated_device.h"

using namespace catenary;
using namespace catenary::cuda;
using namespace catenary::testing;

namespace {

// `result` is kErrorInvalidHandle, whose error has the fault's name and `part`.
void check_invalid(Result result, const std::string& part) {
  CHECK(result == kErrorInvalidHandle);
  const ErrorReport report = take_report(driver().error(result, "a call"));
  INFO(report.message);
  CHECK(report.code == ErrorCode::kSimulatorFault);
  CHECK(has(report.message, "[invalid_handle: "));
  CHECK(has(report.message, part));
}

}  // namespace

TEST_CASE("a destroyed or bogus stream is a fault with a name in every call that takes one") {
  int memory[64] = {};
  Stream destroyed = nullptr;
  REQUIRE(api().stream_create(&destroyed, 0) == kSuccess);
  REQUIRE(api().stream_destroy(destroyed) == kSuccess);
  const DeviceBuffer buffer = empty_buffer(64);
  Event event = nullptr;
  REQUIRE(api().event_create(&event, 0) == kSuccess);
  for (Stream stream : {destroyed, reinterpret_cast<Stream>(&memory), reinterpret_cast<Stream>(3),
                        reinterpret_cast<Stream>(~uintptr_t{0} - 7)}) {
    const std::string part = stream == destroyed ? "is destroyed" : "was not made by this driver";
    int status = 0;
    Graph graph = nullptr;
    check_invalid(api().stream_synchronize(stream), part);
    check_invalid(api().stream_is_capturing(stream, &status), part);
    check_invalid(api().stream_begin_capture(stream, 0), part);
    check_invalid(api().stream_end_capture(stream, &graph), part);
    check_invalid(api().stream_destroy(stream), part);
    check_invalid(api().memset_d8_async(buffer.get(), 0, 64, stream), part);
    check_invalid(api().memcpy_htod_async(buffer.get(), memory, 64, stream), part);
    check_invalid(api().memcpy_dtoh_async(memory, buffer.get(), 64, stream), part);
    check_invalid(api().memcpy_dtod_async(buffer.get(), buffer.get(), 64, stream), part);
    check_invalid(api().event_record(event, stream), part);
  }
  // The default streams by their numbers.
  for (uintptr_t number : {0, 1, 2}) {
    CHECK(api().stream_synchronize(reinterpret_cast<Stream>(number)) == kSuccess);
  }
  CHECK(api().event_destroy(event) == kSuccess);
}

TEST_CASE("other handles that are destroyed or bogus are faults with a name") {
  Event event = nullptr;
  REQUIRE(api().event_create(&event, 0) == kSuccess);
  REQUIRE(api().event_destroy(event) == kSuccess);
  check_invalid(api().event_synchronize(event), "event");
  check_invalid(api().event_destroy(event), "is destroyed");
  Stream stream = nullptr;
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  REQUIRE(api().stream_create(&stream, 0) == kSuccess);
  REQUIRE(api().stream_begin_capture(stream, 0) == kSuccess);
  REQUIRE(api().stream_end_capture(stream, &graph) == kSuccess);
  REQUIRE(api().graph_instantiate(&exec, graph, 0) == kSuccess);
  REQUIRE(api().graph_destroy(graph) == kSuccess);
  check_invalid(api().graph_instantiate(&exec, graph, 0), "graph");
  REQUIRE(api().graph_exec_destroy(exec) == kSuccess);
  check_invalid(api().graph_launch(exec, stream), "graph exec");
  REQUIRE(api().stream_destroy(stream) == kSuccess);
  int memory[8] = {};
  Kernel kernel = nullptr;
  Function function = nullptr;
  check_invalid(api().library_get_kernel(&kernel, reinterpret_cast<Library>(&memory), "k"),
                "library");
  check_invalid(api().kernel_get_function(&function, reinterpret_cast<Kernel>(&memory)), "kernel");
  check_invalid(api().func_load(reinterpret_cast<Function>(&memory)), "function");
}

TEST_CASE("a chain launched on a destroyed stream has launched nothing") {
  if (skipped()) return;
  Engine engine(for_host());
  auto executable = must(engine.prepare(increment_chain(), 0));
  Stream stream = nullptr;
  REQUIRE(api().stream_create(&stream, 0) == kSuccess);
  REQUIRE(api().stream_destroy(stream) == kSuccess);
  DeviceBuffer x = buffer_of(std::vector<float>(64, 1));
  DeviceBuffer y = buffer_of(std::vector<float>(64, 5));
  void* tensors[] = {address(x), address(y)};
  const ErrorReport report = take_report(executable->launch(arguments_of(tensors, stream)));
  INFO(report.message);
  CHECK(report.code == ErrorCode::kSimulatorFault);
  CHECK(has(report.message, "invalid_handle"));
  CHECK(floats_of(y)[0] == 5);
  Error prepared = engine.prepare(increment_chain(), 0, stream).takeError();
  CHECK(has(take_report(std::move(prepared)).message, "invalid_handle"));
}
