// SPDX-License-Identifier: Apache-2.0
// Fixed-width integers without a header: without a CUDA toolkit NVRTC finds no <cstdint>.
#pragma once

namespace catenary {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

}  // namespace catenary
