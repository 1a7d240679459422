// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "ir/text/text.h"
#include "tests/gpu/bound_chain.h"
#include "tests/gpu/modes.h"

namespace catenary::gpu_suite {
namespace {

constexpr int kLaunchesPerThread = 200;

constexpr const char* kText =
    "chain good(input x: bf16[48, 64], weight w: bf16[40, 64]) {\n"
    "  y = relu(contract \"mk,nk->mn\"(x, w))\n"
    "  return y: bf16\n}";

// `error` must have `code`, and its message must contain `word`.
Error expect(Error error, ErrorCode code, const std::string& word, const std::string& what) {
  if (!error) return make_error(ErrorCode::kMismatch, "{} was not rejected", what);
  const ErrorReport report = take_report(std::move(error));
  if (report.code == code && report.message.find(word) != std::string::npos) {
    return Error::success();
  }
  return make_error(ErrorCode::kMismatch, "{} gave {}: {}; expected {} naming {}", what,
                    error_code_name(report.code), report.message, error_code_name(code), word);
}

void* offset(void* address, i64 bytes) { return static_cast<char*>(address) + bytes; }

Error check_arguments(Suite& suite, BoundChain& chain) {
  struct Bad {
    const char* what;
    size_t tensor;
    void* address;
    const char* word;
  };
  const std::vector<void*> good = chain.tensors();
  const size_t out = chain.first_output();
  // No other tensor is in the memory before x.
  auto memory = cuda::DeviceBuffer::allocate(4096 + chain.tensor_bytes(0));
  if (!memory) return memory.takeError();
  void* x = offset(reinterpret_cast<void*>(memory->get()), 4096);
  const Bad bad[] = {{"a null input", 0, nullptr, "'x'"},
                     {"a null output", out, nullptr, "'y'"},
                     {"a misaligned input", 1, offset(good[1], 8), "'w'"},
                     {"a misaligned output", out, offset(good[out], 2), "'y'"},
                     {"an output over its input", out, x, "'y'"},
                     {"an output that ends in its input", out, offset(x, -3824), "'x'"}};
  for (const Bad& wrong : bad) {
    chain.tensors() = good;
    chain.tensors()[0] = x;
    chain.tensors()[wrong.tensor] = wrong.address;
    Error error = chain.executable().launch(chain.arguments(suite.stream()));
    chain.tensors() = good;
    if (Error failed =
            expect(std::move(error), ErrorCode::kInvalidArgument, wrong.word, wrong.what)) {
      return failed;
    }
  }
  LaunchArguments few = chain.arguments(suite.stream());
  few.tensors = few.tensors.drop_back();
  if (Error failed = expect(chain.executable().launch(few), ErrorCode::kInvalidArgument, "3",
                            "a missing tensor")) {
    return failed;
  }
  LaunchArguments symbol = chain.arguments(suite.stream());
  symbol.symbol = 7;
  return expect(chain.executable().launch(symbol), ErrorCode::kInvalidArgument, "7",
                "a symbol for a chain without one");
}

Error check_arch(Suite& suite) {
  Expected<Target> other = find_target("a100");
  if (!other) return other.takeError();
  if (arch_runs_on(other->arch, suite.device().compute_capability)) return Error::success();
  Expected<Chain> chain = parse(kText);
  if (!chain) return chain.takeError();
  Engine engine(suite.engine_options());
  auto compiled = engine.compile(std::move(*chain), *other);
  if (!compiled) return compiled.takeError();
  auto loaded = engine.load(*compiled, 0, suite.stream());
  return expect(loaded ? Error::success() : loaded.takeError(), ErrorCode::kArchMismatch, "sm_80",
                "machine code for sm_80");
}

// Launches with a separate output and stream; every result must equal `expected`.
Error launch_often(Suite& suite, BoundChain& chain, const std::vector<u8>& expected) {
  Expected<cuda::ScopedContext> context = cuda::ScopedContext::primary(0);
  if (!context) return context.takeError();
  const cuda::Api& api = suite.api();
  const i64 bytes = chain.tensor_bytes(chain.first_output());
  auto output = cuda::DeviceBuffer::allocate(bytes);
  if (!output) return output.takeError();
  cuda::Stream stream = nullptr;
  if (Error error = suite.check(api.stream_create(&stream, cuda::kStreamNonBlocking), "a stream"))
    return error;
  std::vector<void*> tensors = chain.tensors();
  tensors[chain.first_output()] = reinterpret_cast<void*>(output->get());
  LaunchArguments arguments = chain.arguments(stream);
  arguments.tensors = tensors;
  Error result = Error::success();
  for (int i = 0; i < kLaunchesPerThread && !result; ++i) {
    result = chain.executable().launch(arguments);
  }
  if (!result) result = suite.check(api.stream_synchronize(stream), "waiting for a thread");
  std::vector<u8> got(static_cast<size_t>(bytes));
  if (!result) result = output->download(got.data(), bytes);
  api.stream_destroy(stream);
  if (result) return result;
  if (got == expected) return Error::success();
  return make_error(ErrorCode::kMismatch, "a result of two launching threads differs");
}

Error check_threads(Suite& suite, BoundChain& chain) {
  if (Error error = chain.executable().launch(chain.arguments(suite.stream()))) return error;
  Expected<std::vector<u8>> expected = chain.read(suite, 0);
  if (!expected) return expected.takeError();
  ErrorReport reports[2];
  std::vector<std::thread> threads;
  for (ErrorReport& report : reports) {
    threads.emplace_back([&] {
      if (Error error = launch_often(suite, chain, *expected)) {
        report = take_report(std::move(error));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const ErrorReport& report : reports) {
    if (report.code != ErrorCode::kOk) return make_error_text(report.code, report.message);
  }
  return Error::success();
}

}  // namespace

Error run_errors(Suite& suite) {
  auto chain = BoundChain::make(suite, kText, 0, FillKind::kNormal, 9);
  if (!chain) return chain.takeError();
  if (Error error = check_arguments(suite, *chain)) return error;
  if (Error error = check_arch(suite)) return error;
  // The stand-in driver accepts launches from one thread only.
  if (!suite.options().rehearse) {
    if (Error error = check_threads(suite, *chain)) return error;
  }
  suite.progress("errors: arguments, architecture and two threads are correct", true);
  return Error::success();
}

}  // namespace catenary::gpu_suite
