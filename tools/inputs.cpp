// SPDX-License-Identifier: Apache-2.0
#include "tools/inputs.h"

#include <unistd.h>

#include <charconv>
#include <cstring>

#include "ir/names.h"
#include "ir/npy.h"
#include "ir/reference/reference_program.h"
#include "tools/files.h"
#include "tools/progress.h"

namespace catenary::tools {
namespace {

Expected<ValueId> find_parameter(const VerifiedChain& chain, const std::string& name) {
  std::vector<std::string_view> names;
  for (ValueId id : chain.parameters()) {
    if (chain.value(id).name == name) return id;
    names.push_back(chain.value(id).name);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "--input names {}, which is not a parameter of chain '{}'{}: name one of {}",
                    quoted(name), chain.chain().name, suggestion(name, names),
                    fmt::join(names, ", "));
}

// Nothing: `text` is not a number. "inf" and "nan" are numbers that a user asks for.
Expected<std::optional<float>> number(std::string_view text, const std::string& name) {
  float value = 0;
  const std::string_view digits = text.substr(text.starts_with('+') ? 1 : 0);
  if (digits.size() < text.size() && digits.starts_with('-')) return std::optional<float>();
  const char* const last = digits.data() + digits.size();
  const auto [end, code] = std::from_chars(digits.data(), last, value);
  if (code == std::errc::result_out_of_range && end == last) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--input {} is {}, which is outside the range of float32: give a number from "
                      "1.2e-38 to 3.4e38 in magnitude, or 0",
                      name, quoted(text));
  }
  if (code != std::errc() || end != last) return std::optional<float>();
  return value;
}

// Copies contiguous elements to the layout of `type`.
std::vector<std::byte> laid_out(const TensorType& type, const std::vector<std::byte>& contiguous) {
  const i64 element = dtype_bytes(type.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(span_elements(type) * element));
  llvm::SmallVector<i64, 4> at(type.rank(), 0);
  const i64 count = num_elements(type);
  for (i64 i = 0; i < count; ++i) {
    i64 offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * type.strides[d];
    std::memcpy(bytes.data() + offset * element, contiguous.data() + i * element,
                static_cast<size_t>(element));
    advance(type.shape, at);
  }
  return bytes;
}

// The elements of an array, each rounded once to `dtype`.
NpyArray rounded(const NpyArray& array, DType dtype) {
  NpyArray result;
  result.type = array.type;
  result.type.dtype = dtype;
  const i64 count = num_elements(array.type);
  result.bytes.resize(static_cast<size_t>(count * dtype_bytes(dtype)));
  for (i64 i = 0; i < count; ++i) {
    store_element(dtype, result.bytes.data(), i, npy_element(array, i));
  }
  return result;
}

// The elements of an array of int64 as `dtype`, i8 or i32, which must have them all.
Expected<NpyArray> narrowed(const NpyArray& array, DType dtype, const std::string& path) {
  const i64 limit = i64{1} << (8 * dtype_bytes(dtype) - 1);
  const i64 count = num_elements(array.type);
  for (i64 i = 0; i < count; ++i) {
    const i64 value = wide_integer(array, i);
    if (value >= -limit && value < limit) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "{} has {} as element {}, outside the range of {}: give integers from {} to "
                      "{}",
                      quoted(path), value, i, dtype_text(dtype), -limit, limit - 1);
  }
  return rounded(array, dtype);
}

// Integers as they are in memory: packed, or two of 4 bits a byte. An array of several dimensions
// for i8 has the parameter's.
Expected<std::vector<std::byte>> read_bytes(const VerifiedChain& chain, ValueId id,
                                            const TensorType& type, std::string_view path,
                                            NpyArray& array) {
  const i64 bytes = span_bytes(type);
  const bool plain = type.dtype == DType::kI8 && !type.packed && array.type.rank() > 1;
  if (plain && array.type.shape != type.shape) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} has {}, and parameter '{}' is {}: save an array of that shape, or the "
                      "memory as one of uint8 with one dimension",
                      quoted(path), to_string(array), chain.value(id).name, to_string(type));
  }
  if (static_cast<i64>(array.bytes.size()) == bytes) return std::move(array.bytes);
  return make_error(
      ErrorCode::kInvalidArgument,
      "{} has {} bytes, and parameter '{}', {}, takes {}: save its memory as an array "
      "of uint8",
      quoted(path), array.bytes.size(), chain.value(id).name, to_string(type), bytes);
}

