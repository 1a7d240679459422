// SPDX-License-Identifier: Apache-2.0
// torch's C shim: functions that libtorch_cpu.so and libtorch_cuda.so export as C, found in the
// libraries that the process has loaded. Their prototypes are declared here, so that the build
// needs no torch; a test of the Python package compares them with torch's headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ir/error.h"
#include "ir/types.h"

namespace catenary::torch_adapter {

using Status = int32_t;
using Boxed = uint64_t;  // StableIValue: an argument or a result of an operator
struct TensorObject;
struct ListObject;
struct LibraryObject;
using TensorHandle = TensorObject*;
using ListHandle = ListObject*;
using LibraryHandle = LibraryObject*;
// Takes the arguments from `stack`, which owns them, and writes the results from stack[0] on.
using BoxedKernel = void (*)(Boxed* stack, uint64_t num_arguments, uint64_t num_results);

// The version of torch whose conventions the boxed kernels keep: 2.10, as torch encodes it.
inline constexpr uint64_t kShimVersion = (uint64_t{2} << 56) | (uint64_t{10} << 48);

// One member per row of shim.def. Those of libtorch_cuda.so are null without CUDA.
struct Shim {
#define CATENARY_TORCH(name, library, result, parameters) result(*name) parameters = nullptr;
#include "adapters/torch/shim.def"
#undef CATENARY_TORCH

  int32_t dtype_code(DType dtype) const;
  // False: a dtype that no chain has, nor the bytes of a quantised weight (u8).
  bool find_dtype(int32_t code, DType& dtype) const;

  // Filled by open_shim() from the functions of these names.
  int32_t bf16 = 0, f16 = 0, f32 = 0, i32 = 0, i8 = 0, u8 = 0, e4m3 = 0, e5m2 = 0, cpu = 0,
          cuda = 0;
};

// Finds the functions in libraries that the process has already loaded; `libtorch_cuda` may be
// empty. kInvalidArgument: a library is not loaded. kUnsupported: it lacks a function, as torch
// before 2.10 does.
Expected<Shim> open_shim(const std::string& libtorch_cpu, const std::string& libtorch_cuda);

// kInternal with the function's name, if `status` is not success.
Error shim_error(Status status, const char* function);

}  // namespace catenary::torch_adapter
