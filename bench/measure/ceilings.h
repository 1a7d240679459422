// SPDX-License-Identifier: Apache-2.0
// The two rates that bound every kernel of a run, measured in that run.
#pragma once

#include <optional>

#include "bench/peer/peer.h"

namespace catenary::bench {

struct Ceilings {
  double copy_tbs = 0;     // device-to-device copy of 4 GiB: bytes read and written, 1e12/s
  double gemm_tflops = 0;  // cuBLASLt's best on 8192^3 bf16, random data; 0: no cuBLASLt
};

// `lt` may be null.
Expected<Ceilings> measure_ceilings(const Session& session, const CublasLt* lt, RandomPool& pool,
                                    bool quick);

// The time in microseconds that the slower of both ceilings allows for `bytes` and `flops`, and
// which it is; 0 when neither is known. `rate`: of the dtype's tensor cores against bf16.
struct Bound {
  double us = 0;
  const char* by = "";  // "copy" or "gemm"
};
Bound ceiling_bound(const Ceilings& ceilings, double bytes, double flops, double rate);

// Bytes per second over those of the copy; nothing without a time or a rate.
std::optional<double> copy_share(const Ceilings& ceilings, double bytes,
                                 const std::optional<Spread>& us);

}  // namespace catenary::bench