Expected<std::vector<std::byte>> read_tensor(const VerifiedChain& chain, ValueId id, i64 symbol,
                                             std::string path) {
  Expected<bool> round = take_conversion(path, "round", "--input");
  if (!round) return round.takeError();
  Expected<NpyArray> array = read_npy(path);
  if (!array) return array.takeError();
  const TensorType type = with_symbol(chain.info(id).type, symbol);
  const auto is_float = [](DType d) { return dtype_info(d).kind == DTypeKind::kFloat; };
  if (dtype_info(type.dtype).kind == DTypeKind::kInteger && array->type.dtype == DType::kI8)
    return read_bytes(chain, id, type, path, *array);
  if (is_fp8(type.dtype) && array->type.dtype == DType::kI8)
    array->type.dtype = type.dtype;  // bits
  const bool floats = is_float(array->type.dtype) && is_float(type.dtype);
  const bool same_shape = array->type.shape == type.shape;
  const bool integers = array->wide && array->type.dtype == DType::kI32 &&
                        (type.dtype == DType::kI32 || type.dtype == DType::kI8) && !type.packed;
  if (*round && floats && same_shape) *array = rounded(*array, type.dtype);
  if (integers && same_shape) {
    if (Error error = narrowed(*array, type.dtype, path).moveInto(*array)) return error;
  }
  if (array->wide || array->type.dtype != type.dtype || !same_shape) {
    TensorType contiguous = type;
    contiguous.strides.clear();
    contiguous.align = 16;
    return make_error(
        ErrorCode::kInvalidArgument,
        "{} has {}, and parameter '{}' is {}: save an array of that dtype and shape{}",
        quoted(path), to_string(*array), chain.value(id).name, to_string(contiguous),
        floats && same_shape ? ", or add :round to the file's name to round its elements" : "");
  }
  return laid_out(type, array->bytes);
}

void split_evenly(const TensorType& type, i64 rows, std::byte* data) {
  const i64 groups = num_elements(type);
  for (i64 g = 0; g < groups; ++g) {
    const auto end =
        static_cast<double>(rows / groups * (g + 1) + rows % groups * (g + 1) / groups);
    store_element(type.dtype, data, g * type.strides[0], end);
  }
}

Error check_memory(const VerifiedChain& chain, i64 symbol) {
  i64 bytes = 0;
  for (ValueId id : chain.parameters()) {
    const TensorType type = with_symbol(chain.info(id).type, symbol);
    bytes += span_bytes(type);
  }
  for (size_t i = 0; i < chain.chain().outputs.size(); ++i) {
    const TensorType type = with_symbol(chain.output_type(static_cast<int>(i)), symbol);
    bytes += span_bytes(type);
  }
  const i64 memory = i64{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  if (bytes <= memory) return Error::success();
  return make_error(
      ErrorCode::kOutOfMemory,
      "the tensors of chain '{}' need {}, and this machine has {} of memory: make them "
      "smaller",
      chain.chain().name, bytes_text(bytes), bytes_text(memory));
}

// The symbolic size that an array has where it is bound to parameter `id`; nothing: it has none, or
// other dimensions. What cannot be read is told apart later.
std::optional<i64> symbolic_size(const VerifiedChain& chain, ValueId id, std::string path) {
  const TensorType& type = chain.info(id).type;
  const auto* symbolic = llvm::find_if(type.shape, [](const Dim& dim) { return dim.symbolic; });
  if (symbolic == type.shape.end() || llvm::StringRef(path).find(".npy") == llvm::StringRef::npos)
    return std::nullopt;
  Expected<bool> round = take_conversion(path, "round", "--input");
  if (!round) {
    llvm::consumeError(round.takeError());
    return std::nullopt;
  }
  Expected<NpyArray> array = read_npy(path);
  if (!array) {
    llvm::consumeError(array.takeError());
    return std::nullopt;
  }
  if (array->type.rank() != type.rank()) return std::nullopt;
  return array->type.shape[symbolic - type.shape.begin()].size;
}

Expected<i64> symbol_of_files(const VerifiedChain& chain,
                              const std::vector<std::string>& bindings) {
  const Symbol& symbol = *chain.chain().symbol;
  for (const std::string& text : bindings) {
    const auto [name, path] = llvm::StringRef(text).split('=');
    for (ValueId id : chain.parameters()) {
      if (chain.value(id).name != name) continue;
      const auto size = symbolic_size(chain, id, path.str());
      if (!size) continue;
      if (*size >= symbol.lo && *size <= symbol.hi) return *size;
      return make_error(ErrorCode::kInvalidArgument,
                        "{} has {} where parameter '{}' has {}, which chain '{}' has in {}..{}: "
                        "save an array with a size in that range",
                        quoted(path.str()), *size, chain.value(id).name, symbol.name,
                        chain.chain().name, symbol.lo, symbol.hi);
    }
  }
  return symbol.hi;
}

}  // namespace

