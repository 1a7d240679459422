// SPDX-License-Identifier: Apache-2.0
#include "bench/peer/cublaslt.h"

#include <algorithm>

namespace catenary::bench {
namespace {

int lt_type(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return kLtR16BF;
    case DType::kF16:
      return kLtR16F;
    case DType::kE4M3:
      return kLtR8FE4M3;
    case DType::kE5M2:
      return kLtR8FE5M2;
    default:
      return kLtR32F;
  }
}

unsigned lt_epilogue(LtEpilogue epilogue) {
  switch (epilogue) {
    case LtEpilogue::kNone:
      return kLtEpilogueDefault;
    case LtEpilogue::kBias:
      return kLtEpilogueBias;
    case LtEpilogue::kReluBias:
      return kLtEpilogueReluBias;
    case LtEpilogue::kGeluBias:
      return kLtEpilogueGeluBias;
  }
  return kLtEpilogueDefault;
}

}  // namespace

LtProblem dense_problem(DType dtype, i64 m, i64 n, i64 k, LtEpilogue epilogue) {
  LtProblem problem;
  problem.dtype = dtype;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.row_a = k;
  problem.row_b = k;
  problem.row_d = n;
  problem.epilogue = epilogue;
  return problem;
}

Error CublasLt::check(int status, const char* what) const {
  if (status == kLtSuccess) return Error::success();
  const char* name = library_.api.status_name(status);
  const char* text = library_.api.status_string(status);
  const ErrorCode code = status == kLtNotSupported ? ErrorCode::kUnsupported : ErrorCode::kDriver;
  return make_error(code, "cuBLASLt, {}: {} ({})", what, name == nullptr ? "unknown status" : name,
                    text == nullptr ? "no text" : text);
}

Expected<std::unique_ptr<CublasLt>> CublasLt::open(const Session& session) {
  Expected<LtLibrary> library = open_cublaslt();
  if (!library) return library.takeError();
  std::unique_ptr<CublasLt> lt(new CublasLt(session, std::move(*library)));
  if (Error error = lt->check(lt->library_.api.create(&lt->handle_), "creating the handle")) {
    lt->handle_ = nullptr;
    return error;
  }
  Expected<cuda::DeviceBuffer> workspace = cuda::DeviceBuffer::allocate(kLtWorkspaceBytes);
  if (!workspace) return workspace.takeError();
  lt->workspace_ = std::move(*workspace);
  return lt;
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) library_.api.destroy(handle_);
}

Expected<std::unique_ptr<LtMatmul>> CublasLt::matmul(const LtProblem& problem, int most,
                                                     const void* bias, const void* scale_a,
                                                     const void* scale_b) const {
  std::unique_ptr<LtMatmul> matmul(new LtMatmul(*this, problem));
  if (Error error = matmul->describe()) return error;
  if (problem.scales != LtScales::kNone) {
    if (Error error = matmul->set_scales(scale_a, scale_b)) return error;
  }
  if (Error error = matmul->find_algorithms(most, bias)) return error;
  return matmul;
}

LtMatmul::~LtMatmul() {
  const LtFunctions& api = lt_.library_.api;
  for (LtLayout layout : {a_, b_, d_}) {
    if (layout != nullptr) api.layout_destroy(layout);
  }
  if (desc_ != nullptr) api.desc_destroy(desc_);
}

