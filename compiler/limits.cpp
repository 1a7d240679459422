// SPDX-License-Identifier: Apache-2.0
#include "compiler/limits.h"

#include <limits>

namespace catenary {
namespace {

// CUDA C++ Programming Guide, technical specifications per compute capability: the same for all
// that are supported.
constexpr i64 kMaxCtas = (i64{1} << 31) - 1;
constexpr int kMaxThreadsPerCta = 1024;
constexpr i64 kRegistersPerSm = 65536;
// The hardware allocates registers in units of 256 a warp: 8 a thread.
constexpr i64 kLeastRegistersPerThread = 8;

// a * b for values that are not negative, or the largest i64.
i64 saturating_product(i64 a, i64 b) {
  i64 product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<i64>::max() : product;
}

Error internal(const KernelPlan& kernel, const Target& target, std::string_view what, i64 value,
               i64 limit) {
  return make_error(ErrorCode::kInternal, "kernel {} was planned with {} {}, {} has {}",
                    kernel.symbol, value, what, target.name, limit);
}

}  // namespace

i64 GridRule::ctas(i64 symbol) const {
  const i64 elements = scale == 0 ? size : saturating_product(symbol, scale);
  const i64 blocks = elements / block + (elements % block != 0);
  const i64 wanted = saturating_product(fixed, blocks + extra);
  return limit > 0 && wanted > limit ? limit : wanted;
}

Error check_limits(const KernelPlan& kernel, const Target& target, i64 symbol_hi) {
  const i64 ctas = kernel.grid.ctas(symbol_hi);
  if (ctas > kMaxCtas) {
    return make_error(ErrorCode::kResourceLimit,
                      "kernel {} needs {} CTAs, above the limit of 2^31 - 1: split the tensor that "
                      "it computes",
                      kernel.symbol, ctas);
  }
  if (kernel.smem_bytes < 0 || kernel.smem_bytes > target.smem_per_cta) {
    return internal(kernel, target, "bytes of shared memory", kernel.smem_bytes,
                    target.smem_per_cta);
  }
  if (kernel.threads < 1 || kernel.threads > kMaxThreadsPerCta) {
    return internal(kernel, target, "threads", kernel.threads, kMaxThreadsPerCta);
  }
  const i64 registers = i64{kernel.threads} * kernel.min_ctas * kLeastRegistersPerThread;
  if (kernel.min_ctas < 1 || registers > kRegistersPerSm) {
    return internal(kernel, target, "CTAs per SM", kernel.min_ctas,
                    kRegistersPerSm / (i64{kernel.threads} * kLeastRegistersPerThread));
  }
  return Error::success();
}

}  // namespace catenary
