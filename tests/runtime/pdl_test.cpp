// SPDX-License-Identifier: Apache-2.0
// PDL in the simulator, by driver calls: a hand-written kernel after one that triggers it early. A
// kernel that waits for its dependency gives the right bytes under every schedule. One that reads
// or writes before its dependency wait, or exits without it, is a named fault.
#include <doctest/doctest.h>

#include "compiler/compile/host_compiler.h"
#include "runtime/driver/simulated_driver.h"
#include "runtime/driver/simulated_launch.h"

using namespace catenary;
using namespace catenary::cuda;

namespace {

constexpr unsigned kCtas = 3;
constexpr unsigned kThreads = 64;
constexpr i64 kWords = kCtas * kThreads;
constexpr u64 kSeeds = 20;

// Thread i computes to[i] = from[i] + weight[0]; the variants break one rule each.
enum Variant : u32 { kRight, kReadsEarly, kWritesEarly, kOneCtaExits, kOneThreadExits };
const char* const kSource =
    "#include \"ptx/global.cuh\"\n"
    "#include \"ptx/sync.cuh\"\n"
    "struct P { const unsigned* from; const unsigned* weight; unsigned* to; unsigned variant; };\n"
    "extern \"C\" __global__ void step(const __grid_constant__ P p) {\n"
    "  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  catenary::griddepcontrol_launch_dependents();\n"
    "  const unsigned weight = catenary::ld_global_u32(p.weight);\n"
    "  unsigned value = 0;\n"
    "  if (p.variant == 1) value = catenary::ld_global_u32(p.from + i);\n"
    "  if (p.variant == 2) catenary::st_global_u32(p.to + i, weight);\n"
    "  if (p.variant == 3 && blockIdx.x == 2) return;\n"
    "  if (p.variant == 4 && i == 70) return;\n"
    "  catenary::griddepcontrol_wait();\n"
    "  if (p.variant != 1) value = catenary::ld_global_u32(p.from + i);\n"
    "  catenary::st_global_u32(p.to + i, value + weight);\n"
    "}\n";
struct Parameters {
  u64 from, weight, to;
  u32 variant;
};

void must(Error error) {
  if (error) FAIL(take_report(std::move(error)).message);
}
template <typename T>
T must(Expected<T> result) {
  if (!result) FAIL(take_report(result.takeError()).message);
  return std::move(*result);
}

// A tensor of `bytes` bytes as 32-bit words.
SimulatedTensor tensor(const char* name, sim::RegionRole role, u64 begin, i64 bytes) {
  SimulatedTensor tensor;
  tensor.region.name = name;
  tensor.region.role = role;
  tensor.region.begin = begin;
  tensor.region.bytes = bytes;
  tensor.layout.dtype = DType::kI32;
  tensor.layout.shape = {Dim{bytes / 4, false}};
  tensor.layout.strides = {1};
  return tensor;
}

class Steps {
 public:
  Steps() {
    must(use_simulator());
    driver_ = must(Driver::get());
    REQUIRE(api().ctx_push_current(must(driver_->primary_context(0))) == kSuccess);
    const HostCompiler* compiler = must(HostCompiler::get());
    image_ = must(compiler->compile({{"step", "", kSource}, "sm_90a", {}})).cubin.image;
    Kernel kernel = nullptr;
    REQUIRE(api().library_load_data(&library_, image_.data(), nullptr, nullptr, 0, nullptr, nullptr,
                                    0) == kSuccess);
    REQUIRE(api().library_get_kernel(&kernel, library_, "step") == kSuccess);
    REQUIRE(api().kernel_get_function(&function_, kernel) == kSuccess);
    for (DeviceBuffer& buffer : buffers_) buffer = must(DeviceBuffer::allocate(kWords * 4));
    weight_ = must(DeviceBuffer::allocate(4));
    const u32 one = 1;
    must(weight_.upload(&one, 4));
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  ~Steps() {
    api().library_unload(library_);
    Context popped = nullptr;
    api().ctx_pop_current(&popped);
  }

  const Api& api() const { return driver_->api(); }

  // Three launches, each from a buffer to the next; the second one is `variant`. Returns the
  // message of the fault, "" for none.
  std::string run(Variant variant, bool pdl, u64 seed) {
    must(set_simulator_seed(seed));
    must(buffers_[0].fill(0));
    for (int i = 0; i < 3; ++i) {
      launch(buffers_[i], buffers_[i + 1], i == 1 ? variant : kRight, pdl && i > 0);
    }
    const Result result = api().ctx_synchronize();
    if (result == kSuccess) return "";
    return take_report(driver_->error(result, "waiting")).message;
  }

  std::vector<u32> result() const {
    std::vector<u32> values(kWords);
    must(buffers_[3].download(values.data(), kWords * 4));
    return values;
  }

 private:
  void launch(const DeviceBuffer& from, const DeviceBuffer& to, Variant variant, bool pdl) {
    SimulatedLaunch facts;
    facts.parameter_bytes = sizeof(Parameters);
    facts.first_of_chain = true;
    const i64 bytes = kWords * 4;
    facts.tensors.push_back(tensor("x", sim::RegionRole::kInput, from.get(), bytes));
    facts.tensors.push_back(tensor("w", sim::RegionRole::kWeight, weight_.get(), 4));
    facts.tensors.push_back(tensor("y", sim::RegionRole::kOutput, to.get(), bytes));
    LaunchAttribute attributes[2] = {};
    attributes[0].id = kAttributeSimulatedLaunch;
    attributes[0].value.pointer = &facts;
    attributes[1].id = kAttributeProgrammaticStreamSerialization;
    attributes[1].value.programmatic_stream_serialization_allowed = pdl ? 1 : 0;
    const LaunchConfig config{kCtas, 1, 1, kThreads, 1, 1, 0, nullptr, attributes, 2};
    Parameters parameters{from.get(), weight_.get(), to.get(), variant};
    void* pointers[] = {&parameters};
    REQUIRE(api().launch_kernel_ex(&config, function_, pointers, nullptr) == kSuccess);
  }

  const Driver* driver_ = nullptr;
  std::vector<u8> image_;
  Library library_ = nullptr;
  Function function_ = nullptr;
  DeviceBuffer buffers_[4];
  DeviceBuffer weight_;
};

bool skipped() {
  auto compiler = HostCompiler::get();
  if (compiler) return false;
  llvm::consumeError(compiler.takeError());
  MESSAGE("skipped: no host compiler");
  return true;
}

}  // namespace

TEST_CASE("kernels with a dependency wait are right under every schedule") {
  if (skipped()) return;
  Steps steps;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    for (const bool pdl : {false, true}) {
      CHECK(steps.run(kRight, pdl, seed) == "");
      CHECK(steps.result() == std::vector<u32>(kWords, 3));
    }
  }
}

TEST_CASE(
    "a kernel that breaks a rule of the dependency wait is a named fault under every schedule") {
  if (skipped()) return;
  Steps steps;
  const std::pair<Variant, const char*> faults[] = {{kReadsEarly, "[before_dependency_wait"},
                                                    {kWritesEarly, "[before_dependency_wait"},
                                                    {kOneCtaExits, "[no_dependency_wait"},
                                                    {kOneThreadExits, "[no_dependency_wait"}};
  for (const auto& [variant, name] : faults) {
    for (u64 seed = 1; seed <= kSeeds; ++seed) {
      // The rule binds the kernel, also in a launch without PDL.
      for (const bool pdl : {false, true}) {
        const std::string message = steps.run(variant, pdl, seed);
        CAPTURE(message);
        CHECK(message.find(name) != std::string::npos);
        CHECK(message.find("kernel step") != std::string::npos);
      }
    }
  }
}
