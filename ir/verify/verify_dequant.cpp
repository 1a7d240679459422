// SPDX-License-Identifier: Apache-2.0
// Rules of dequant and of what it takes: integers or fp8, their scales and zeros, the packed
// layout.
#include "ir/names.h"
#include "ir/verify/verify_parts.h"

namespace catenary {
namespace {

bool is_integer(DType dtype) { return dtype_info(dtype).kind == DTypeKind::kInteger; }

// Every operand is a tensor parameter: kernels read it from memory, block by block.
Error check_parameters(const VerifyContext& context, const Value& value) {
  for (const Use& use : value.operands) {
    const Value& operand = context.chain.values[use.value];
    if (!use.labels.empty()) {
      return make_error_at(value.at, ErrorCode::kInvalidChain,
                           "operand {} of {} has labels: remove '@', the block says what a scale "
                           "is for",
                           quoted(operand.name), quoted(value.name));
    }
    if (operand.op == Op::kParameter && operand.role != Role::kScalar) continue;
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "operand {} of {} is {}: dequant reads tensors from memory, so declare it "
                         "as a weight or an input",
                         quoted(operand.name), quoted(value.name),
                         operand.op == Op::kParameter ? "a scalar" : "a computed value");
  }
  return Error::success();
}

Error check_dtypes(const VerifyContext& context, const Value& value) {
  const auto fail = [&](size_t i, std::string_view what, std::string_view fix) {
    const ValueId id = value.operands[i].value;
    return make_error_at(value.at, ErrorCode::kInvalidChain, "{} {} of {} is {}: declare it {}",
                         what, quoted(context.name(id)), quoted(value.name),
                         dtype_text(context.info[id].type.dtype), fix);
  };
  const auto dtype = [&](size_t i) { return context.info[value.operands[i].value].type.dtype; };
  if (is_fp8(dtype(0))) {
    if (dtype(1) != DType::kF32) return fail(1, "scale", "f32, as scales of fp8 are");
    if (value.operands.size() == 2) return Error::success();
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} has zeros, and {} is {}: leave them out, only integers have them",
                         quoted(value.name), quoted(context.name(value.operands[0].value)),
                         dtype_text(dtype(0)));
  }
  if (!is_integer(dtype(0))) return fail(0, "weight", "i8, i4, u4, e4m3 or e5m2");
  if (dtype_info(dtype(1)).kind != DTypeKind::kFloat || is_fp8(dtype(1)))
    return fail(1, "scale", "bf16, f16 or f32");
  if (value.operands.size() > 2 && !is_integer(dtype(2))) return fail(2, "zero", "i8, i4 or u4");
  return Error::success();
}

// The shape of scales and zeros: that of q, with the last two sizes divided by the block's.
Error check_blocks(const VerifyContext& context, const Value& value) {
  const TensorType& q = context.info[value.operands[0].value].type;
  const int rank = q.rank();
  llvm::SmallVector<Dim, 4> wanted = q.shape;
  wanted[rank - 2].size = ceil_div(wanted[rank - 2].size, value.block.rows);
  wanted[rank - 1].size = ceil_div(wanted[rank - 1].size, value.block.columns);
  for (const Use& use : llvm::drop_begin(value.operands)) {
    const TensorType& given = context.info[use.value].type;
    if (llvm::makeArrayRef(given.shape) == llvm::makeArrayRef(wanted) && !given.packed) continue;
    TensorType shape = given;
    shape.shape = wanted;
    shape.strides.clear();
    shape.align = 16;
    shape.packed = false;
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} of {} is {}, and blocks of {} x {} of {} need {}: give one number for "
                         "each block",
                         quoted(context.name(use.value)), quoted(value.name), to_string(given),
                         value.block.rows, value.block.columns,
                         quoted(context.name(value.operands[0].value)), to_string(shape));
  }
  return Error::success();
}

// Symbols are for rows of fp8 that do not share scales.
bool has_symbol_in_blocks(const TensorType& q, const ScaleBlock& block) {
  const int rank = q.rank();
  for (int d = 0; d < rank; ++d) {
    if (!q.shape[d].symbolic) continue;
    const bool row = d + 2 == rank && block.rows == 1;
    if (!is_fp8(q.dtype) || !row) return true;
  }
  return false;
}

}  // namespace