Error LtMatmul::describe() {
  const LtFunctions& api = lt_.library_.api;
  const LtProblem& p = problem_;
  const int type = lt_type(p.dtype);
  const int d_type = lt_type(p.d_dtype());
  const int compute = p.dtype == DType::kF32 ? kLtCompute32FFastTF32 : kLtCompute32F;
  const int op_a = p.b_n_major ? kLtOpN : kLtOpT;
  const int op_b = p.a_m_major ? kLtOpT : kLtOpN;
  const unsigned epilogue = lt_epilogue(p.epilogue);
  const auto layout = [&](LtLayout& out, int of, i64 rows, i64 columns, i64 leading, i64 stride) {
    int status =
        api.layout_create(&out, of, static_cast<u64>(rows), static_cast<u64>(columns), leading);
    if (status != kLtSuccess || p.batch == 1) return status;
    const int count = static_cast<int>(p.batch);
    status = api.layout_set(out, kLtLayoutBatchCount, &count, sizeof count);
    if (status != kLtSuccess) return status;
    return api.layout_set(out, kLtLayoutBatchStride, &stride, sizeof stride);
  };
  int status = api.desc_create(&desc_, compute, kLtR32F);
  const auto set = [&](int attribute, const void* value, size_t bytes) {
    if (status == kLtSuccess) status = api.desc_set(desc_, attribute, value, bytes);
  };
  set(kLtDescTransA, &op_a, sizeof op_a);
  set(kLtDescTransB, &op_b, sizeof op_b);
  set(kLtDescEpilogue, &epilogue, sizeof epilogue);
  if (p.epilogue != LtEpilogue::kNone) set(kLtDescBiasDataType, &d_type, sizeof d_type);
  if (p.scales != LtScales::kNone) {
    // cuBLASLt's A is our B.
    const bool rows = p.scales == LtScales::kRows;
    const int mode_a = rows ? kLtScaleOuterVec32F : kLtScaleBlock128;
    const int mode_b = rows ? kLtScaleOuterVec32F : kLtScaleVec128;
    set(kLtDescAScaleMode, &mode_a, sizeof mode_a);
    set(kLtDescBScaleMode, &mode_b, sizeof mode_b);
  }
  const signed char fast = 1;
  if (p.fast_accum) set(kLtDescFastAccum, &fast, sizeof fast);
  // Column-major layouts: the contiguous dimension first.
  const auto operand = [&](LtLayout& out, bool k_first, i64 free, i64 leading, i64 stride) {
    if (status != kLtSuccess) return;
    status = layout(out, type, k_first ? p.k : free, k_first ? free : p.k, leading, stride);
  };
  operand(a_, !p.b_n_major, p.n, p.row_b, p.batch_b);
  operand(b_, !p.a_m_major, p.m, p.row_a, p.batch_a);
  if (status == kLtSuccess) status = layout(d_, d_type, p.n, p.m, p.row_d, p.batch_d);
  return lt_.check(status, "describing a product");
}

Error LtMatmul::find_algorithms(int most, const void* bias) {
  const LtFunctions& api = lt_.library_.api;
  // The heuristic reads the pointer's alignment.
  if (Error error = set_bias(bias)) return error;
  LtPreference preference = nullptr;
  const u64 workspace = kLtWorkspaceBytes;
  int status = api.preference_create(&preference);
  if (status == kLtSuccess) {
    status =
        api.preference_set(preference, kLtPreferenceWorkspaceBytes, &workspace, sizeof workspace);
  }
  std::vector<LtHeuristic> found(static_cast<size_t>(std::max(most, 1)));
  int count = 0;
  if (status == kLtSuccess) {
    status = api.heuristic(lt_.handle_, desc_, a_, b_, d_, d_, preference,
                           static_cast<int>(found.size()), found.data(), &count);
  }
  if (preference != nullptr) api.preference_destroy(preference);
  if (Error error = lt_.check(status, "asking for algorithms")) return error;
  for (int i = 0; i < count; ++i) {
    if (found[i].state == kLtSuccess && found[i].workspace_bytes <= workspace) {
      algorithms_.push_back(found[i]);
    }
  }
  if (!algorithms_.empty()) return Error::success();
  return make_error(ErrorCode::kUnsupported, "cuBLASLt has no algorithm for {}x{}x{} {}",
                    problem_.m, problem_.n, problem_.k, dtype_text(problem_.dtype));
}

Error LtMatmul::set_bias(const void* bias) const {
  if (problem_.epilogue == LtEpilogue::kNone) return Error::success();
  return lt_.check(lt_.library_.api.desc_set(desc_, kLtDescBiasPointer, &bias, sizeof bias),
                   "setting the bias");
}

// cuBLASLt's A is our B.
Error LtMatmul::set_scales(const void* a, const void* b) const {
  const LtFunctions& api = lt_.library_.api;
  int status = api.desc_set(desc_, kLtDescAScalePointer, &b, sizeof b);
  if (status == kLtSuccess) status = api.desc_set(desc_, kLtDescBScalePointer, &a, sizeof a);
  return lt_.check(status, "setting the scales");
}

Error LtMatmul::run(int algorithm, const void* a, const void* b, const void* bias, void* d) const {
  if (Error error = set_bias(bias)) return error;
  const float one = 1;
  const float zero = 0;
  const int status = lt_.library_.api.matmul(lt_.handle_, desc_, &one, b, a_, a, b_, &zero, d, d_,
                                             d, d_, &algorithms_[algorithm].algorithm,
                                             reinterpret_cast<void*>(lt_.workspace_.get()),
                                             kLtWorkspaceBytes, lt_.session_.stream());
  return lt_.check(status, "running a product");
}

}  // namespace catenary::bench
