// SPDX-License-Identifier: Apache-2.0
// C++ text of values in emitted source. Device and host share the types, so what is printed here is
// what the kernel reads. Structs: compiler/emit/fields.h.
#pragma once

#include <string>

#include "shared/config.h"

namespace catenary {

std::string cpp_text(bool value);  // true
std::string cpp_text(i32 value);   // 128
std::string cpp_text(i64 value);
std::string cpp_text(float value);    // 0x1.8p+0f: exact
std::string cpp_text(DType dtype);    // DType::kBF16
std::string cpp_text(MathMode math);  // MathMode::kTF32
std::string cpp_text(Ragged ragged);  // Ragged::kMGrouped
std::string cpp_text(ReduceOp op);
std::string cpp_text(const Dims& dims);        // dims(0, 1)
std::string cpp_text(const Extents& extents);  // extents(12, 3072)
std::string cpp_text(const Extent& extent);    // 4096, or Extent(64, 1)
std::string cpp_text(const Operand& operand);  // Operand{.slot = 2, ...}

}  // namespace catenary
