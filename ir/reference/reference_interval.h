// SPDX-License-Identifier: Apache-2.0
// Interval arithmetic of the oracle: what each operation makes of (value, error) operands. An
// infinite error means that any result is acceptable. Knows no tensors.
#pragma once

#include "ir/ops.h"
#include "ir/reference/reference.h"

namespace catenary {

// Unit roundoff of f32.
inline constexpr double kUnitF32 = 0x1p-24;

// Magnitudes from here on round to infinity in f32.
inline constexpr double kOverflowF32 = 0x1.ffffffp127;

// A value as f32 holds it: what certainly overflows becomes an infinity, met exactly. NaN and
// infinities have error 0; an error that is not finite makes any result acceptable.
Interval settle_f32(double value, double error);

// An elementwise f32 operation. The error is 0 where every correct kernel must give these very
// bits: exact operands, an op that rounds correctly, and a result that f32 represents.
Interval apply_op(Op op, llvm::ArrayRef<Interval> operands, const double (&attributes)[2]);

// Rounding to `dtype`, where an operand error may move the result by whole steps of the format.
Interval cast_interval(DType dtype, const Interval& operand);

// The same for the rounding of an f32 operand of tensor cores to tf32, ties either way: an exact
// tie becomes both its neighbours.
Interval tf32_interval(const Interval& operand);

// The sum of `terms` f32 values in some fixed order: `sum` of the values, of their magnitudes and
// of their errors. `integers`: every term is an exact integer.
Interval sum_interval(double sum, double magnitudes, double errors, i64 terms, bool integers);

}  // namespace catenary
