// SPDX-License-Identifier: Apache-2.0
// A chain: SSA values in order, and its outputs. Any client may build one (text.h, the C ABI, Chain
// itself); verify() decides whether it is valid.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/chain_words.h"
#include "ir/error.h"
#include "ir/ops.h"
#include "ir/types.h"

namespace catenary {

using ValueId = int;

// A use of a value. `labels`, when given, name the used value's dimensions ("m" in `s @ "m"`), one
// letter each, so that an elementwise op can broadcast by label instead of by trailing dimension.
struct Use {
  ValueId value = -1;
  std::string labels;
  bool operator==(const Use&) const = default;
};

// A label that ends in device memory divide into groups (mixture of experts). "mk,enk->mn" with
// label m, group e: rows ends[e-1] to ends[e] - 1 of m use weight e.
struct RaggedLabel {
  // Partitioned: an M label of a contraction (M-grouped) or a K label of it (K-grouped,
  // "mn,mk->enk"), a label that a sum adds per group ("mn->en"), or one of an elementwise value.
  char label = 0;
  char group = 0;     // the expert label
  ValueId ends = -1;  // i32[groups] parameter
  bool operator==(const RaggedLabel&) const = default;
};

// The elements of a weight that share a scale: rows x columns of its last two dimensions.
struct ScaleBlock {
  i64 rows = 1;
  i64 columns = 1;
  bool operator==(const ScaleBlock&) const = default;
};

// One SSA value. Fields that its op does not use keep their defaults.
struct Value {
  std::string name;
  Op op = Op::kParameter;
  llvm::SmallVector<Use, 2> operands;
  double attributes[2] = {0, 0};  // in the order of op_info(op).attributes
  Role role = Role::kInput;       // kParameter
  TensorType type;                // kParameter: declared. kCast: only dtype counts.
  std::string equation;           // kContract "mk,nk->mn"; a reduction "mn->n"
  bool true_f32 = false;          // kContract on f32 operands: f32 instead of tf32 multiplications
  bool fast_accum = false;        // kContract on fp8: sums stay in the tensor cores' precision
  std::optional<RaggedLabel> ragged;  // kContract, kSum, elementwise ops, kCast
  ScaleBlock block;                   // kDequant
  Location at;

  // Compares the meaning: positions in the text are ignored.
  bool operator==(const Value& other) const;
};

// One returned tensor. Its shape is the value's; strides and align are the caller's choice.
struct Output {
  ValueId value = -1;
  DType dtype = DType::kF32;
  llvm::SmallVector<i64, 4> strides;  // empty: contiguous
  i64 align = 16;
  // The input whose memory the output takes, with its layout; -1: memory of its own.
  ValueId in_place = -1;
  Location at;
  bool operator==(const Output& other) const;
};

// The chain's symbolic size, lo <= symbol <= hi.
struct Symbol {
  std::string name;
  i64 lo = 0;
  i64 hi = 0;
  bool operator==(const Symbol&) const = default;
};

struct Chain {
  std::string name;
  std::optional<Symbol> symbol;
  ChainWords words;
  std::vector<Value> values;  // parameters first, then ops in order
  std::vector<Output> outputs;

  bool operator==(const Chain&) const = default;

  // Convenience for clients that build in code. Each returns the new value's id and checks nothing:
  // verify() does. An empty name becomes "t<id>".
  ValueId parameter(Role role, std::string name, TensorType type);
  ValueId constant(double value, std::string name = "");
  ValueId contract(std::string equation, ValueId left, ValueId right, std::string name = "");
  ValueId elementwise(Op op, llvm::ArrayRef<Use> operands, llvm::ArrayRef<double> attributes = {},
                      std::string name = "");
  // `op`: a reduction of ops.def.
  ValueId reduce(Op op, std::string equation, ValueId operand, std::string name = "");
  ValueId sum(std::string equation, ValueId operand, std::string name = "");
  // operands: q, scale and perhaps zero.
  ValueId dequant(llvm::ArrayRef<ValueId> operands, ScaleBlock block, std::string name = "");
  ValueId cast(ValueId operand, DType dtype, std::string name = "");
  void returns(ValueId value, DType dtype);

  ValueId append(Value value);
};

}  // namespace catenary
