// SPDX-License-Identifier: Apache-2.0
// C++ text of the shared config structs: named fields, in declaration order, defaults left out.
// Device and host share the structs, so what is printed here is what the kernel reads.
#pragma once

#include <string>

#include "shared/config.h"

namespace catenary {

std::string cpp_text(DType dtype);             // DType::kBF16
std::string cpp_text(const Dims& dims);        // dims(0, 1)
std::string cpp_text(const Extents& extents);  // extents(12, 3072)
std::string cpp_text(const Extent& extent);    // 4096, or Extent(64, 1)
std::string cpp_text(const Operand& operand);  // Operand{.slot = 2, ...}
std::string cpp_text(const MatrixOperand& operand);
std::string cpp_text(float value);  // 0x1.8p+0f: exact

// Body of a `constexpr <Type> kConfig{...};`, one group of fields per line.
std::string cpp_text(const PointwiseConfig& config);
std::string cpp_text(const ReduceConfig& config);
std::string cpp_text(const GemmSm80Config& config);
std::string cpp_text(const SkinnyConfig& config);
std::string cpp_text(const Sm90Operand& matrix);
std::string cpp_text(const GemmSm90Config& config);

}  // namespace catenary
