// SPDX-License-Identifier: Apache-2.0
// A form: a chain as an operator of a framework takes it, and the layouts of tensors that it is
// given. Knows no framework, no device and no kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/verify/verify.h"

namespace catenary::torch_adapter {

// What the sizes and strides of a form's parameters say.
enum class LayoutRule : u8 {
  kExact,        // tensors have them; the symbol is read from the tensors
  kFromTensors,  // they are examples: the tensors' own take their place
};

// A tensor argument: of at most kMaxRank dimensions.
struct TensorLayout {
  DType dtype = DType::kF32;
  llvm::SmallVector<i64, 4> sizes;
  llvm::SmallVector<i64, 4> strides;
  i64 align = 16;  // the address is a multiple of this many bytes: a power of 2, at most 16
  bool unsigned_bytes = false;  // the dtype is i8, and the framework's is uint8
};

// How a framework holds a parameter that is packed or has 4 bits: as i8 or uint8 with this layout.
// Empty for other types. Its sizes are those of the chain under either rule: bytes do not tell
// them.
std::optional<TensorLayout> bytes_layout(const TensorType& type);

// Where the size of an output's dimension comes from: a dimension of a parameter.
struct SizeSource {
  int parameter = -1;  // index into Form::tensors; -1: the size is `size`
  int dim = -1;
  i64 size = 1;
  bool fixed = false;  // `size` is that of a parameter of bytes
};

struct FormOutput {
  DType dtype = DType::kF32;
  std::vector<SizeSource> sizes;
  std::vector<int> order;  // dimensions from the outermost in memory to the innermost
  bool leading = false;    // dimension 0 is all leading dimensions of the arguments
  int in_place = -1;       // index into Form::tensors
};

// A tensor parameter that is not a scalar.
struct FormTensor {
  ValueId value = -1;
  int overwritten_by = -1;  // the output in place of it
  // kFromTensors: dimension 0 is the chain's symbol, and takes all leading dimensions that an
  // argument has beyond the declared rank.
  bool leading = false;
};

struct Form {
  VerifiedChain chain;
  LayoutRule rule = LayoutRule::kExact;
  std::string canonical;   // of the chain
  bool allow_pdl = false;  // a call may start before the stream's previous kernel has ended
  i64 key = 0;             // positive: 63 bits of SHA-256 over rule, allow_pdl and canonical text
  std::vector<FormTensor> tensors;
  std::vector<FormOutput> outputs;
  size_t num_scalars = 0;
};

// kUnsupported: with kFromTensors, an output whose size no parameter has.
Expected<Form> make_form(VerifiedChain chain, LayoutRule rule, bool allow_pdl = false);

// The name of tensor `i` of the form: of its parameter.
const std::string& tensor_name(const Form& form, size_t i);

// A chain for arguments of these layouts, and the memory of its outputs.
struct Specialisation {
  VerifiedChain chain;
  i64 symbol = 0;                     // 0: the chain has none
  std::vector<bool> copied;           // arguments that must be copied to contiguous memory
  std::vector<TensorLayout> outputs;  // with the leading dimensions of the arguments
};

// One layout per tensor of the form; those of overwritten parameters too. `symbolic`: with
// kFromTensors and a symbol, leading dimensions stay symbolic, in the range of powers of 2 that the
// size is in. kInvalidArgument: an argument does not fit; the sentence names it. Errors of verify()
// name the labels whose sizes differ.
Expected<Specialisation> specialise(const Form& form, llvm::ArrayRef<TensorLayout> arguments,
                                    bool symbolic);

}  // namespace catenary::torch_adapter