Expected<bool> take_conversion(std::string& path, std::string_view conversion,
                               std::string_view option) {
  constexpr std::string_view kEnd = ".npy:";
  const size_t at = path.rfind(kEnd);
  if (at == std::string::npos) return false;
  const std::string word = path.substr(at + kEnd.size());
  if (!is_identifier(word)) return false;  // the ".npy:" is of a folder
  if (word != conversion) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} {} asks for the conversion {}: give :{} or none", option, quoted(path),
                      quoted(word), conversion);
  }
  path.resize(path.size() - word.size() - 1);
  return true;
}

Expected<std::pair<std::string, std::string>> split_binding(const std::string& text,
                                                            const std::string& option) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} {} is not of the form name=file: name the tensor and the .npy file",
                      option, quoted(text));
  }
  return std::make_pair(text.substr(0, equals), text.substr(equals + 1));
}

Expected<i64> choose_symbol(const VerifiedChain& chain, i64 wanted,
                            const std::vector<std::string>& bindings) {
  const auto& symbol = chain.chain().symbol;
  if (!symbol) {
    if (wanted < 0) return 0;
    return make_error(ErrorCode::kInvalidArgument,
                      "--symbol is {}, but chain '{}' has no symbolic size: leave it out", wanted,
                      chain.chain().name);
  }
  if (wanted < 0) return symbol_of_files(chain, bindings);
  if (wanted >= symbol->lo && wanted <= symbol->hi) return wanted;
  return make_error(ErrorCode::kInvalidArgument,
                    "--symbol is {}, but {} of chain '{}' is in {}..{}: give a size in that range",
                    wanted, symbol->name, chain.chain().name, symbol->lo, symbol->hi);
}

Expected<GivenInputs> read_inputs(const VerifiedChain& chain, i64 symbol,
                                  const std::vector<std::string>& bindings) {
  if (Error error = check_memory(chain, symbol)) return error;
  GivenInputs given;
  for (const std::string& text : bindings) {
    auto binding = split_binding(text, "--input");
    if (!binding) return binding.takeError();
    Expected<ValueId> id = find_parameter(chain, binding->first);
    if (!id) return id.takeError();
    if (given.count(*id)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "--input names parameter '{}' twice: give one file for it", binding->first);
    }
    const bool scalar = chain.value(*id).role == Role::kScalar;
    Expected<std::optional<float>> value =
        scalar ? number(binding->second, binding->first) : std::optional<float>();
    if (!value) return value.takeError();
    if (*value) {
      std::vector<std::byte> bytes(sizeof(float));
      std::memcpy(bytes.data(), &**value, sizeof(float));
      given[*id] = std::move(bytes);
      continue;
    }
    if (scalar && binding->second.find(".npy") == std::string::npos) {
      return make_error(ErrorCode::kInvalidArgument,
                        "--input {} is {}, and parameter '{}' is a scalar: give a number or an "
                        ".npy file",
                        binding->first, quoted(binding->second), binding->first);
    }
    auto bytes = read_tensor(chain, *id, symbol, binding->second);
    if (!bytes) return bytes.takeError();
    given[*id] = std::move(*bytes);
  }
  return given;
}

ChainData make_inputs(const VerifiedChain& chain, i64 symbol, GivenInputs given, FillKind kind,
                      u64 seed) {
  const Progress progress("filling the inputs");
  ChainData data = fill_chain(chain, symbol, kind, seed);
  for (size_t p = 0; p < chain.parameters().size(); ++p) {
    const ValueId id = chain.parameters()[p];
    HostTensor& tensor = data.inputs.parameters[p];
    if (const auto found = given.find(id); found != given.end()) {
      data.buffers[p] = std::move(found->second);
      tensor.data = data.buffers[p].data();
    } else if (const auto rows = ragged_size(chain, id, symbol)) {
      split_evenly(tensor.type, *rows, data.buffers[p].data());
    }
  }
  return data;
}

}  // namespace catenary::tools
