// SPDX-License-Identifier: Apache-2.0
// Programmatic launches through the driver's entries: a kernel by hand behind one that lets it
// start early. One that keeps to its edge gives the right bytes under every schedule; one that
// reads or writes before its dependency wait, or leaves without it on one path, is a named fault.
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

// to[i] = from[i] + weight[0], by one thread each.
enum Manner : u32 { kRight, kReadsEarly, kWritesEarly, kOneCtaLeaves, kOneThreadLeaves };
const char* const kSource =
    "#include \"ptx/global.cuh\"\n"
    "#include \"ptx/sync.cuh\"\n"
    "struct P { const unsigned* from; const unsigned* weight; unsigned* to; unsigned manner; };\n"
    "extern \"C\" __global__ void step(const __grid_constant__ P p) {\n"
    "  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  catenary::griddepcontrol_launch_dependents();\n"
    "  const unsigned weight = catenary::ld_global_u32(p.weight);\n"
    "  unsigned value = 0;\n"
    "  if (p.manner == 1) value = catenary::ld_global_u32(p.from + i);\n"
    "  if (p.manner == 2) catenary::st_global_u32(p.to + i, weight);\n"
    "  if (p.manner == 3 && blockIdx.x == 2) return;\n"
    "  if (p.manner == 4 && i == 70) return;\n"
    "  catenary::griddepcontrol_wait();\n"
    "  if (p.manner != 1) value = catenary::ld_global_u32(p.from + i);\n"
    "  catenary::st_global_u32(p.to + i, value + weight);\n"
    "}\n";
struct Parameters {
  u64 from, weight, to;
  u32 manner;
};

void must(Error error) {
  if (error) FAIL(take_report(std::move(error)).message);
}
template <typename T>
T must(Expected<T> result) {
  if (!result) FAIL(take_report(result.takeError()).message);
  return std::move(*result);
}

// A tensor of `bytes` bytes, seen as words, of a kernel by hand.
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
  ~Steps() { api().library_unload(library_); }

  const Api& api() const { return driver_->api(); }

  // Three launches from buffer to buffer; the second one in `manner`. The fault's sentence, "" for
  // none.
  std::string run(Manner manner, bool overlap, u64 seed) {
    must(set_simulator_seed(seed));
    must(buffers_[0].fill(0));
    for (int i = 0; i < 3; ++i) {
      launch(buffers_[i], buffers_[i + 1], i == 1 ? manner : kRight, overlap && i > 0);
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
  void launch(const DeviceBuffer& from, const DeviceBuffer& to, Manner manner, bool overlap) {
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
    attributes[1].value.programmatic_stream_serialization_allowed = overlap ? 1 : 0;
    const LaunchConfig config{kCtas, 1, 1, kThreads, 1, 1, 0, nullptr, attributes, 2};
    Parameters parameters{from.get(), weight_.get(), to.get(), manner};
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

TEST_CASE("kernels that keep to their edges are right under every schedule") {
  if (skipped()) return;
  Steps steps;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    for (const bool overlap : {false, true}) {
      CHECK(steps.run(kRight, overlap, seed) == "");
      CHECK(steps.result() == std::vector<u32>(kWords, 3));
    }
  }
}

TEST_CASE("a successor that does not keep to its edge is a named fault, under every schedule") {
  if (skipped()) return;
  Steps steps;
  const std::pair<Manner, const char*> faults[] = {{kReadsEarly, "[before_dependency_wait"},
                                                   {kWritesEarly, "[before_dependency_wait"},
                                                   {kOneCtaLeaves, "[no_dependency_wait"},
                                                   {kOneThreadLeaves, "[no_dependency_wait"}};
  for (const auto& [manner, name] : faults) {
    for (u64 seed = 1; seed <= kSeeds; ++seed) {
      // The rule is the kernel's, whatever the launch that happens to be tested.
      for (const bool overlap : {false, true}) {
        const std::string message = steps.run(manner, overlap, seed);
        CAPTURE(message);
        CHECK(message.find(name) != std::string::npos);
        CHECK(message.find("kernel step") != std::string::npos);
      }
    }
  }
}
