// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/bound_chain.h"
#include "tests/gpu/captured_graph.h"
#include "tests/gpu/modes.h"

namespace catenary::gpu_suite {
namespace {

constexpr int kReplays = 50;
constexpr int kLinks = 20;

constexpr const char* kTwoKernels =
    "chain two(input x: bf16[96, 256], weight w: bf16[200, 256], weight v: bf16[64, 200]) {\n"
    "  h = cast(relu(contract \"mk,nk->mn\"(x, w)), bf16)\n"
    "  y = gelu(contract \"mk,nk->mn\"(h, v))\n"
    "  return y: f32\n}";

constexpr const char* kLink =
    "chain link(input x: bf16[64, 128], weight w: bf16[128, 128]) {\n"
    "  y = tanh(contract \"mk,nk->mn\"(x, w))\n"
    "  return y: bf16\n}";

Error differs(const std::string& what) { return make_error(ErrorCode::kMismatch, "{}", what); }

Error check_replays(Suite& suite, BoundChain& chain) {
  if (Error error = chain.poison(suite, 0, 0xff)) return error;
  if (Error error = chain.executable().launch(chain.arguments(suite.stream()))) return error;
  Expected<std::vector<u8>> eager = chain.read(suite, 0);
  if (!eager) return eager.takeError();
  CapturedGraph graph(suite);
  if (Error error = graph.capture(
          [&] { return chain.executable().launch(chain.arguments(suite.stream())); })) {
    return error;
  }
  for (int replay = 0; replay < kReplays; ++replay) {
    if (Error error = chain.poison(suite, 0, 0x3f)) return error;
    if (Error error = graph.launch()) return error;
    Expected<std::vector<u8>> got = chain.read(suite, 0);
    if (!got) return got.takeError();
    if (*got != *eager) return differs(fmt::format("graph replay {} differs from eager", replay));
  }
  return Error::success();
}

// Loading and preparing while `suite.stream()` is captured are rejected, and the capture continues.
Error check_load_refused(Suite& suite, BoundChain& chain) {
  CapturedGraph graph(suite);
  ErrorReport report;
  Error error = graph.capture([&]() -> Error {
    Engine engine(suite.engine_options());
    auto loaded = engine.load(chain.compiled(), 0, suite.stream());
    if (loaded) return differs("load() during capture was not rejected");
    report = take_report(loaded.takeError());
    auto prepared = engine.prepare(chain.chain().chain(), 0, suite.stream());
    if (prepared) return differs("prepare() during capture was not rejected");
    const ErrorReport second = take_report(prepared.takeError());
    if (second.code != ErrorCode::kNotWarmedCapture) {
      return differs(fmt::format("prepare() during capture gave {}: {}",
                                 error_code_name(second.code), second.message));
    }
    return chain.executable().launch(chain.arguments(suite.stream()));
  });
  if (error) return error;
  if (report.code != ErrorCode::kNotWarmedCapture) {
    return differs(fmt::format("load() during capture gave {}: {}", error_code_name(report.code),
                               report.message));
  }
  if (Error launched = graph.launch()) return launched;
  return suite.check(suite.api().stream_synchronize(suite.stream()), "waiting for the graph");
}

// kLinks launches; each reads the output of the previous one.
Expected<std::vector<u8>> run_links(Suite& suite, BoundChain& chain,
                                    std::vector<cuda::DeviceBuffer>& steps, bool overlap) {
  if (Error error = suite.reschedule()) return error;
  for (size_t i = 1; i < steps.size(); ++i) {
    if (Error error = suite.check(
            suite.api().memset_d8_async(steps[i].get(), 0xff, static_cast<size_t>(steps[i].bytes()),
                                        suite.stream()),
            "filling a step"))
      return error;
  }
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    chain.tensors()[0] = reinterpret_cast<void*>(steps[i].get());
    chain.tensors()[chain.first_output()] = reinterpret_cast<void*>(steps[i + 1].get());
    LaunchArguments arguments = chain.arguments(suite.stream());
    arguments.allow_pdl = overlap && i > 0;
    if (Error error = chain.executable().launch(arguments)) return error;
  }
  if (Error error = suite.check(suite.api().stream_synchronize(suite.stream()), "waiting"))
    return error;
  std::vector<u8> all;
  for (const cuda::DeviceBuffer& step : steps) {
    std::vector<u8> bytes(static_cast<size_t>(step.bytes()));
    if (Error error = step.download(bytes.data(), step.bytes())) return error;
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

Error check_overlap(Suite& suite) {
  auto chain = BoundChain::make(suite, kLink, 0, FillKind::kNormal, 5);
  if (!chain) return chain.takeError();
  const i64 bytes = chain->tensor_bytes(0);
  std::vector<u8> start(static_cast<size_t>(bytes));
  std::vector<cuda::DeviceBuffer> steps;
  for (int i = 0; i <= kLinks; ++i) {
    auto buffer = cuda::DeviceBuffer::allocate(bytes);
    if (!buffer) return buffer.takeError();
    steps.push_back(std::move(*buffer));
  }
  for (i64 i = 0; i < bytes / 2; ++i) {
    store_element(DType::kBF16, start.data(), i, static_cast<double>(i * 37 % 101 - 50) / 64);
  }
  if (Error error = steps[0].upload(start.data(), bytes)) return error;
  if (Error error = suite.check(suite.api().ctx_synchronize(), "waiting for uploads")) return error;
  Expected<std::vector<u8>> plain = run_links(suite, *chain, steps, false);
  if (!plain) return plain.takeError();
  for (int round = 0; round < 5; ++round) {
    Expected<std::vector<u8>> overlapped = run_links(suite, *chain, steps, true);
    if (!overlapped) return overlapped.takeError();
    if (*overlapped == *plain) continue;
    return differs(
        fmt::format("{} launches with PDL differ from those without PDL, round {}", kLinks, round));
  }
  return Error::success();
}

}  // namespace

Error run_capture(Suite& suite) {
  if (suite.options().rehearse) return Error::success();
  auto chain = BoundChain::make(suite, kTwoKernels, 0, FillKind::kNormal, 3);
  if (!chain) return chain.takeError();
  const size_t kernels = chain->compiled()->plan.buckets[0].kernels.size();
  if (kernels < 2) return differs("the two-kernel chain was planned as one kernel");
  if (Error error = check_replays(suite, *chain)) return error;
  if (Error error = check_load_refused(suite, *chain)) return error;
  if (Error error = check_overlap(suite)) return error;
  suite.progress(fmt::format("capture: {} kernels, {} replays equal to eager; loading rejected; {} "
                             "launches with PDL equal to those without",
                             kernels, kReplays, kLinks),
                 true);
  return Error::success();
}

}  // namespace catenary::gpu_suite
