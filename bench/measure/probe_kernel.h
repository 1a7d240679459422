// SPDX-License-Identifier: Apache-2.0
// Small CUDA kernels that measure the hardware, and how to launch one.
#pragma once

#include <vector>

#include "bench/tuner.h"
#include "runtime/loaded_kernel.h"

namespace catenary::bench {

// A kernel's name and CUDA C++ text.
struct ProbeSource {
  const char* symbol;
  const char* text;
};

// Every CTA reads the whole buffer, past L1, each from another start.
extern const ProbeSource kL2ReadProbe;
// All CTAs together read the buffer once.
extern const ProbeSource kDramReadProbe;
// Writes a random cycle over all lines of a buffer: line i holds the index of the next one.
extern const ProbeSource kCycleProbe;
// One thread follows the cycle; the other CTAs read another buffer until it has finished.
extern const ProbeSource kChaseProbe;
// One thread waits, and reports the cycles and nanoseconds of the wait.
extern const ProbeSource kClockProbe;

llvm::ArrayRef<const ProbeSource*> all_probes();

class ProbeKernel {
 public:
  // Compiles by NVRTC for the session's device and loads. kNvrtcMissing.
  static Expected<ProbeKernel> make(const Session& session, const ProbeSource& source);

  // Enqueues one launch; every parameter is 8 bytes.
  Error launch(int ctas, int threads, std::vector<u64> parameters) const;

 private:
  explicit ProbeKernel(const Session& session) : session_(session) {}
  const Session& session_;
  std::shared_ptr<const LoadedKernel> loaded_;
};

}  // namespace catenary::bench
