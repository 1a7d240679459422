// SPDX-License-Identifier: Apache-2.0
// The rates and latencies in the cost model, measured on one device. Each function measures one.
#pragma once

#include "bench/record/record.h"

namespace catenary::bench {

struct CalibrateOptions {
  TimingOptions timing;             // of every contest
  i64 stream_bytes = i64{4} << 30;  // of buffers in DRAM
  i64 gemm_size = 8192;             // M, N and K
  int candidates = 4;               // of every family, for the GEMM rates
};

// Device-to-device copy by the driver: bytes read and written, GB/s.
Expected<double> copy_rate(const Session& session, const CalibrateOptions& options);

// Bytes per second that all SMs together load, past L1, GB/s: 3 CTAs per SM of 512 threads, 128
// bytes in flight per thread. From L2, every CTA reads all of a buffer of `bytes`; from DRAM, all
// CTAs together read it once.
Expected<double> read_rate(const Session& session, i64 bytes, bool from_l2,
                           const CalibrateOptions& options);

// relu of `elements` f32, as a graph of 100 launches: microseconds per launch, without and with
// PDL.
struct LaunchPair {
  double no_pdl_us = 0, pdl_us = 0;
};
Expected<LaunchPair> graph_launch_cost(const Session& session, RandomPool& pool, i64 elements,
                                       const CalibrateOptions& options);

// A square GEMM, both operands K-major, random data: TFLOP/s of our fastest candidate and of
// cuBLASLt's fastest algorithm (0 without one). f32 operands run in tf32.
struct GemmRates {
  double ours = 0, peer = 0;
};
Expected<GemmRates> gemm_rates(const Session& session, const CublasLt* lt, RandomPool& pool,
                               DType dtype, const CalibrateOptions& options);

// One thread follows a random cycle of lines through 256 MiB: nanoseconds per dependent load. The
// other SMs are idle, or (`loaded`) read DRAM as fast as they can, at `load_gbs`.
struct Latency {
  double ns = 0, load_gbs = 0;
};
Expected<Latency> dram_latency(const Session& session, bool loaded,
                               const CalibrateOptions& options);

// The SM clock, GHz: cycles over nanoseconds in one thread right after half a second of `work`.
Expected<double> clock_after(const Session& session, const Contender& work);

// All of them, as rows. What cannot be measured has a note.
Expected<std::vector<CalibrationRow>> calibrate(const Session& session, const CublasLt* lt,
                                                RandomPool& pool, const CalibrateOptions& options);

}  // namespace catenary::bench
