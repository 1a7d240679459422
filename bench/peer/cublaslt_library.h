// SPDX-License-Identifier: Apache-2.0
// cuBLASLt as a shared library: where it is looked for, and the part of its C API that the
// benchmark calls. It is declared here so that building needs no CUDA header; cublaslt_abi_test
// compares it with cublasLt.h if there is one. Knows no chain.
#pragma once

#include <string>
#include <vector>

#include "ir/error.h"

namespace catenary::bench {

struct LtContextObject;
struct LtMatmulDescObject;
struct LtLayoutObject;
struct LtPreferenceObject;
using LtHandle = LtContextObject*;
using LtMatmulDesc = LtMatmulDescObject*;
using LtLayout = LtLayoutObject*;
using LtPreference = LtPreferenceObject*;
using LtStream = void*;  // cudaStream_t, which is CUstream

// cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t.
struct LtAlgorithm {
  u64 data[8];
};
struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  int state;  // a status
  float waves;
  int reserved[4];
};

// cublasStatus_t, cudaDataType_t, cublasComputeType_t, cublasOperation_t, cublasLtEpilogue_t and
// the attribute enums: the values in use.
inline constexpr int kLtSuccess = 0;
inline constexpr int kLtNotSupported = 15;
inline constexpr int kLtR32F = 0;
inline constexpr int kLtR16F = 2;
inline constexpr int kLtR16BF = 14;
inline constexpr int kLtR8FE4M3 = 28;
inline constexpr int kLtR8FE5M2 = 29;
inline constexpr int kLtCompute32F = 68;
inline constexpr int kLtCompute32FFastTF32 = 77;
inline constexpr int kLtOpN = 0;
inline constexpr int kLtOpT = 1;
inline constexpr int kLtEpilogueDefault = 1;
inline constexpr int kLtEpilogueBias = 4;
inline constexpr int kLtEpilogueReluBias = 6;
inline constexpr int kLtEpilogueGeluBias = 36;
inline constexpr int kLtDescTransA = 3;
inline constexpr int kLtDescTransB = 4;
inline constexpr int kLtDescEpilogue = 7;
inline constexpr int kLtDescBiasPointer = 8;
inline constexpr int kLtDescAScalePointer = 17;
inline constexpr int kLtDescBScalePointer = 18;
inline constexpr int kLtDescFastAccum = 25;
inline constexpr int kLtDescBiasDataType = 26;
inline constexpr int kLtDescAScaleMode = 31;
inline constexpr int kLtDescBScaleMode = 32;
inline constexpr int kLtScaleOuterVec32F = 3;
inline constexpr int kLtScaleVec128 = 4;    // 1 x 128, in f32
inline constexpr int kLtScaleBlock128 = 5;  // 128 x 128, in f32
inline constexpr int kLtLayoutBatchCount = 5;
inline constexpr int kLtLayoutBatchStride = 6;
inline constexpr int kLtPreferenceWorkspaceBytes = 1;

// Every function but the last three returns a status.
struct LtFunctions {
  int (*create)(LtHandle* handle);
  int (*destroy)(LtHandle handle);
  int (*desc_create)(LtMatmulDesc* desc, int compute_type, int scale_type);
  int (*desc_destroy)(LtMatmulDesc desc);
  int (*desc_set)(LtMatmulDesc desc, int attribute, const void* value, size_t bytes);
  int (*layout_create)(LtLayout* layout, int type, u64 rows, u64 columns, i64 leading);
  int (*layout_destroy)(LtLayout layout);
  int (*layout_set)(LtLayout layout, int attribute, const void* value, size_t bytes);
  int (*preference_create)(LtPreference* preference);
  int (*preference_destroy)(LtPreference preference);
  int (*preference_set)(LtPreference preference, int attribute, const void* value, size_t bytes);
  int (*heuristic)(LtHandle handle, LtMatmulDesc desc, LtLayout a, LtLayout b, LtLayout c,
                   LtLayout d, LtPreference preference, int requested, LtHeuristic* results,
                   int* returned);
  int (*matmul)(LtHandle handle, LtMatmulDesc desc, const void* alpha, const void* a,
                LtLayout a_layout, const void* b, LtLayout b_layout, const void* beta,
                const void* c, LtLayout c_layout, void* d, LtLayout d_layout,
                const LtAlgorithm* algorithm, void* workspace, size_t workspace_bytes,
                LtStream stream);
  size_t (*version)();
  const char* (*status_name)(int status);
  const char* (*status_string)(int status);
};

// It stays mapped until the process ends.
struct LtLibrary {
  LtFunctions api{};
  std::string path;
};

// Where the library is looked for, in order: only CATENARY_CUBLASLT (a file or a folder) if that is
// set; else the places of NVRTC, with the wheel's nvidia/cublas/lib, and the loader's path.
std::vector<std::string> cublaslt_search_places();

// Opens the first cuBLASLt 12 or 13. kUnsupported lists the places.
Expected<LtLibrary> open_cublaslt();

}  // namespace catenary::bench