Error check_packed(const TensorType& type, std::string_view who, Location at) {
  if (!is_integer(type.dtype)) {
    return make_error_at(at, ErrorCode::kInvalidChain,
                         "{} is packed and {}: only i8, i4 and u4 have that layout, so remove "
                         "'packed'",
                         who, dtype_text(type.dtype));
  }
  if (type.rank() < 2 || llvm::any_of(type.shape, [](const Dim& d) { return d.symbolic; })) {
    return make_error_at(at, ErrorCode::kInvalidChain,
                         "{} is packed and {}: a packed tensor is a matrix of exact size, or "
                         "several",
                         who, type.rank() < 2 ? "has fewer than two dimensions" : "has a symbol");
  }
  if (!type.strides.empty() && type.strides != contiguous_strides(type.shape)) {
    return make_error_at(at, ErrorCode::kInvalidChain,
                         "{} is packed and has strides: leave them out, the layout says where its "
                         "elements are",
                         who);
  }
  if (span_bytes(type) > kMaxTensorBytes) {
    return make_error_at(at, ErrorCode::kResourceLimit,
                         "{} has more than 2^46 bytes with the padding of the packed layout: make "
                         "its sizes smaller",
                         who);
  }
  return Error::success();
}

Error check_nibbles(const TensorType& type, std::string_view who, Location at) {
  if (dtype_info(type.dtype).bits >= 8 || type.packed || type.rank() == 0) return Error::success();
  for (int i = 0; i < type.rank(); ++i) {
    const bool last = i + 1 == type.rank();
    const i64 stride = type.strides[i];
    if (last ? stride == 1 : stride % 2 == 0) continue;
    return make_error_at(at, ErrorCode::kInvalidChain,
                         "dimension {} of {} has stride {} and two elements share a byte: {}", i,
                         who, stride,
                         last ? "the last dimension has stride 1"
                              : "rows begin with a byte, so make the stride even");
  }
  return Error::success();
}

bool has_rounded_form(const Chain& chain, const Value& dequant) {
  return is_integer(chain.values[dequant.operands[0].value].type.dtype);
}

Error check_dequant_user(const Chain& chain, const Value& value, const Value& dequant) {
  const bool rounds = value.op == Op::kCast &&
                      (value.type.dtype == DType::kBF16 || value.type.dtype == DType::kF16);
  if (!has_rounded_form(chain, dequant)) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} uses {}, which is dequantised from fp8: only a contraction takes it, "
                         "so multiply by it with contract",
                         quoted(value.name), quoted(dequant.name));
  }
  if (rounds) return Error::success();
  return make_error_at(value.at, ErrorCode::kInvalidChain,
                       "{} uses {}, a dequantised weight: only a contraction or a cast to bf16 or "
                       "f16 takes it, so multiply by it with contract, or use a cast of it",
                       quoted(value.name), quoted(dequant.name));
}

Expected<ValueInfo> check_dequant(const VerifyContext& context, const Value& value) {
  if (Error e = check_parameters(context, value)) return e;
  if (Error e = check_dtypes(context, value)) return e;
  const TensorType& q = context.info[value.operands[0].value].type;
  if (q.rank() < 2 || has_symbol_in_blocks(q, value.block)) {
    return make_error_at(
        value.at, ErrorCode::kInvalidChain,
        "{} {} of {} is {}: dequant takes a matrix {}, or several",
        is_fp8(q.dtype) ? "operand" : "weight", quoted(context.name(value.operands[0].value)),
        quoted(value.name), to_string(q),
        is_fp8(q.dtype) ? "whose number of rows may be a symbol where each has scales of its own"
                        : "of exact size");
  }
  if (value.block.rows < 1 || value.block.columns < 1 || value.block.rows > kMaxDimSize ||
      value.block.columns > kMaxDimSize) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} has blocks of {} x {}: a block has 1 to 2^40 rows and columns",
                         quoted(value.name), value.block.rows, value.block.columns);
  }
  if (Error e = check_blocks(context, value)) return e;
  return computed_info(context, value, q.shape, "");
}

}  // namespace catenary
