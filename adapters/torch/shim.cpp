// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/shim.h"

#include <dlfcn.h>

#include "ir/names.h"

namespace catenary::torch_adapter {
namespace {

Expected<void*> loaded_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) return library;
  return make_error(
      ErrorCode::kInvalidArgument,
      "{} is not loaded in this process: import torch first, and pass the path of its "
      "own library",
      quoted(path));
}

Error missing(const char* name, const std::string& path) {
  return make_error(ErrorCode::kUnsupported,
                    "{} does not export {}: use torch 2.10 or newer, or the operators in Python",
                    quoted(path), name);
}

}  // namespace

Expected<Shim> open_shim(const std::string& libtorch_cpu, const std::string& libtorch_cuda) {
  Expected<void*> cpu = loaded_library(libtorch_cpu);
  if (!cpu) return cpu.takeError();
  void* cuda = nullptr;
  if (!libtorch_cuda.empty()) {
    Expected<void*> found = loaded_library(libtorch_cuda);
    if (!found) return found.takeError();
    cuda = *found;
  }
  Shim shim;
  void* const cpu_handle = *cpu;
  void* const cuda_handle = cuda;
#define CATENARY_TORCH(name, library, result, parameters)                                    \
  if (library##_handle != nullptr) {                                                         \
    shim.name = reinterpret_cast<decltype(shim.name)>(dlsym(library##_handle, #name));       \
    if (shim.name == nullptr) {                                                              \
      return missing(#name, library##_handle == cuda_handle ? libtorch_cuda : libtorch_cpu); \
    }                                                                                        \
  }
#include "adapters/torch/shim.def"
#undef CATENARY_TORCH
  shim.bf16 = shim.aoti_torch_dtype_bfloat16();
  shim.f16 = shim.aoti_torch_dtype_float16();
  shim.f32 = shim.aoti_torch_dtype_float32();
  shim.i32 = shim.aoti_torch_dtype_int32();
  shim.i8 = shim.aoti_torch_dtype_int8();
  shim.u8 = shim.aoti_torch_dtype_uint8();
  shim.e4m3 = shim.aoti_torch_dtype_float8_e4m3fn();
  shim.e5m2 = shim.aoti_torch_dtype_float8_e5m2();
  shim.cpu = shim.aoti_torch_device_type_cpu();
  shim.cuda = shim.aoti_torch_device_type_cuda();
  return shim;
}

int32_t Shim::dtype_code(DType dtype) const {
  switch (dtype) {
    case DType::kBF16:
      return bf16;
    case DType::kF16:
      return f16;
    case DType::kF32:
      return f32;
    case DType::kI32:
      return i32;
    case DType::kI8:
      return i8;
    case DType::kE4M3:
      return e4m3;
    case DType::kE5M2:
      return e5m2;
    case DType::kI4:
    case DType::kU4:
      break;  // 4 bits are bytes
  }
  return -1;
}

bool Shim::find_dtype(int32_t code, DType& dtype) const {
  for (const DType each : {DType::kBF16, DType::kF16, DType::kF32, DType::kI32, DType::kI8,
                           DType::kE4M3, DType::kE5M2}) {
    if (dtype_code(each) != code) continue;
    dtype = each;
    return true;
  }
  return false;
}

Error shim_error(Status status, const char* function) {
  if (status == 0) return Error::success();
  return make_error(ErrorCode::kInternal, "torch's {} failed with {}", function, status);
}

}  // namespace catenary::torch_adapter
