// SPDX-License-Identifier: Apache-2.0
// Group ends, and rows of NaN, of the ragged chains among the bases of mutants.
#pragma once

#include <utility>

#include "shared/int.h"

namespace catenary::testing {

// Group ends before the first row, out of order and past the last row: a kernel must clamp them to
// the label's size.
inline constexpr i32 kWildEnds[] = {-5, 33, 90};

// The same for more groups than a warp has lanes, with an empty first group.
inline constexpr i32 kManyEnds[] = {0,  3,  2,  9,  9,  9,  10, 11, 12, 13, 14, 15,
                                    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
                                    28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 50, 50};
inline constexpr i32 kFewEnds[] = {5, 5, 18};
inline constexpr i32 kEmptyEnds[] = {0, 0, 70, 70};
inline constexpr i32 kNanEnds[] = {33, 40, 90};
inline constexpr std::pair<i64, i64> kNanRows[] = {{33, 40}, {90, 100}};

}  // namespace catenary::testing
