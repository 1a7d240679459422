// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/against_simulator.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "compiler/compile/host_compiler.h"
#include "ir/random/random.h"
#include "ir/reference/compare.h"
#include "runtime/driver/simulated_driver.h"

namespace catenary::gpu_suite {
namespace {

i64 bits_of(DType dtype, const u8* at) {
  u32 bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(dtype_bytes(dtype)));
  return bits;
}

// Maps floats to integers in order: adjacent floats differ by one.
i64 ordinal(DType dtype, i64 bits) {
  const i64 sign = i64{1} << (8 * dtype_bytes(dtype) - 1);
  return bits & sign ? -(bits & ~sign) : bits;
}

struct Difference {
  i64 elements = 0;
  i64 equal = 0;
  i64 first = -1;  // element that differs
  i64 max_ulp = 0;
  double worst_share = 0;
};

Difference compare_bits(const Region& region, const u8* device, const u8* simulator,
                        const std::vector<Interval>& expected) {
  Difference difference;
  const DType dtype = region.type.dtype;
  for_each_element(region.type, [&](i64 e, i64 offset) {
    const i64 at = region.offset + offset * dtype_bytes(dtype);
    const i64 a = bits_of(dtype, device + at);
    const i64 b = bits_of(dtype, simulator + at);
    ++difference.elements;
    if (a == b) {
      ++difference.equal;
      return;
    }
    if (difference.first < 0) difference.first = e;
    const double x = load_element(dtype, device + region.offset, offset);
    const double y = load_element(dtype, simulator + region.offset, offset);
    if (std::isnan(x) || std::isnan(y)) return;
    const i64 ulp = std::abs(ordinal(dtype, a) - ordinal(dtype, b));
    difference.max_ulp = std::max(difference.max_ulp, ulp);
    const double allowed = expected[static_cast<size_t>(e)].error;
    // The reference's error does not include the last rounding.
    if (ulp > 1 && allowed > 0 && std::isfinite(allowed) && std::isfinite(x - y)) {
      difference.worst_share = std::max(difference.worst_share, std::abs(x - y) / allowed);
    }
  });
  return difference;
}

// The problem with one output; empty: none.
std::string judge(const PreparedRun& run, const Region& region, const std::vector<u8>& simulator,
                  const std::vector<Interval>& expected, const Difference& difference) {
  if (run.exact) {
    if (difference.equal == difference.elements) return "";
    return fmt::format("{} of {} elements of {} differ from the device, first element {}",
                       difference.elements - difference.equal, difference.elements, region.name,
                       difference.first);
  }
  const CompareResult compared = compare(region.type, simulator.data() + region.offset, expected);
  return compared.ok() ? "" : fmt::format("{}: {}", region.name, to_string(compared));
}

void count(const PreparedCase& prepared, const PreparedRun& run, DType dtype,
           const Difference& difference, SimulatorTally& tally) {
  if (run.exact) {
    tally.exact_elements += difference.elements;
    tally.exact_equal += difference.equal;
    return;
  }
  tally.real_elements += difference.elements;
  tally.real_equal += difference.equal;
  i64& ulp = tally.max_ulp[std::string(dtype_text(dtype))];
  ulp = std::max(ulp, difference.max_ulp);
  if (difference.worst_share <= tally.worst_share) return;
  tally.worst_share = difference.worst_share;
  tally.worst_case = fmt::format("{} (seed {})", prepared.from.name, prepared.from.seed);
}

// The simulator's memory after one launch of each run.
Expected<std::vector<std::vector<u8>>> simulate_runs(const PreparedCase& prepared) {
  Expected<cuda::ScopedDriver> simulator = cuda::ScopedDriver::simulator();
  if (!simulator) return simulator.takeError();
  Expected<cuda::ScopedContext> context = cuda::ScopedContext::primary(0);
  if (!context) return context.takeError();
  auto executable = Engine().load(prepared.for_simulator, 0);
  if (!executable) return executable.takeError();
  std::vector<std::vector<u8>> after;
  u64 schedule = prepared.from.seed;
  for (const PreparedRun& run : prepared.runs) {
    auto memory = cuda::DeviceBuffer::allocate(run.image.bytes + kBlockAlign);
    if (!memory) return memory.takeError();
    const auto base = static_cast<cuda::DevicePtr>(
        ceil_div(static_cast<i64>(memory->get()), kBlockAlign) * kBlockAlign);
    schedule = mix64(schedule + 1);
    if (Error error = cuda::set_simulator_seed(schedule)) return error;
    auto bytes = launch_image({simulator->driver(), nullptr, base}, run, **executable,
                              run.image.run_a, [] {});
    if (!bytes) return bytes.takeError();
    after.push_back(std::move(*bytes));
  }
  return after;
}

}  // namespace

Expected<std::shared_ptr<const CompiledChain>> compile_for_simulator(
    const CompiledChain& compiled) {
  Expected<const HostCompiler*> host = HostCompiler::get();
  if (!host) return host.takeError();
  auto twin = std::make_shared<CompiledChain>(compiled);
  std::map<KernelKey, std::shared_ptr<const Cubin>> known;
  for (auto& bucket : twin->buckets) {
    for (CompiledKernel& kernel : bucket) {
      const CompileJob job{kernel.source, compiled.plan.target.arch, {}};
      kernel.key =
          kernel_key({kernel.source.body, (*host)->header_digest(), job.arch,
                      (*host)->option_text(job.arch, job.options), (*host)->compiler_id()});
      std::shared_ptr<const Cubin>& cubin = known[kernel.key];
      if (!cubin) {
        Expected<CompileResult> result = (*host)->compile(job);
        if (!result) return result.takeError();
        cubin = std::make_shared<const Cubin>(std::move(result->cubin));
      }
      kernel.cubin = cubin;
    }
  }
  return twin;
}

std::vector<std::string> run_in_simulator(const PreparedCase& prepared,
                                          const std::vector<std::vector<u8>>& device,
                                          SimulatorTally& tally) {
  ++tally.configs;
  auto after = simulate_runs(prepared);
  if (!after) return {take_report(after.takeError()).message};
  std::vector<std::string> problems;
  for (size_t r = 0; r < device.size(); ++r) {
    const PreparedRun& run = prepared.runs[r];
    const std::vector<u8>& simulator = (*after)[r];
    std::string problem = find_damage(run.image, run.image.run_a, simulator);
    size_t output = 0;
    for (const Region& region : run.image.regions) {
      if (!region.output) continue;
      const auto& expected = run.expected[output++];
      const Difference difference =
          compare_bits(region, device[r].data(), simulator.data(), expected);
      count(prepared, run, region.type.dtype, difference, tally);
      if (problem.empty()) problem = judge(run, region, simulator, expected, difference);
    }
    if (!problem.empty()) problems.push_back(fmt::format("{}: {}", run_name(run), problem));
  }
  tally.equal_configs += problems.empty() && device.size() == prepared.runs.size();
  return problems;
}

}  // namespace catenary::gpu_suite
