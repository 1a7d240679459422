// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/ceilings.h"

#include <algorithm>
#include <cmath>

namespace catenary::bench {
namespace {

constexpr i64 kCopyBytes = i64{4} << 30;
constexpr i64 kGemmSize = 8192;

Expected<double> copy_tbs(const Session& session, bool quick) {
  Expected<DeviceCopy> copy = DeviceCopy::make(session, kCopyBytes);
  if (!copy) return copy.takeError();
  TimingOptions options;
  options.rounds = quick ? 5 : 15;
  options.batch_us = 4000;
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    auto timings = time_contenders(session, copy->contender(), options);
    if (!timings) return timings.takeError();
    best = std::max(best, copy->tbs(timings->front().us.median));
  }
  return best;
}

Expected<double> gemm_tflops(const Session& session, const CublasLt& lt, RandomPool& pool,
                             bool quick) {
  constexpr int kCopies = 2;
  TensorType type;
  type.dtype = DType::kBF16;
  type.shape = {Dim{kGemmSize, false}, Dim{kGemmSize, false}};
  const auto block = pool.block(DType::kBF16, 1);
  TensorArena arenas[3];  // A, B, D
  for (int i = 0; i < 3; ++i) {
    Expected<TensorArena> arena = make_arena(type, kCopies);
    if (!arena) return arena.takeError();
    arenas[i] = std::move(*arena);
    if (i == 2) continue;
    if (Error error = fill_random(session, block, 16 * 300007 * i, arenas[i])) return error;
  }
  if (Error error = session.synchronize_context()) return error;
  const LtProblem problem = dense_problem(DType::kBF16, kGemmSize, kGemmSize, kGemmSize);
  auto matmul = lt.matmul(problem, 32, nullptr);
  if (!matmul) return matmul.takeError();
  const auto run = [&](int by, int copy) {
    return (*matmul)->run(by, arenas[0].at(copy), arenas[1].at(copy), nullptr, arenas[2].at(copy));
  };
  TimingOptions options;
  options.copies = kCopies;
  options.rounds = 3;
  auto best = best_algorithm(session, **matmul, run, options);
  if (!best) return best.takeError();
  options.rounds = quick ? 5 : 15;
  options.batch_us = 10000;
  const Contender contender{"gemm", [&](int copy) { return run(best->algorithm, copy); }};
  auto timings = time_contenders(session, contender, options);
  if (!timings) return timings.takeError();
  return 2.0 * kGemmSize * kGemmSize * kGemmSize / (timings->front().us.median * 1e6);
}

}  // namespace

Expected<DeviceCopy> DeviceCopy::make(const Session& session, i64 bytes) {
  DeviceCopy copy(session);
  for (cuda::DeviceBuffer* buffer : {&copy.from_, &copy.to_}) {
    Expected<cuda::DeviceBuffer> made = cuda::DeviceBuffer::allocate(bytes);
    if (!made) return made.takeError();
    *buffer = std::move(*made);
  }
  if (Error error = copy.from_.fill(0x5a)) return error;
  if (Error error = session.synchronize_context()) return error;
  return copy;
}

Contender DeviceCopy::contender() const {
  return {"copy", [this](int) {
            return session_->check(
                session_->api().memcpy_dtod_async(
                    to_.get(), from_.get(), static_cast<size_t>(from_.bytes()), session_->stream()),
                "copying on the device");
          }};
}

Expected<Ceilings> measure_ceilings(const Session& session, const CublasLt* lt, RandomPool& pool,
                                    bool quick) {
  Ceilings ceilings;
  Expected<double> copy = copy_tbs(session, quick);
  if (!copy) return copy.takeError();
  ceilings.copy_tbs = *copy;
  if (lt != nullptr) {
    Expected<double> gemm = gemm_tflops(session, *lt, pool, quick);
    if (!gemm) return gemm.takeError();
    ceilings.gemm_tflops = *gemm;
  }
  return ceilings;
}

Bound ceiling_bound(const Ceilings& ceilings, double bytes, double flops, double rate) {
  if (flops > 0 && ceilings.gemm_tflops <= 0) return {};
  const double copy = ceilings.copy_tbs > 0 ? bytes / (ceilings.copy_tbs * 1e6) : 0;
  const double gemm = ceilings.gemm_tflops > 0 ? flops / (ceilings.gemm_tflops * rate * 1e6) : 0;
  return copy >= gemm ? Bound{copy, "copy"} : Bound{gemm, "gemm"};
}

std::optional<double> copy_share(const Ceilings& ceilings, double bytes,
                                 const std::optional<Spread>& us) {
  if (!us || us->median <= 0 || ceilings.copy_tbs <= 0) return std::nullopt;
  return bytes / (us->median * ceilings.copy_tbs * 1e6);
}

}  // namespace catenary::bench
