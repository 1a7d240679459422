// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ir/counted.h"
#include "ir/reference/reference_program.h"

namespace catenary {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool same_bits(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// Half the distance from `x` to the next larger magnitude of the format.
double half_step(DType dtype, double x) {
  const int fraction = dtype_info(dtype).fraction;
  const int smallest = dtype_info(dtype).min_exponent;
  const int exponent = x == 0 ? smallest : std::max(std::ilogb(x), smallest);
  return std::ldexp(0.5, exponent - (fraction - 1));
}

// The distance from `expected` to the nearest value that rounds to `got`. Ignores that the format's
// spacing halves below a power of two: there the result is at most a quarter of a unit too small.
// Everything beyond the largest value rounds to it where the format saturates.
double distance(DType dtype, double expected, double got) {
  if (same_bits(expected, got) || round_to(dtype, expected) == got) return 0;
  if (!std::isfinite(got) || !std::isfinite(expected)) return kInfinity;
  return std::max(0.0, std::fabs(got - expected) - half_step(dtype, got));
}

}  // namespace

CompareResult compare(const TensorType& type, const void* data, llvm::ArrayRef<Interval> expected,
                      CompareMode mode, llvm::ArrayRef<i64> indices) {
  CompareResult result;
  result.dtype = type.dtype;
  const auto strides = type.strides.empty() ? contiguous_strides(type.shape) : type.strides;
  llvm::SmallVector<i64, 4> at;
  double worst = -1;
  for (size_t e = 0; e < expected.size(); ++e) {
    const i64 index = indices.empty() ? static_cast<i64>(e) : indices[e];
    unravel(index, type.shape, at);
    i64 offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
    const double got = load_element(type.dtype, data, offset);
    const Interval& want = expected[e];
    const bool exact = mode == CompareMode::kExact;
    // Integers of more than 24 bits are rounded on the way.
    const bool in_bits = exact && (want.error == 0 || std::fabs(want.value) < 0x1p24);
    const bool accepted =
        in_bits ? same_bits(got, round_to(type.dtype, want.value)) : accepts(want, type.dtype, got);
    const double away = distance(type.dtype, want.value, got);
    if (!exact && std::isinf(want.error)) {
      ++result.unbounded;
      continue;
    }
    ++result.checked;
    if (want.error == 0) ++result.exact;
    if (!exact && want.error > 0 && std::isfinite(want.error) && std::isfinite(away)) {
      result.worst_ratio = std::max(result.worst_ratio, away / want.error);
    }
    if (accepted) continue;
    const Mismatch mismatch{index, at, want, got};
    if (result.mismatches++ == 0) result.first = mismatch;
    if (away > worst) {
      worst = away;
      result.worst = mismatch;
    }
  }
  return result;
}

std::string to_string(const CompareResult& result) {
  std::string text =
      fmt::format("{}, {}, worst error {:.3g} of the allowed", counted(result.checked, "element"),
                  counted(result.mismatches, "mismatch"), result.worst_ratio);
  if (result.unbounded > 0) text += fmt::format(", {} without a bound", result.unbounded);
  const auto describe = [&](const char* which, const Mismatch& m) {
    text += fmt::format("; {} at [{}]: got {:.9g}, expected {:.9g} +- {:.3g} ({} {:.9g})", which,
                        fmt::join(m.at, ", "), m.got, m.expected.value, m.expected.error,
                        dtype_text(result.dtype), round_to(result.dtype, m.expected.value));
  };
  if (result.first) describe("first", *result.first);
  if (result.worst && result.worst->index != result.first->index) describe("worst", *result.worst);
  return text;
}

}  // namespace catenary
