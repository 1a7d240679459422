// SPDX-License-Identifier: Apache-2.0
// Random quantised weights: integers, their layout, blocks, scales and zeros.
#include "ir/random/random_parts.h"
#include "ir/random/scale_shapes.h"

namespace catenary {
namespace {

constexpr DType kIntegers[] = {DType::kI8, DType::kI4, DType::kU4};
// Exact integers: (q - z) * s with q and z up to 16, s up to 2.
constexpr double kMagnitude = 64;

}  // namespace

// With small M a row has scales of its own, as kernels take it.
ScaleBlock RandomParts::scale_block(llvm::ArrayRef<Dim> shape) {
  constexpr i64 kRows[] = {1, 1, 1, 2, 8};
  constexpr i64 kColumns[] = {1, 4, 16, 32, 64, 128};
  constexpr i64 kFewRowColumns[] = {32, 64, 128, 128};
  ScaleBlock block;
  if (options_.small_m) {
    block.columns = extra_.chance(20) ? shape.back().size : extra_.pick<i64>(kFewRowColumns);
    return block;
  }
  block.rows = extra_.pick<i64>(kRows);
  block.columns = extra_.pick<i64>(kColumns);
  return block;
}

ValueId RandomParts::dequantised(Role role, llvm::ArrayRef<Dim> shape) {
  const bool packed = options_.small_m || extra_.chance(50);
  DType dtype = extra_.pick<DType>(kIntegers);
  // Two elements of 4 bits share a byte, and rows begin with one.
  if (!packed && shape.back().size % 2 != 0) dtype = DType::kI8;
  Value made;
  made.op = Op::kDequant;
  made.block = scale_block(shape);
  const ValueId q = parameter(role, dtype, shape);
  TensorType& type = value(q).type;
  type.packed = packed;
  if (packed || dtype != DType::kI8) type.strides.clear();
  if (options_.small_m) type.align = 16;
  made.operands.push_back({q, ""});
  const auto scales = scale_shape(shape, made.block);
  const DType scale = float_dtype();
  made.operands.push_back({parameter(role, is_fp8(scale) ? DType::kBF16 : scale, scales), ""});
  if (extra_.chance(40)) made.operands.push_back({parameter(role, DType::kI8, scales), ""});
  Known facts;
  facts.shape.assign(shape.begin(), shape.end());
  facts.magnitude = kMagnitude;
  return append(std::move(made), std::move(facts));
}

// Do both operands of a product with small M have scales per block? No kernel has that in batches,
// and a block of 128 has no symbol.
bool RandomParts::draws_scaled(DType dtype, const Labels& labels) {
  const bool possible = llvm::all_of(labels, [](const Label& label) {
    const bool batch = label.left && label.right && label.result;
    const bool row = label.left && !label.right;
    return !batch && (row || !label.size.symbolic);
  });
  return options_.small_m && is_fp8(dtype) && possible && fp8_.chance(40);
}

// A matrix of fp8 with a scale for each row and 128 columns (of the left operand), or for each
// block of 128 x 128.
ValueId RandomParts::scaled(Role role, DType dtype, llvm::ArrayRef<Dim> shape, bool left) {
  constexpr i64 kBlock = 128;
  Value made;
  made.op = Op::kDequant;
  made.block.rows = left ? 1 : kBlock;
  made.block.columns = kBlock;
  made.operands.push_back({operand(role, dtype, shape), ""});
  made.operands.push_back({parameter(role, DType::kF32, scale_shape(shape, made.block)), ""});
  Known facts;
  facts.shape.assign(shape.begin(), shape.end());
  facts.magnitude = 4;
  return append(std::move(made), std::move(facts));
}

// The weight, or a cast of it: a matrix like any other.
ValueId RandomParts::perhaps_rounded(ValueId weight, DType dtype) {
  if (options_.exact_only || options_.small_m || !extra_.chance(30)) return weight;
  return cast(weight, dtype);
}

// Whether a chain with quantised weights has the word.
bool RandomParts::draws_rounded_weights() {
  const bool quantised =
      llvm::any_of(ops_, [](const Value& value) { return value.op == Op::kDequant; });
  return quantised && !options_.exact_only && extra_.chance(30);
}

// Other integers, scales and zeros of the same types.
ValueId RandomParts::dequantised_like(ValueId id) {
  Value made = value(id);
  made.name.clear();
  for (Use& use : made.operands) {
    const Value like = value(use.value);
    use.value = parameter(like.role, like.type.dtype, like.type.shape);
    value(use.value).type = like.type;
  }
  Known facts = known(id);
  facts.used = false;
  return append(std::move(made), std::move(facts));
}

}  // namespace catenary
