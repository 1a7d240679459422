// SPDX-License-Identifier: Apache-2.0
// The cases of tests/instructions on the device: against their expectations, and against the
// simulator's bytes if a host compiler is found. Without a GPU everything but the launches is run.
#include <cstdio>
#include <map>

#include "compiler/compile/host_compiler.h"
#include "compiler/compile/nvrtc.h"
#include "runtime/driver/tensor_map.h"
#include "runtime/loaded_kernel.h"
#include "tests/gpu/modes.h"
#include "tests/instructions/simulate.h"

namespace catenary::gpu_suite {
namespace {

using Instruction = instructions::Case;

constexpr i64 kGuardBytes = 4096;  // after the output
constexpr u8 kGuard = 0xa5;
constexpr int kHopper = 90;

// A kernel from both compilers; `object` is null if no host compiler is found.
struct Kernel {
  Cubin cubin;
  std::shared_ptr<const LoadedKernel> loaded;
  std::shared_ptr<const sim::Object> object;
};

class Instructions {
 public:
  Instructions(Suite& suite, bool launches) : suite_(suite), launches_(launches) {}
  Error compile();
  // The error, if any.
  Expected<std::string> run(const Instruction& from);

 private:
  Error load_on_device();
  Error launch(const Instruction& from, const Kernel& kernel, std::vector<std::byte> parameters);
  Expected<std::vector<u8>> on_device(const Instruction& from, const Kernel& kernel);
  Expected<std::string> against_simulator(const Instruction& from, const Kernel& kernel,
                                          const std::vector<u8>& output);

  Suite& suite_;
  bool launches_;  // there is a GPU
  std::map<std::string, Kernel> kernels_;
};

Error Instructions::compile() {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) return nvrtc.takeError();
  Expected<const HostCompiler*> host = HostCompiler::get();
  if (!host) {
    suite_.progress("instructions: no simulator, " + take_report(host.takeError()).message, true);
  }
  std::vector<const Instruction*> first;  // of each kernel
  std::vector<CompileJob> jobs;
  for (const Instruction& c : instructions::all_cases()) {
    if (!kernels_.try_emplace(c.kernel).second) continue;
    first.push_back(&c);
    jobs.push_back(instructions::compile_job(c));
  }
  std::vector<Expected<CompileResult>> results = (*nvrtc)->compile_all(jobs);
  Error failed = Error::success();
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) {
      failed = llvm::joinErrors(std::move(failed), results[i].takeError());
      continue;
    }
    kernels_[first[i]->kernel].cubin = std::move(results[i]->cubin);
  }
  if (failed) return failed;
  if (host) {
    for (const Instruction* c : first) {
      auto object = instructions::compile_for_simulator(**host, *c);
      if (!object) return object.takeError();
      kernels_[c->kernel].object = std::move(*object);
    }
  }
  return launches_ ? load_on_device() : Error::success();
}

Error Instructions::load_on_device() {
  for (auto& [name, kernel] : kernels_) {
    u32 smem = 0;
    for (const Instruction& c : instructions::all_cases()) {
      if (c.kernel == name) smem = std::max(smem, c.smem_bytes);
    }
    auto loaded = LoadedKernel::load(suite_.driver(), kernel.cubin, smem);
    if (!loaded) return loaded.takeError();
    kernel.loaded = std::move(*loaded);
  }
  return Error::success();
}

Error Instructions::launch(const Instruction& from, const Kernel& kernel,
                           std::vector<std::byte> parameters) {
  for (u32 i = 0; i < from.launches; ++i) {
    cuda::LaunchAttribute attributes[2] = {};
    unsigned count = 0;
    if (from.cluster_ctas > 1) {
      attributes[count].id = cuda::kAttributeClusterDimension;
      attributes[count++].value.cluster = {from.cluster_ctas, 1, 1};
    }
    if (i > 0) {
      attributes[count].id = cuda::kAttributeProgrammaticStreamSerialization;
      attributes[count++].value.programmatic_stream_serialization_allowed = 1;
    }
    const cuda::LaunchConfig config{
        from.ctas, 1, 1, from.threads, 1, 1, from.smem_bytes, suite_.stream(), attributes, count};
    void* block[] = {parameters.data()};
    const cuda::Result result =
        suite_.api().launch_kernel_ex(&config, kernel.loaded->function(), block, nullptr);
    if (Error error = suite_.check(result, "launching '" + from.name + "'")) return error;
  }
  return suite_.check(suite_.api().stream_synchronize(suite_.stream()),
                      "running '" + from.name + "'");
}

