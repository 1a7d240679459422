// SPDX-License-Identifier: Apache-2.0
// Launches of chains with an output in place of an input, over the simulator as the driver: the
// addresses that a launch takes, accumulation over launches, graphs and overlapping launches; the
// C ABI and C++.
#include <doctest/doctest.h>

#include <cstddef>

#include "catenary/catenary.hpp"
#include "ir/text/text.h"
#include "tests/support/simulated_device.h"

using namespace catenary;
using namespace catenary::cuda;
using namespace catenary::testing;

namespace {

constexpr const char* kGradient =
    "chain gradient(input d: f32[8, 16], input x: f32[8, 32], scalar s: f32,\n"
    "               input main: f32[16, 32]) {\n"
    "  c = contract \"mn,mk->nk\"(d, x)\n  dw = add(main, scale(c, s))\n"
    "  return dw: f32 inplace main }";

constexpr const char* kCopied =
    "chain copied(input x: f32[8, 8]) {\n"
    "  y = add(x @ \"mn\", x @ \"nm\")\n  return y: f32 inplace x }";

struct Gradient {
  const Driver& simulator = driver();  // before the engine asks for one
  Engine engine{for_host()};
  std::shared_ptr<const Executable> executable =
      must(engine.prepare(llvm::cantFail(parse(kGradient)), 0));
  DeviceBuffer d = buffer_of(std::vector<float>(8 * 16, 1));
  DeviceBuffer x = buffer_of(std::vector<float>(8 * 32, 2));
  DeviceBuffer main = buffer_of(std::vector<float>(16 * 32, 100));
  DeviceBuffer other = buffer_of(std::vector<float>(16 * 32, 7));
  void* tensors[4] = {address(d), address(x), address(main), address(main)};
  float scalars[1] = {0.5f};

  LaunchArguments arguments(Stream stream = nullptr) {
    LaunchArguments arguments = arguments_of(tensors, stream);
    arguments.scalars = scalars;
    return arguments;
  }
  std::string refusal() {
    Error error = executable->launch(arguments());
    if (!error) return "";
    const ErrorReport report = take_report(std::move(error));
    CHECK(report.code == ErrorCode::kInvalidArgument);
    return report.message;
  }
};

constexpr float kStep = 8;  // what a launch adds: 8 terms of 1 * 2, halved

}  // namespace

TEST_CASE("a launch takes one address for an output in place and its input") {
  if (skipped()) return;
  Gradient gradient;
  gradient.tensors[3] = address(gradient.other);
  const std::string apart = gradient.refusal();
  CAPTURE(apart);
  CHECK(has(apart, "tensor 3 ('dw') is in place of tensor 2 ('main') but is at"));
  CHECK(has(apart, "pass one address for both"));
  gradient.tensors[3] = static_cast<char*>(address(gradient.main)) + 16;
  CHECK(has(gradient.refusal(), "is in place of tensor 2"));
  gradient.tensors[2] = gradient.tensors[3] = address(gradient.x);
  const std::string overlapping = gradient.refusal();
  CAPTURE(overlapping);
  CHECK(has(overlapping, "tensor 3 ('dw'), which is written, overlaps tensor 1 ('x')"));
  gradient.tensors[2] = gradient.tensors[3] = nullptr;
  CHECK(has(gradient.refusal(), "tensor 2 ('main') is null"));
  CHECK(floats_of(gradient.main)[0] == 100);
}

TEST_CASE("each launch adds once: eager, overlapping and replayed") {
  if (skipped()) return;
  Gradient gradient;
  float expected = 100;
  for (const bool pdl : {false, true, true}) {
    LaunchArguments arguments = gradient.arguments();
    arguments.allow_pdl = pdl;
    must(gradient.executable->launch(arguments));
    expected += kStep;
  }
  for (float value : floats_of(gradient.main)) CHECK(value == expected);

  Stream stream = nullptr;
  REQUIRE(api().stream_create(&stream, 0) == kSuccess);
  REQUIRE(api().stream_begin_capture(stream, kCaptureModeThreadLocal) == kSuccess);
  must(gradient.executable->launch(gradient.arguments(stream)));
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  REQUIRE(api().stream_end_capture(stream, &graph) == kSuccess);
  REQUIRE(api().graph_instantiate(&exec, graph, 0) == kSuccess);
  CHECK(api().graph_destroy(graph) == kSuccess);
  CHECK(floats_of(gradient.main)[5] == expected);
  for (int replay = 0; replay < 2; ++replay) CHECK(api().graph_launch(exec, stream) == kSuccess);
  CHECK(api().stream_synchronize(stream) == kSuccess);
  for (float value : floats_of(gradient.main)) CHECK(value == expected + 2 * kStep);
  CHECK(api().graph_exec_destroy(exec) == kSuccess);
  CHECK(api().stream_destroy(stream) == kSuccess);
}

TEST_CASE("a chain whose input is read transposed computes aside and copies") {
  if (skipped()) return;
  REQUIRE(driver().simulated());
  Engine engine(for_host());
  auto executable = must(engine.prepare(llvm::cantFail(parse(kCopied)), 0));
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const DeviceBuffer buffer = buffer_of(x);
  const DeviceBuffer workspace = empty_buffer(executable->workspace_bytes());
  LaunchArguments arguments;
  void* const tensors[] = {address(buffer), address(buffer)};
  arguments.tensors = tensors;
  arguments.workspace = address(workspace);
  must(executable->launch(arguments));
  const std::vector<float> y = floats_of(buffer);
  for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == x[i] + x[i % 8 * 8 + i / 8]);
}

TEST_CASE("C++ and the C ABI declare an output in place; an older ctn_output is read") {
  ctn::Chain chain("c");
  const auto scale = chain.scalar("s");
  const auto y = ctn::scale(chain.input("x", ctn::f32, {4, 8}, {{16, 1}, 4}), scale);
  const auto main = chain.input("main", ctn::f32, {4, 8}, {{16, 1}, 4});
  chain.output_in_place(y + main, ctn::f32, main);
  CHECK(has(chain.text(), ": f32 inplace main"));
  CHECK(ctn::Chain::parse(chain.text()).text() == chain.text());

  ctn::Chain other("other");
  const ctn::Tensor foreign = other.input("x", ctn::f32, {4, 8});
  CHECK_THROWS_AS(chain.output_in_place(y, ctn::f32, foreign), std::invalid_argument);
  std::string message;
  try {
    chain.output_in_place(y, ctn::f32, scale);
  } catch (const ctn::Error& error) {
    message = error.what();
  }
  CHECK(has(message, "in place of 's', a scalar: only an input is overwritten"));

  ctn::Chain older("older");
  const auto z = ctn::relu(older.input("x", ctn::f32, {4}));
  ctn_output output{};
  output.struct_size = offsetof(ctn_output, in_place);
  output.value = z.value();
  output.dtype = CTN_F32;
  output.in_place = 77;  // past the size that the caller gives
  CHECK(ctn_chain_return(z.chain(), &output) == CTN_OK);
  CHECK(has(older.text(), "return "));
  CHECK_FALSE(has(older.text(), "inplace"));
}
