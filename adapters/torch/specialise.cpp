// SPDX-License-Identifier: Apache-2.0
// A form and the layouts of its arguments -> the chain for these layouts.
#include <bit>

#include "adapters/torch/form.h"
#include "ir/names.h"

namespace catenary::torch_adapter {
namespace {

// The symbol's first range is 1 to this; the others end at powers of two.
constexpr i64 kSmallestRange = 16;

std::string numbers(llvm::ArrayRef<i64> values) {
  return fmt::format("({})", fmt::join(values.begin(), values.end(), ", "));
}

Error wrong_rank(const Form& form, size_t i, size_t got) {
  const TensorType& type = form.chain.info(form.tensors[i].value).type;
  return make_error(ErrorCode::kInvalidArgument,
                    "{} has {} dimensions, and the chain takes {}{}: reshape the tensor",
                    quoted(tensor_name(form, i)), got, type.rank(),
                    form.tensors[i].leading ? " or more" : "");
}

Error wrong_size(const Form& form, size_t i, const TensorLayout& given) {
  const std::string symbol = form.chain.chain().symbol ? form.chain.chain().symbol->name : "";
  return make_error(ErrorCode::kInvalidArgument,
                    "{} has sizes {}, and the chain takes {}: pass a tensor of these sizes, or "
                    "declare the chain for others",
                    quoted(tensor_name(form, i)), numbers(given.sizes),
                    to_string(form.chain.info(form.tensors[i].value).type, symbol));
}

Error wrong_strides(const Form& form, size_t i, const TensorLayout& given,
                    llvm::ArrayRef<i64> wanted) {
  return make_error(
      ErrorCode::kInvalidArgument,
      "{} has strides {}, and the chain takes {}: pass tensor.contiguous(), or declare "
      "the strides in the chain",
      quoted(tensor_name(form, i)), numbers(given.strides), numbers(wanted));
}

std::string dtype_name(const TensorLayout& given) {
  return given.unsigned_bytes ? "uint8" : std::string(dtype_text(given.dtype));
}

// A parameter that is packed or has 4 bits: the argument has its bytes.
Error check_bytes(const Form& form, size_t i, const TensorLayout& given,
                  const TensorLayout& wanted) {
  const TensorType& type = form.chain.info(form.tensors[i].value).type;
  if (given.dtype != DType::kI8 || given.sizes != wanted.sizes) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is {} of sizes {}, and the chain takes {}, {}: pass uint8 of sizes {}{}",
                      quoted(tensor_name(form, i)), dtype_name(given), numbers(given.sizes),
                      dtype_text(type.dtype), type.packed ? "packed" : "two elements a byte",
                      numbers(wanted.sizes), type.packed ? ", as catenary.repack returns it" : "");
  }
  for (size_t d = 0; d < given.sizes.size(); ++d) {
    if (given.sizes[d] > 1 && given.strides[d] != wanted.strides[d]) {
      return wrong_strides(form, i, given, wanted.strides);
    }
  }
  return Error::success();
}

// The dtype of a parameter that is not passed as bytes.
Error check_dtype(const Form& form, size_t i, const TensorLayout& given) {
  const DType wanted = form.chain.info(form.tensors[i].value).type.dtype;
  if (given.dtype == wanted && !given.unsigned_bytes) return Error::success();
  return make_error(
      ErrorCode::kInvalidArgument,
      "{} is {}, and the chain takes {}: convert the tensor, or declare the chain for it",
      quoted(tensor_name(form, i)), dtype_name(given), dtype_text(wanted));
}

Error wrong_symbol(const Form& form, size_t i, i64 got) {
  const Symbol& symbol = *form.chain.chain().symbol;
  return make_error(ErrorCode::kInvalidArgument,
                    "{} gives {} = {}, which must be one number in {}..{} for all tensors",
                    quoted(tensor_name(form, i)), symbol.name, got, symbol.lo, symbol.hi);
}

