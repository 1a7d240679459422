// SPDX-License-Identifier: Apache-2.0
// GEMMs by cuBLASLt in the row-major terms of the IR: D[M,N] = epilogue(A[M,K] B[N,K]^T), with row
// strides and a strided batch; either operand may be MN-major. cuBLASLt is column-major, so it
// computes D^T = B A^T: its A is our B transposed, its B is our A, its m and n are our N and M.
#pragma once

#include <memory>

#include "bench/peer/cublaslt_library.h"
#include "bench/tuner.h"
#include "ir/types.h"

namespace catenary::bench {

// GELU is cuBLASLt's: the tanh approximation.
enum class LtEpilogue : u8 { kNone, kBias, kReluBias, kGeluBias };

// Scales of fp8 operands, from cuBLASLt 12.9 on. kNone: 1. kRows: a float for each row of A and B.
// kBlocks: a float for each row and 128 columns of A, rows innermost, and for each 128 rows and 128
// columns of B, columns innermost and their number a multiple of 4.
enum class LtScales : u8 { kNone, kRows, kBlocks };

// Sizes and strides in elements; D and the bias have the operands' dtype, or bf16 where that is
// fp8. f32 runs in tf32.
struct LtProblem {
  DType dtype = DType::kBF16;
  i64 m = 0, n = 0, k = 0;
  bool a_m_major = false;               // A is [K,M] in memory
  bool b_n_major = false;               // B is [K,N] in memory
  i64 row_a = 0, row_b = 0, row_d = 0;  // from one row in memory to the next
  i64 batch = 1;
  i64 batch_a = 0, batch_b = 0, batch_d = 0;  // from one batch to the next
  LtEpilogue epilogue = LtEpilogue::kNone;
  LtScales scales = LtScales::kNone;
  bool fast_accum = false;  // fp8: sums are not promoted to f32
  DType d_dtype() const { return is_fp8(dtype) ? DType::kBF16 : dtype; }
  bool operator==(const LtProblem&) const = default;
};

// Contiguous [m, k] x [n, k]^T.
LtProblem dense_problem(DType dtype, i64 m, i64 n, i64 k, LtEpilogue epilogue = LtEpilogue::kNone);

inline constexpr i64 kLtWorkspaceBytes = i64{64} << 20;

class CublasLt;

// One problem with its algorithms, in the order of the heuristic.
class LtMatmul {
 public:
  ~LtMatmul();
  LtMatmul(const LtMatmul&) = delete;
  LtMatmul& operator=(const LtMatmul&) = delete;

  const LtProblem& problem() const { return problem_; }
  int num_algorithms() const { return static_cast<int>(algorithms_.size()); }

  // Sets the scales of A and B for later runs: device addresses. Not with LtScales::kNone.
  Error set_scales(const void* a, const void* b) const;

  // Enqueues algorithm number `algorithm` on the session's stream. Pointers are device addresses;
  // `bias` is null without a bias. kUnsupported if the algorithm does not take the problem.
  Error run(int algorithm, const void* a, const void* b, const void* bias, void* d) const;

 private:
  friend class CublasLt;
  LtMatmul(const CublasLt& lt, const LtProblem& problem) : lt_(lt), problem_(problem) {}
  Error describe();
  Error find_algorithms(int most, const void* bias);
  Error set_bias(const void* bias) const;

  const CublasLt& lt_;
  LtProblem problem_;
  LtMatmulDesc desc_ = nullptr;
  LtLayout a_ = nullptr, b_ = nullptr, d_ = nullptr;  // cuBLASLt's A, B and D
  std::vector<LtHeuristic> algorithms_;
};

class CublasLt {
 public:
  // Opens the library, a handle on the session's context and the workspace. kUnsupported: no
  // usable library.
  static Expected<std::unique_ptr<CublasLt>> open(const Session& session);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  i64 version() const { return static_cast<i64>(library_.api.version()); }  // 130100

  // `most`: how many algorithms to ask for. `bias`: an address with the alignment of all biases;
  // `scale_a`, `scale_b`: those of scales. kUnsupported if the heuristic returns none.
  Expected<std::unique_ptr<LtMatmul>> matmul(const LtProblem& problem, int most, const void* bias,
                                             const void* scale_a = nullptr,
                                             const void* scale_b = nullptr) const;

 private:
  friend class LtMatmul;
  CublasLt(const Session& session, LtLibrary library)
      : session_(session), library_(std::move(library)) {}
  Error check(int status, const char* what) const;

  const Session& session_;
  LtLibrary library_;
  LtHandle handle_ = nullptr;
  cuda::DeviceBuffer workspace_;
};

}  // namespace catenary::bench
