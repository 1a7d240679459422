// SPDX-License-Identifier: Apache-2.0
// Interval arithmetic of the oracle: each operation on (value, error) operands. An infinite error
// means that any result is acceptable.
#pragma once

#include "ir/ops.h"
#include "ir/reference/reference.h"

namespace catenary {

// Unit roundoff of f32.
inline constexpr double kUnitF32 = 0x1p-24;

// Magnitudes of at least this round to infinity in f32.
inline constexpr double kOverflowF32 = 0x1.ffffffp127;

// A value as f32: a certain overflow becomes an exact infinity. NaN and infinities have error 0; an
// error that is not finite makes any result acceptable.
Interval settle_f32(double value, double error);

// An elementwise f32 operation. The error is 0 if every correct kernel must give the same bits:
// exact operands, a correctly rounded op, and a result that f32 represents. It is infinite where
// any result is right, as of a division by what may be 0; the value is then that of the operands'
// values.
Interval apply_op(Op op, llvm::ArrayRef<Interval> operands, const double (&attributes)[2]);

// Rounding to `dtype`: an operand error may move the result by whole units of the format.
Interval cast_interval(DType dtype, const Interval& operand);

// The rounding of an f32 operand of tensor cores to tf32. Ties may go either way: the interval of
// an exact tie covers both neighbours.
Interval tf32_interval(const Interval& operand);

// What a correct kernel of either of two forms of a value may give: the value of the written form,
// with an error that reaches the farther end of both.
Interval either_interval(const Interval& written, const Interval& other);

// The sum of `terms` f32 values in some fixed order: `sum` of the values, of the magnitudes of the
// finite ones, and of their errors. `integers`: every term is an exact integer.
Interval sum_interval(double sum, double magnitudes, double errors, i64 terms, bool integers);

}  // namespace catenary
