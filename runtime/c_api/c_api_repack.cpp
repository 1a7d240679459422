// SPDX-License-Identifier: Apache-2.0
// C ABI: repack.h.
#include "ir/repack.h"

#include "runtime/c_api/c_api.h"

namespace catenary::c_api {
namespace {

static_assert(static_cast<int>(WeightFormat::kPlain) == CTN_WEIGHT_PLAIN);
static_assert(static_cast<int>(WeightFormat::kCompressedTensors) == CTN_WEIGHT_COMPRESSED_TENSORS);
static_assert(static_cast<int>(WeightFormat::kGptq) == CTN_WEIGHT_GPTQ);
static_assert(static_cast<int>(WeightFormat::kGptqV2) == CTN_WEIGHT_GPTQ_V2);
static_assert(static_cast<int>(WeightFormat::kAwq) == CTN_WEIGHT_AWQ);

Expected<DType> read_integer(ctn_dtype dtype) {
  if (dtype >= CTN_I8 && dtype <= CTN_U4) return static_cast<DType>(dtype);
  return make_error(ErrorCode::kInvalidArgument, "dtype is {}: use CTN_I8, CTN_I4 or CTN_U4",
                    dtype);
}

Expected<RepackSource> read_source(const ctn_repack_args& args) {
  if (args.format < CTN_WEIGHT_PLAIN || args.format > CTN_WEIGHT_AWQ) {
    return make_error(ErrorCode::kInvalidArgument, "format is {}: use a value of ctn_weight_format",
                      args.format);
  }
  Expected<DType> dtype = read_integer(args.dtype);
  if (!dtype) return dtype.takeError();
  return RepackSource{static_cast<WeightFormat>(args.format), *dtype, args.rows, args.columns};
}

llvm::ArrayRef<u8> bytes(const void* data, size_t size) {
  return {static_cast<const u8*>(data), size};
}

llvm::MutableArrayRef<u8> writable(void* data, size_t size) {
  return {static_cast<u8*>(data), size};
}

}  // namespace
}  // namespace catenary::c_api

using namespace catenary;
using namespace catenary::c_api;

ctn_status ctn_packed_bytes(ctn_dtype dtype, int64_t rows, int64_t columns, int64_t* result) {
  return guarded([&]() -> Error {
    if (Error error = require(result, "bytes")) return error;
    Expected<DType> known = read_integer(dtype);
    if (!known) return known.takeError();
    Expected<i64> bytes = packed_bytes({WeightFormat::kPlain, *known, rows, columns});
    if (!bytes) return bytes.takeError();
    *result = *bytes;
    return Error::success();
  });
}

ctn_status ctn_repack(const ctn_repack_args* args) {
  return guarded([&]() -> Error {
    ctn_repack_args given{};
    if (Error error = read_struct(args, "args", given)) return error;
    Expected<RepackSource> source = read_source(given);
    if (!source) return source.takeError();
    if (given.weight == nullptr && given.groups == 0) return require(given.weight, "args->weight");
    if (given.weight != nullptr) {
      if (Error error = require(given.packed, "args->packed")) return error;
    }
    if (given.groups != 0) {
      if (Error error = require(given.zeros, "args->zeros")) return error;
      if (Error error = require(given.packed_zeros, "args->packed_zeros")) return error;
    }
    const auto zeros = bytes(given.zeros, given.zeros_bytes);
    const auto packed_zeros = writable(given.packed_zeros, given.packed_zeros_bytes);
    if (given.weight != nullptr) {
      if (Error error = check_repack(*source, static_cast<i64>(given.weight_bytes),
                                     static_cast<i64>(given.packed_bytes))) {
        return error;
      }
    }
    if (given.groups != 0) {
      if (Error error = repack_zeros(*source, given.groups, zeros, packed_zeros)) return error;
    }
    if (given.weight == nullptr) return Error::success();
    return repack(*source, bytes(given.weight, given.weight_bytes),
                  writable(given.packed, given.packed_bytes));
  });
}