// The output's bytes; an error if those after it have changed.
Expected<std::vector<u8>> Instructions::on_device(const Instruction& from, const Kernel& kernel) {
  std::vector<cuda::DeviceBuffer> buffers;
  std::vector<u64> addresses;
  for (const instructions::Buffer& buffer : from.buffers) {
    const i64 bytes = static_cast<i64>(buffer.bytes.size());
    Expected<cuda::DeviceBuffer> memory = cuda::DeviceBuffer::allocate(bytes + kGuardBytes);
    if (!memory) return memory.takeError();
    if (Error error = memory->fill(kGuard)) return error;
    if (Error error = memory->upload(buffer.bytes.data(), bytes)) return error;
    addresses.push_back(memory->get());
    buffers.push_back(std::move(*memory));
  }
  std::vector<TensorMap> maps;
  for (const instructions::Map& map : from.maps) {
    TensorMapSpec spec = map.spec;
    spec.base = addresses[map.buffer];
    Expected<TensorMap> encoded = encode(suite_.driver(), spec);
    if (!encoded) return encoded.takeError();
    maps.push_back(*encoded);
  }
  // Uploads go through the default stream, launches through another.
  if (Error error = suite_.check(suite_.api().ctx_synchronize(), "waiting for uploads")) {
    return error;
  }
  if (Error error = launch(from, kernel, instructions::parameters(from, maps, addresses))) {
    return error;
  }
  std::vector<u8> output(from.buffers.back().bytes.size());
  std::vector<u8> guard(kGuardBytes);
  const i64 bytes = static_cast<i64>(output.size());
  if (Error error = buffers.back().download(output.data(), bytes)) return error;
  if (Error error = buffers.back().download(guard.data(), kGuardBytes, bytes)) return error;
  if (guard != std::vector<u8>(kGuardBytes, kGuard)) {
    return make_error(ErrorCode::kMismatch, "'{}' wrote past its output", from.name);
  }
  return output;
}

Expected<std::string> Instructions::against_simulator(const Instruction& from, const Kernel& kernel,
                                                      const std::vector<u8>& output) {
  if (kernel.object == nullptr) return "";
  auto simulated = instructions::run_in_simulator(from, kernel.object, suite_.options().seed);
  if (!simulated) return simulated.takeError();
  if (!from.approximate.empty()) return instructions::difference(from, *simulated);
  Instruction as_simulated = from;
  as_simulated.expected = std::move(*simulated);
  const std::string problem = instructions::difference(as_simulated, output);
  return problem.empty() ? "" : "differs from the simulator: " + problem;
}

Expected<std::string> Instructions::run(const Instruction& from) {
  const Kernel& kernel = kernels_.at(from.kernel);
  std::vector<u8> output = from.expected;
  if (launches_) {
    Expected<std::vector<u8>> got = on_device(from, kernel);
    if (!got) return got.takeError();
    output = std::move(*got);
    const std::string problem = instructions::difference(from, output);
    if (!problem.empty()) return problem;
  }
  return against_simulator(from, kernel, output);
}

}  // namespace

Error run_instructions(Suite& suite) {
  const bool launches = !suite.options().rehearse && !suite.driver().simulated();
  if (launches && suite.device().compute_capability != kHopper) {
    suite.progress("instructions: skipped, the kernels are for sm_90a", true);
    return Error::success();
  }
  Instructions runner(suite, launches);
  if (Error error = runner.compile()) return error;
  const std::vector<Instruction>& cases = instructions::all_cases();
  size_t correct = 0;
  for (const Instruction& c : cases) {
    if (suite.should_stop()) break;
    // Print the name first: it then identifies a kernel that hangs.
    fmt::print("{} ({}) ... ", c.name, c.kernel);
    std::fflush(stdout);
    Expected<std::string> problem = runner.run(c);
    if (problem && problem->empty()) {
      fmt::print("ok\n");
      ++correct;
      continue;
    }
    fmt::print("WRONG\n");
    if (problem) {
      suite.fail({suite.options().seed, c.name, *problem, "", c.kernel});
    } else {
      suite.fail(c.name, problem.takeError());
    }
  }
  suite.progress(fmt::format("instructions: {} of {} cases correct", correct, cases.size()), true);
  if (correct == cases.size()) return Error::success();
  return make_error(ErrorCode::kMismatch, "{} of {} instruction cases are correct", correct,
                    cases.size());
}

}  // namespace catenary::gpu_suite
