// SPDX-License-Identifier: Apache-2.0
// Quantised weights as operands of the families that read the packed layout.
#pragma once

#include <string>

#include "compiler/emit/fields.h"
#include "compiler/families/problem.h"
#include "shared/dequant_operand.h"

namespace catenary {

// Columns of K at most: they are counted in 32 bits.
inline constexpr i64 kDequantColumns = i64{1} << 30;

// `b` has a dequant.
DequantOperand dequant_operand(const ContractionOperand& b);

Fields fields_of(const DequantOperand& w);

// Replaces the slots of q, scale and zero.
void renumber_slots(DequantOperand& w, llvm::function_ref<i32(i32)> renumber);

// What of a dequantised operand the kernels do not read: a sentence; empty: they read all.
std::string dequant_refusal(const ContractionProblem& problem, const ContractionOperand& w);

// The same of N, K and the batch.
std::string dequant_size_refusal(const ContractionProblem& problem);

}  // namespace catenary