// kExact: the argument has the type of the parameter, but for strides of dimensions with at most
// one index. Sets the symbol when the first symbolic dimension is met.
Error check_exact(const Form& form, size_t i, const TensorLayout& given, i64& symbol) {
  const TensorType& type = form.chain.info(form.tensors[i].value).type;
  if (const auto bytes = bytes_layout(type)) return check_bytes(form, i, given, *bytes);
  if (Error error = check_dtype(form, i, given)) return error;
  if (given.sizes.size() != static_cast<size_t>(type.rank())) {
    return wrong_rank(form, i, given.sizes.size());
  }
  for (int d = 0; d < type.rank(); ++d) {
    const i64 size = given.sizes[d];
    if (!type.shape[d].symbolic) {
      if (size != type.shape[d].size) return wrong_size(form, i, given);
      continue;
    }
    const Symbol& range = *form.chain.chain().symbol;
    if (symbol < 0) symbol = size;
    if (size != symbol || size < range.lo || size > range.hi) return wrong_symbol(form, i, size);
  }
  for (int d = 0; d < type.rank(); ++d) {
    if (given.sizes[d] > 1 && given.strides[d] != type.strides[d]) {
      return wrong_strides(form, i, given, type.strides);
    }
  }
  return Error::success();
}

// The product of the first `count` sizes.
i64 product(llvm::ArrayRef<i64> sizes, size_t count) {
  i64 result = 1;
  for (size_t d = 0; d < count; ++d) result *= sizes[d];
  return result;
}

// Whether dimensions 0 to `count` - 1 are one dimension in memory; `stride` is then its stride.
bool merges(const TensorLayout& layout, size_t count, i64& stride) {
  stride = 0;
  i64 inner = -1;  // elements that the dimensions so far span
  for (size_t d = count; d-- > 0;) {
    if (layout.sizes[d] == 1) continue;
    if (inner < 0) {
      stride = layout.strides[d];
    } else if (layout.strides[d] != inner) {
      return false;
    }
    inner = layout.strides[d] * layout.sizes[d];
  }
  return true;
}

// Whether rows are contiguous and begin at multiples of 16 bytes.
bool has_vectors(const TensorLayout& layout) {
  if (layout.align < 16) return false;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] <= 1) continue;
    const bool last = d + 1 == layout.sizes.size();
    if (last ? layout.strides[d] != 1 : storage_bytes(layout.dtype, layout.strides[d]) % 16 != 0) {
      return false;
    }
  }
  return true;
}

// Strides of `sizes` without gaps, dimensions from the outermost to the innermost in `order`.
llvm::SmallVector<i64, 4> dense_strides(llvm::ArrayRef<i64> sizes, llvm::ArrayRef<int> order) {
  llvm::SmallVector<i64, 4> strides(sizes.size(), 1);
  i64 next = 1;
  for (size_t o = order.size(); o-- > 0;) {
    strides[order[o]] = next;
    next *= std::max<i64>(sizes[order[o]], 1);
  }
  return strides;
}

// The stride of a dimension with at most one index has no meaning: that of a dense tensor replaces
// it, so that equal chains have one text.
void normalise(TensorType& type) {
  i64 dense = 1;
  for (int d = type.rank(); d-- > 0;) {
    if (!type.shape[d].symbolic && type.shape[d].size <= 1) type.strides[d] = dense;
    dense = std::max<i64>(type.strides[d] * std::max<i64>(type.shape[d].size, 1), dense);
  }
}

class FromTensors {
 public:
  FromTensors(const Form& form, llvm::ArrayRef<TensorLayout> arguments, bool symbolic)
      : form_(form), arguments_(arguments), symbolic_(symbolic), chain_(form.chain.chain()) {}

