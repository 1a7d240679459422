// SPDX-License-Identifier: Apache-2.0
#include "tests/instructions/simulate.h"

#include <cstring>

namespace catenary::instructions {

CompileJob compile_job(const Case& from) { return {source_of(from), "sm_90a", {}}; }

Expected<std::shared_ptr<const sim::Object>> compile_for_simulator(const KernelCompiler& compiler,
                                                                   const Case& from) {
  Expected<CompileResult> compiled = compiler.compile(compile_job(from));
  if (!compiled) return compiled.takeError();
  return sim::Object::load(compiled->cubin.image);
}

Expected<std::vector<u8>> run_in_simulator(const Case& from,
                                           std::shared_ptr<const sim::Object> object, u64 seed) {
  sim::Memory memory;
  sim::Launch launch;
  launch.object = std::move(object);
  launch.kernel = from.kernel;
  launch.ctas = from.ctas;
  launch.threads = from.threads;
  launch.smem_bytes = from.smem_bytes;
  launch.cluster_ctas = from.cluster_ctas;
  std::vector<u64> addresses;
  for (const Buffer& buffer : from.buffers) {
    const i64 bytes = static_cast<i64>(buffer.bytes.size());
    void* address = memory.allocate(bytes);
    if (address == nullptr) {
      return make_error(ErrorCode::kOutOfMemory, "no memory for {} bytes of '{}'", bytes,
                        buffer.name);
    }
    memory.mark(address, bytes, true);
    std::memcpy(address, buffer.bytes.data(), buffer.bytes.size());
    addresses.push_back(reinterpret_cast<u64>(address));
    launch.regions.push_back({buffer.name, buffer.role, addresses.back(), bytes});
  }
  std::vector<TensorMap> maps;
  for (const Map& map : from.maps) {
    TensorMapSpec spec = map.spec;
    spec.base = addresses[map.buffer];
    if (Error error = sim::check_tensor_map(spec)) return error;
    maps.push_back(sim::encode_tensor_map(spec));
  }
  launch.parameters = parameters(from, maps, addresses);
  std::vector<sim::Launch> launches(from.launches, launch);
  for (size_t i = 1; i < launches.size(); ++i) launches[i].overlap = true;
  sim::SimulatorOptions options;
  options.seed = seed;
  if (Error error = sim::simulate(memory, launches, options)) return error;
  const u8* output = reinterpret_cast<const u8*>(addresses.back());
  return std::vector<u8>(output, output + from.buffers.back().bytes.size());
}

}  // namespace catenary::instructions
