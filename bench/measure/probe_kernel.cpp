// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/probe_kernel.h"

#include "compiler/compile/nvrtc.h"

namespace catenary::bench {

// Eight loads of 16 bytes are in flight per thread. `words` is a multiple of 8 * blockDim.x. The
// store that keeps the loads alive never happens.
const ProbeSource kL2ReadProbe = {"ctn_probe_l2_read", R"(
extern "C" __global__ void __launch_bounds__(512) ctn_probe_l2_read(
    const uint4* data, unsigned long long words, unsigned* out) {
  const unsigned chunk = 8u * blockDim.x;
  const unsigned chunks = (unsigned)(words / chunk);
  unsigned at = (unsigned)((unsigned long long)blockIdx.x * chunks / gridDim.x);
  unsigned sum = 0;
  for (unsigned c = 0; c < chunks; ++c) {
    const uint4* from = data + (unsigned long long)at * chunk + threadIdx.x;
    uint4 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __ldcg(from + i * blockDim.x);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    at = at + 1 == chunks ? 0 : at + 1;
  }
  if (words == ~0ull) *out = sum;
}
)"};

const ProbeSource kDramReadProbe = {"ctn_probe_dram_read", R"(
extern "C" __global__ void __launch_bounds__(512) ctn_probe_dram_read(
    const uint4* data, unsigned long long words, unsigned* out) {
  const unsigned chunk = 8u * blockDim.x;
  const unsigned chunks = (unsigned)(words / chunk);
  unsigned sum = 0;
  for (unsigned c = blockIdx.x; c < chunks; c += gridDim.x) {
    const uint4* from = data + (unsigned long long)c * chunk + threadIdx.x;
    uint4 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __ldcg(from + i * blockDim.x);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  if (words == ~0ull) *out = sum;
}
)"};

// A full-period linear congruential generator modulo a power of two.
const ProbeSource kCycleProbe = {"ctn_probe_cycle", R"(
extern "C" __global__ void ctn_probe_cycle(unsigned* data, unsigned long long lines) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < lines;
       i += stride) {
    data[i * 32] = (unsigned)((i * 1664525ull + 1013904223ull) & (lines - 1));
  }
}
)"};

// result[0]: nanoseconds of the chase; [1]: bytes that the other CTAs have read meanwhile; [2]: the
// chase has ended; [3]: keeps the loads alive.
const ProbeSource kChaseProbe = {"ctn_probe_chase", R"(
__device__ __forceinline__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
extern "C" __global__ void __launch_bounds__(512) ctn_probe_chase(
    const unsigned* cycle, unsigned long long steps, const uint4* load, unsigned long long words,
    unsigned long long* result) {
  if (blockIdx.x == 0) {
    if (threadIdx.x != 0) return;
    unsigned at = 1;
    // The first steps start the load.
    for (int i = 0; i < 64; ++i) at = __ldcg(cycle + 32ull * at);
    const unsigned long long start = now() + (at == 0xffffffffu);
    for (unsigned long long i = 0; i < steps; ++i) at = __ldcg(cycle + 32ull * at);
    const unsigned long long end = now() + (at == 0xffffffffu);
    result[0] = end - start;
    __threadfence();
    atomicExch(result + 2, 1ull);
    return;
  }
  const unsigned long long chunk = 8ull * blockDim.x;
  const unsigned long long chunks = words / chunk;
  unsigned long long c = chunks / gridDim.x * blockIdx.x;
  unsigned sum = 0;
  unsigned long long bytes = 0;
  volatile unsigned long long* done = result + 2;
  while (*done == 0) {
    uint4 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __ldcg(load + c * chunk + i * blockDim.x + threadIdx.x);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    c = c + 1 == chunks ? 0 : c + 1;
    bytes += chunk * 16;
  }
  if (threadIdx.x == 0) atomicAdd(result + 1, bytes);
  if (steps == ~0ull) result[3] = sum;
}
)"};

const ProbeSource kClockProbe = {"ctn_probe_clock", R"(
__device__ __forceinline__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
extern "C" __global__ void ctn_probe_clock(unsigned long long ns, unsigned long long* result) {
  unsigned long long start = now();
  // From one tick of the timer on.
  for (const unsigned long long before = start; start == before;) start = now();
  const long long first = clock64();
  unsigned long long end = start;
  while (end - start < ns) end = now();
  result[0] = (unsigned long long)(clock64() - first);
  result[1] = end - start;
}
)"};

llvm::ArrayRef<const ProbeSource*> all_probes() {
  static constexpr const ProbeSource* kAll[] = {&kL2ReadProbe, &kDramReadProbe, &kCycleProbe,
                                                &kChaseProbe, &kClockProbe};
  return kAll;
}

Expected<ProbeKernel> ProbeKernel::make(const Session& session, const ProbeSource& source) {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) return nvrtc.takeError();
  CompileJob job;
  job.source.symbol = source.symbol;
  job.source.body = source.text;
  job.arch = session.info().target.arch;
  Expected<CompileResult> compiled = (*nvrtc)->compile(job);
  if (!compiled) return compiled.takeError();
  auto loaded = LoadedKernel::load(session.driver(), compiled->cubin, 0);
  if (!loaded) return loaded.takeError();
  ProbeKernel probe(session);
  probe.loaded_ = std::move(*loaded);
  return probe;
}

Error ProbeKernel::launch(int ctas, int threads, std::vector<u64> parameters) const {
  cuda::LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(ctas);
  config.grid_y = config.grid_z = 1;
  config.block_x = static_cast<unsigned>(threads);
  config.block_y = config.block_z = 1;
  config.stream = session_.stream();
  std::vector<void*> pointers;
  for (u64& parameter : parameters) pointers.push_back(&parameter);
  return session_.check(
      session_.api().launch_kernel_ex(&config, loaded_->function(), pointers.data(), nullptr),
      "launching a probe");
}

}  // namespace catenary::bench
