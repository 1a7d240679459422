// SPDX-License-Identifier: Apache-2.0
// What families ask a problem.
#include "compiler/families/problem.h"

#include "llvm/ADT/STLExtras.h"

namespace catenary {

bool ContractionProblem::has_plain_products() const {
  return !is_dequantised() && has_products_over_one_a();
}

bool ContractionProblem::has_products_over_one_a() const {
  if (a.size() != 1 || b.empty() || b.size() > 2 || accumulator_n.size() != b.size()) return false;
  for (int i = 0; i < static_cast<int>(b.size()); ++i) {
    const ContractionProduct product{0, i, i, space.k, space.k_outer};
    if (!(products[i] == product) || !(accumulator_n[i] == space.n)) return false;
  }
  return products.size() == b.size();
}

bool ContractionProblem::is_dequantised() const {
  const auto dequantised = [](const ContractionOperand& o) { return o.dequant.has_value(); };
  return llvm::any_of(a, dequantised) || llvm::any_of(b, dequantised);
}

bool ContractionProblem::is_block_scaled() const {
  const auto scaled = [](const ContractionOperand& o) { return o.dequant && is_fp8(o.dtype); };
  return has_products_over_one_a() && llvm::all_of(a, scaled) && llvm::all_of(b, scaled) &&
         !row_squares;
}

int ContractionProblem::num_column_sums() const {
  return static_cast<int>(
      llvm::count_if(program, [](const ProgramLine& line) { return line.operand.rows != 1; }));
}

bool ContractionProblem::is_sum() const {
  if (is_dequantised()) return false;
  if (a.size() < 2 || b.size() != a.size() || products.size() != a.size()) return false;
  if (accumulator_n.size() != 1 || !(accumulator_n[0] == space.n)) return false;
  for (int i = 0; i < static_cast<int>(a.size()); ++i) {
    const ContractionProduct& p = products[i];
    if (p.a != i || p.b != i || p.accumulator != 0 || p.k.scale != 0) return false;
  }
  return true;
}

i64 ContractionProblem::k_tiles(i64 block_k) const {
  if (num_accumulators() == static_cast<int>(products.size())) return ceil_div(size.k, block_k);
  i64 tiles = 0;
  for (const ContractionProduct& p : products) tiles += p.k_outer * ceil_div(p.k.size, block_k);
  return tiles;
}

double math_tflops(const Target& target, MathMode math) {
  switch (math) {
    case MathMode::kBF16:
    case MathMode::kF16:
      return target.tensor_tflops;
    case MathMode::kTF32:
      return target.tf32_tflops;
    case MathMode::kF32:
      return target.f32_tflops;
    case MathMode::kE4M3:
    case MathMode::kE4M3Fast:
    case MathMode::kE5M2:
    case MathMode::kE5M2Fast:
      // 1,979 dense TFLOP/s on an H100 or H200 (the vendor's datasheets). None before sm_89.
      return target.compute_capability() >= 89 ? 2 * target.tensor_tflops : 0;
  }
  return 0;
}

}  // namespace catenary
