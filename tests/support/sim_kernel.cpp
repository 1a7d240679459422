// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sim_kernel.h"

#include <cstring>

namespace catenary::testing {
namespace {

sim::Machine* bound = nullptr;

void bind(sim::Machine* machine) { bound = machine; }

void call(const void* parameters) {
  const SimKernel* kernel;
  std::memcpy(&kernel, parameters, sizeof kernel);
  if (!kernel->waits) bound->griddepcontrol_wait(site("griddepcontrol_wait"));
  kernel->body(*bound);
}

}  // namespace

std::string fault_of(sim::Memory& memory, const std::vector<SimKernel>& kernels, u64 seed,
                     std::string* message) {
  std::vector<sim::Launch> launches;
  for (const SimKernel& kernel : kernels) {
    sim::Launch& launch = launches.emplace_back();
    launch.object = sim::Object::over(&bind, &call);
    launch.kernel = "test" + std::to_string(launches.size());
    launch.ctas = kernel.ctas;
    launch.threads = kernel.threads;
    launch.smem_bytes = kernel.smem_bytes;
    launch.cluster_ctas = kernel.cluster_ctas;
    launch.overlap = kernel.overlap;
    launch.regions = kernel.regions;
    const SimKernel* address = &kernel;
    launch.parameters.resize(sizeof address);
    std::memcpy(launch.parameters.data(), &address, sizeof address);
  }
  sim::SimulatorOptions options;
  options.seed = seed;
  const ErrorReport report = take_report(sim::simulate(memory, launches, options));
  if (message != nullptr) *message = report.message;
  if (report.code == ErrorCode::kOk) return "";
  if (report.code != ErrorCode::kSimulatorFault) return error_code_name(report.code);
  const size_t begin = report.message.rfind(" [");
  if (begin == std::string::npos) return report.message;
  return report.message.substr(begin + 2, report.message.find(':', begin) - begin - 2);
}

std::string fault_within(sim::Memory& memory, const std::vector<SimKernel>& kernels, u64 seeds,
                         std::string* message) {
  for (u64 seed = 1; seed <= seeds; ++seed) {
    const std::string name = fault_of(memory, kernels, seed, message);
    if (!name.empty()) return name;
  }
  return "";
}

sim::Region buffer(sim::Memory& memory, const std::string& name, sim::RegionRole role, i64 bytes,
                   bool written) {
  void* address = memory.allocate(bytes);
  if (written) {
    memory.mark(address, bytes, true);
    std::memset(address, 0, static_cast<size_t>(bytes));
  }
  return {name, role, reinterpret_cast<u64>(address), bytes};
}

}  // namespace catenary::testing
