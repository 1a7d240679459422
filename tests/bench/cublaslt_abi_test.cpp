// SPDX-License-Identifier: Apache-2.0
// The hand-declared part of cuBLASLt against the vendor's headers, where they are installed; and
// what of the library works without a GPU.
#include <doctest/doctest.h>

#include <cstddef>

#include "bench/peer/cublaslt.h"
#include "tests/support/temp_dir.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
namespace {
using namespace catenary::bench;

static_assert(sizeof(LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(LtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(LtHeuristic, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(LtHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(LtHeuristic, waves) ==
              offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
static_assert(sizeof(LtStream) == sizeof(cudaStream_t));
static_assert(sizeof(int) == sizeof(cudaDataType_t) && sizeof(int) == sizeof(cublasComputeType_t) &&
              sizeof(int) == sizeof(cublasStatus_t) && sizeof(int) == sizeof(cublasOperation_t) &&
              sizeof(unsigned) == sizeof(cublasLtEpilogue_t));

static_assert(kLtSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(kLtNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kLtR32F == CUDA_R_32F);
static_assert(kLtR16F == CUDA_R_16F);
static_assert(kLtR16BF == CUDA_R_16BF);
static_assert(kLtCompute32F == CUBLAS_COMPUTE_32F);
static_assert(kLtCompute32FFastTF32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kLtOpN == CUBLAS_OP_N);
static_assert(kLtOpT == CUBLAS_OP_T);
static_assert(kLtEpilogueDefault == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(kLtEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(kLtEpilogueReluBias == CUBLASLT_EPILOGUE_RELU_BIAS);
static_assert(kLtEpilogueGeluBias == CUBLASLT_EPILOGUE_GELU_BIAS);
static_assert(kLtDescTransA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kLtDescTransB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kLtDescEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(kLtDescBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kLtR8FE4M3 == CUDA_R_8F_E4M3);
static_assert(kLtR8FE5M2 == CUDA_R_8F_E5M2);
static_assert(kLtDescAScalePointer == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
static_assert(kLtDescBScalePointer == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(kLtDescFastAccum == CUBLASLT_MATMUL_DESC_FAST_ACCUM);
#if CUBLAS_VERSION >= 120900
static_assert(kLtDescAScaleMode == CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
static_assert(kLtDescBScaleMode == CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
static_assert(kLtScaleOuterVec32F == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
static_assert(kLtScaleVec128 == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
static_assert(kLtScaleBlock128 == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
#endif
static_assert(kLtDescBiasDataType == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(kLtLayoutBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(kLtLayoutBatchStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kLtPreferenceWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);

// The signatures: an assignment through the vendor's parameter types would not compile otherwise,
// so each is compared by the sizes that the C calling convention sees.
template <typename... A, typename... B>
constexpr bool same_shape(cublasStatus_t (*)(A...), int (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B)) {
    return false;
  } else {
    return ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);
  }
}
#define CATENARY_SAME(member, function) \
  static_assert(same_shape(decltype(&function){}, decltype(LtFunctions::member){}))
CATENARY_SAME(create, cublasLtCreate);
CATENARY_SAME(destroy, cublasLtDestroy);
CATENARY_SAME(desc_create, cublasLtMatmulDescCreate);
CATENARY_SAME(desc_destroy, cublasLtMatmulDescDestroy);
CATENARY_SAME(desc_set, cublasLtMatmulDescSetAttribute);
CATENARY_SAME(layout_create, cublasLtMatrixLayoutCreate);
CATENARY_SAME(layout_destroy, cublasLtMatrixLayoutDestroy);
CATENARY_SAME(layout_set, cublasLtMatrixLayoutSetAttribute);
CATENARY_SAME(preference_create, cublasLtMatmulPreferenceCreate);
CATENARY_SAME(preference_destroy, cublasLtMatmulPreferenceDestroy);
CATENARY_SAME(preference_set, cublasLtMatmulPreferenceSetAttribute);
CATENARY_SAME(heuristic, cublasLtMatmulAlgoGetHeuristic);
CATENARY_SAME(matmul, cublasLtMatmul);
#undef CATENARY_SAME
}  // namespace
#endif

using namespace catenary;
using namespace catenary::bench;

TEST_CASE("a chosen place that holds no library is told") {
  const test::TempDir folder;
  const test::ScopedEnv chosen("CATENARY_CUBLASLT", folder.path().c_str());
  CHECK(cublaslt_search_places() == std::vector<std::string>{folder.path()});
  Expected<LtLibrary> library = open_cublaslt();
  REQUIRE(!library);
  const ErrorReport report = take_report(library.takeError());
  CHECK(report.code == ErrorCode::kUnsupported);
  CHECK(report.message.find(folder.path()) != std::string::npos);
  CHECK(report.message.find("CATENARY_CUBLASLT") != std::string::npos);
}

TEST_CASE("descriptors take the attributes that a product sets") {
  Expected<LtLibrary> library = open_cublaslt();
  if (!library) {
    MESSAGE("skipped: " << take_report(library.takeError()).message);
    return;
  }
  const LtFunctions& api = library->api;
  CHECK(api.version() >= 120000);
  CHECK(std::string(api.status_name(kLtNotSupported)) == "CUBLAS_STATUS_NOT_SUPPORTED");
  LtMatmulDesc desc = nullptr;
  REQUIRE(api.desc_create(&desc, kLtCompute32F, kLtR32F) == kLtSuccess);
  const int op = kLtOpT;
  const unsigned epilogue = kLtEpilogueGeluBias;
  const int type = kLtR16BF;
  const void* bias = nullptr;
  CHECK(api.desc_set(desc, kLtDescTransA, &op, sizeof op) == kLtSuccess);
  CHECK(api.desc_set(desc, kLtDescTransB, &op, sizeof op) == kLtSuccess);
  CHECK(api.desc_set(desc, kLtDescEpilogue, &epilogue, sizeof epilogue) == kLtSuccess);
  CHECK(api.desc_set(desc, kLtDescBiasDataType, &type, sizeof type) == kLtSuccess);
  CHECK(api.desc_set(desc, kLtDescBiasPointer, &bias, sizeof bias) == kLtSuccess);
  CHECK(api.desc_destroy(desc) == kLtSuccess);
  LtLayout layout = nullptr;
  REQUIRE(api.layout_create(&layout, kLtR16BF, 1024, 2560, 12288) == kLtSuccess);
  const int count = 12;
  const i64 stride = 1024;
  CHECK(api.layout_set(layout, kLtLayoutBatchCount, &count, sizeof count) == kLtSuccess);
  CHECK(api.layout_set(layout, kLtLayoutBatchStride, &stride, sizeof stride) == kLtSuccess);
  CHECK(api.layout_destroy(layout) == kLtSuccess);
  LtPreference preference = nullptr;
  REQUIRE(api.preference_create(&preference) == kLtSuccess);
  const u64 bytes = kLtWorkspaceBytes;
  CHECK(api.preference_set(preference, kLtPreferenceWorkspaceBytes, &bytes, sizeof bytes) ==
        kLtSuccess);
  CHECK(api.preference_destroy(preference) == kLtSuccess);
}