  Expected<Specialisation> run() {
    for (size_t i = 0; i < arguments_.size(); ++i) packed_ |= declared(i).packed;
    copied_.assign(arguments_.size(), false);
    if (Error error = find_leading()) return error;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (Error error = set_type(i)) return error;
    }
    set_symbol();
    std::vector<TensorLayout> outputs;
    for (size_t i = 0; i < form_.outputs.size(); ++i) outputs.push_back(set_output(i));
    Expected<VerifiedChain> verified = verify(std::move(chain_));
    if (!verified) return verified.takeError();
    if (Error error = check_sizes(*verified)) return error;
    const i64 symbol = symbolic_ ? rows_ : 0;
    return Specialisation{std::move(*verified), symbol, std::move(copied_), std::move(outputs)};
  }

 private:
  const TensorType& declared(size_t i) const {
    return form_.chain.info(form_.tensors[i].value).type;
  }

  // The leading dimensions of the arguments: equal for all that have them.
  Error find_leading() {
    bool known = false;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (bytes_layout(declared(i))) continue;
      const size_t rank = static_cast<size_t>(declared(i).rank());
      const size_t got = arguments_[i].sizes.size();
      if (form_.tensors[i].leading ? got < rank : got != rank) return wrong_rank(form_, i, got);
      if (!form_.tensors[i].leading) continue;
      const llvm::ArrayRef<i64> sizes(arguments_[i].sizes.data(), got - rank + 1);
      if (known && sizes != llvm::ArrayRef<i64>(leading_)) {
        return make_error(
            ErrorCode::kInvalidArgument,
            "{} has the leading sizes {}, and another tensor has {}: pass tensors with "
            "equal leading dimensions",
            quoted(tensor_name(form_, i)), numbers(sizes), numbers(leading_));
      }
      leading_.assign(sizes.begin(), sizes.end());
      known = true;
    }
    rows_ = product(leading_, leading_.size());
    symbolic_ = symbolic_ && known && rows_ > 0;
    return Error::success();
  }

  Error set_type(size_t i) {
    const TensorLayout& given = arguments_[i];
    TensorType& type = chain_.values[form_.tensors[i].value].type;
    if (const auto bytes = bytes_layout(declared(i))) {
      type.align = given.align;
      return check_bytes(form_, i, given, *bytes);
    }
    if (Error error = check_dtype(form_, i, given)) return error;
    const bool leading = form_.tensors[i].leading;
    const size_t merged = leading ? leading_.size() : 0;
    type.align = given.align;
    type.shape.clear();
    type.strides.clear();
    if (leading) {
      i64 stride = 0;
      const bool is_matrix = merges(given, merged, stride);
      const bool overwritten = form_.tensors[i].overwritten_by >= 0;
      // A copy would take the result.
      if (!is_matrix && overwritten) {
        return make_error(ErrorCode::kInvalidArgument,
                          "{} is overwritten, and its leading dimensions, of strides {}, are not "
                          "the rows of one matrix: pass a contiguous tensor",
                          quoted(tensor_name(form_, i)),
                          numbers(llvm::ArrayRef<i64>(given.strides).take_front(merged)));
      }
      copied_[i] = !(is_matrix && (!packed_ || has_vectors(given))) && !overwritten;
      type.shape.push_back({rows_, false});
      type.strides.push_back(stride);
    }
    for (size_t d = merged; d < given.sizes.size(); ++d) {
      type.shape.push_back({given.sizes[d], false});
      type.strides.push_back(given.strides[d]);
    }
    if (copied_[i]) {
      type.strides = contiguous_strides(type.shape);
      type.align = 16;
    }
    normalise(type);
    return Error::success();
  }

  void set_symbol() {
    if (!symbolic_) {
      chain_.symbol.reset();
      return;
    }
    const i64 hi =
        std::max<i64>(static_cast<i64>(std::bit_ceil(static_cast<u64>(rows_))), kSmallestRange);
    chain_.symbol->lo = hi == kSmallestRange ? 1 : hi / 2 + 1;
    chain_.symbol->hi = hi;
    for (const FormTensor& tensor : form_.tensors) {
      if (tensor.leading) chain_.values[tensor.value].type.shape[0] = {hi, true};
    }
  }

  i64 size_of(const SizeSource& source) const {
    if (source.parameter < 0) return source.size;
    const TensorLayout& given = arguments_[source.parameter];
    const FormTensor& tensor = form_.tensors[source.parameter];
    if (!tensor.leading) return given.sizes[source.dim];
    return source.dim == 0 ? rows_ : given.sizes[source.dim + leading_.size() - 1];
  }

  // An operand of size 1 takes the size of another one. Then an output may have another size than
  // the parameter that its size is read from.
  Error check_sizes(const VerifiedChain& chain) const {
    for (size_t i = 0; i < form_.outputs.size(); ++i) {
      const TensorType type = with_symbol(chain.output_type(static_cast<int>(i)), rows_);
      for (size_t d = 0; d < form_.outputs[i].sizes.size(); ++d) {
        const SizeSource& source = form_.outputs[i].sizes[d];
        const i64 size = size_of(source);
        if (type.shape[d].size == size) continue;
        return make_error(ErrorCode::kInvalidArgument,
                          "dimension {} of the result has size {}, and {} in {}: pass tensors of "
                          "equal sizes there",
                          d, type.shape[d].size, size,
                          source.parameter < 0 ? std::string("the chain")
                                               : quoted(tensor_name(form_, source.parameter)));
      }
    }
    return Error::success();
  }

  // Sets the strides in the chain; returns the layout with the arguments' leading dimensions.
  TensorLayout set_output(size_t i) {
    const FormOutput& output = form_.outputs[i];
    if (output.in_place >= 0) return arguments_[output.in_place];
    llvm::SmallVector<i64, 4> sizes;
    for (const SizeSource& source : output.sizes) sizes.push_back(size_of(source));
    TensorLayout result{output.dtype, sizes, dense_strides(sizes, output.order), 16};
    chain_.outputs[i].strides.assign(result.strides.begin(), result.strides.end());
    chain_.outputs[i].align = 16;
    if (!output.leading) return result;
    i64 stride = result.strides[0];
    llvm::SmallVector<i64, 4> strides(leading_.size());
    for (size_t d = leading_.size(); d-- > 0;) {
      strides[d] = stride;
      stride *= std::max<i64>(leading_[d], 1);
    }
    strides.append(result.strides.begin() + 1, result.strides.end());
    llvm::SmallVector<i64, 4> all(leading_.begin(), leading_.end());
    all.append(sizes.begin() + 1, sizes.end());
    return {output.dtype, all, strides, 16};
  }

  const Form& form_;
  llvm::ArrayRef<TensorLayout> arguments_;
  bool symbolic_;
  // Kernels of packed weights read other operands only in vectors of 16 bytes.
  bool packed_ = false;
  Chain chain_;
  std::vector<bool> copied_;
  llvm::SmallVector<i64, 4> leading_;
  i64 rows_ = 0;
};

