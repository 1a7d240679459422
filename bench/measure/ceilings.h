// SPDX-License-Identifier: Apache-2.0
// Two rates that bound every kernel, measured in the same run.
#pragma once

#include <optional>

#include "bench/peer/peer.h"

namespace catenary::bench {

struct Ceilings {
  double copy_tbs = 0;     // device-to-device copy of 4 GiB: bytes read and written, 1e12/s
  double gemm_tflops = 0;  // cuBLASLt's best on 8192^3 bf16, random data; 0: no cuBLASLt
};

// A device-to-device copy by the driver.
class DeviceCopy {
 public:
  static Expected<DeviceCopy> make(const Session& session, i64 bytes);
  // Refers to this object.
  Contender contender() const;
  // Bytes read and written by `us`, 1e12/s.
  double tbs(double us) const { return us > 0 ? 2.0 * from_.bytes() / (us * 1e6) : 0; }

 private:
  explicit DeviceCopy(const Session& session) : session_(&session) {}
  const Session* session_;
  cuda::DeviceBuffer from_, to_;
};

// `lt` may be null.
Expected<Ceilings> measure_ceilings(const Session& session, const CublasLt* lt, RandomPool& pool,
                                    bool quick);

// The larger of the times that both ceilings give for `bytes` and `flops`, and which ceiling it is;
// 0 if neither is known. `rate`: of the dtype's tensor cores relative to bf16.
struct Bound {
  double us = 0;
  const char* by = "";  // "copy" or "gemm"
};
Bound ceiling_bound(const Ceilings& ceilings, double bytes, double flops, double rate);

// Bytes per second relative to the copy; nothing without a time or a rate.
std::optional<double> copy_share(const Ceilings& ceilings, double bytes,
                                 const std::optional<Spread>& us);

}  // namespace catenary::bench