Expected<Specialisation> exactly(const Form& form, llvm::ArrayRef<TensorLayout> arguments) {
  i64 symbol = -1;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (Error error = check_exact(form, i, arguments[i], symbol)) return error;
  }
  symbol = std::max<i64>(symbol, 0);
  std::vector<TensorLayout> outputs;
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    const TensorType type = with_symbol(form.chain.output_type(static_cast<int>(i)), symbol);
    TensorLayout layout{type.dtype, {}, {}, type.align};
    for (int d = 0; d < type.rank(); ++d) {
      layout.sizes.push_back(type.shape[d].size);
      layout.strides.push_back(type.strides[d]);
    }
    outputs.push_back(std::move(layout));
  }
  return Specialisation{form.chain, symbol, std::vector<bool>(arguments.size(), false),
                        std::move(outputs)};
}

}  // namespace

Expected<Specialisation> specialise(const Form& form, llvm::ArrayRef<TensorLayout> arguments,
                                    bool symbolic) {
  if (arguments.size() != form.tensors.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "chain {} takes {} tensors, got {}: pass one for each parameter that is no "
                      "scalar",
                      quoted(form.chain.chain().name), form.tensors.size(), arguments.size());
  }
  if (form.rule == LayoutRule::kExact) return exactly(form, arguments);
  return FromTensors(form, arguments, symbolic && form.chain.chain().symbol.has_value()).run();
}

}  // namespace catenary::torch_adapter
