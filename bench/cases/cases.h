// SPDX-License-Identifier: Apache-2.0
// What is measured: chains as text, each with the steps of a peer that gives the same result. Plain
// data; knows no device.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/peer/cublaslt.h"

namespace catenary::bench {

// One GEMM of a peer. Offsets are the first element in each tensor.
struct PeerGemm {
  LtProblem problem;
  std::string a, b, d;
  std::string bias;  // empty: none
  i64 a_offset = 0, b_offset = 0, d_offset = 0, bias_offset = 0;
  std::string scale_a = "", scale_b = "";  // f32, as LtProblem::scales says; empty: 1
};

// A tensor between the steps of a peer.
struct PeerScratch {
  std::string name;
  TensorType type;
};

// A chain of ours with one pointwise kernel, for what cuBLASLt has no epilogue for.
struct PeerPointwise {
  std::string chain;
};

// Elements of `d` that are zero, and that no GEMM of the peer writes.
struct PeerZeros {
  std::string d;
  i64 offset = 0, elements = 0;
};

using PeerStep = std::variant<PeerGemm, PeerPointwise, PeerZeros>;

// Steps in order, over the tensors of the case and scratch tensors.
struct Peer {
  std::string name;  // empty: there is no peer
  std::vector<PeerStep> steps;
  std::vector<PeerScratch> scratch;
  bool own_weights = false;  // it multiplies by weights of its own, so its result is not compared
};

struct Case {
  std::string name;      // "gemm_bias/8192x4096x4096/bf16"
  std::string group;     // the table that it is in: "gemm", "swiglu", ...
  std::string dtype;     // of the inputs ("tf32" for f32 products)
  std::string epilogue;  // of a layer (layer.h): "none", "bias", ...
  std::string shape;     // MxNxK if there is a contraction
  std::string chain;     // text
  std::string
      no_epilogue;       // the same chain without its epilogue, over the same tensors; empty: none
  double flops = 0;      // of the contractions
  double rate = 1;       // of this dtype's tensor cores, relative to bf16
  i64 unread_bytes = 0;  // weights of groups without rows
  i64 batch = 1;         // of a layer: groups, M, N, K; of experts, M of all groups
  i64 m = 0, n = 0, k = 0;
  int copies = 0;         // sets of tensors in rotation; 0: as many as the L2 asks for
  std::vector<i32> ends;  // contents of an i32 parameter
  Peer peer;
  Peer second_peer;  // another implementation by the peer
  std::string note;
};

std::vector<Case> all_cases();

// grouped.cpp. Grouped linear layers, shape BxGxNxK: x [B,G,K] and [G,B,K], weights [G,N,K] and
// [G,K,N]; without epilogue, with bias and SiLU, dual, and the gradients.
std::vector<Case> grouped_cases(i64 b, i64 g, i64 n, i64 k);

// ragged.cpp. Experts with `rows` rows each, shape ExMxNxK: forward, dual, and the gradients.
std::vector<Case> ragged_cases(const std::string& kind, llvm::ArrayRef<i64> rows, i64 n, i64 k);
std::vector<Case> all_ragged_cases();

// fp8.cpp. Layers with e4m3 operands and scales: dense, gated, grouped, experts; shape MxNxK.
std::vector<Case> fp8_cases();

// quantised.cpp. Linear layers with int4 and int8 weights at small M, shape MxNxK.
std::vector<Case> quantised_cases();

// beside.cpp. Several weights over one activation, and gradients of weights that read one; shape
// MxNxK of all of them together.
struct QkvSizes {
  i64 k, q, kv;
};
Case qkv_case(i64 m, const QkvSizes& sizes);
Case wgrads_case(i64 rows, i64 n, i64 k);  // [rows, n] and [rows, k]
std::vector<Case> beside_cases();

// tensor_epilogues.cpp. Epilogues that read tensors of the size of the result; shape MxNxK, or
// MxGxNxK with a weight for each group.
std::vector<Case> tensor_epilogue_cases(i64 m, i64 groups, i64 n, i64 k);
std::vector<Case> all_tensor_epilogue_cases();

// rows.cpp. Sums, norms and softmax of the rows of x [M, K]; shape MxK.
std::vector<Case> row_cases(i64 m, i64 k);

// A peer's step `out` = silu(g_16) * u_16, and its two scratch tensors: `dtype` of `sizes`.
PeerPointwise gate_step(const std::string& out, llvm::ArrayRef<i64> sizes,
                        DType dtype = DType::kBF16);
std::vector<PeerScratch> gate_scratch(llvm::ArrayRef<i64> sizes, DType dtype = DType::kBF16);

// A strided batched GEMM as one GEMM per batch entry.
Peer loop_of(const PeerGemm& batched);

// A bf16 linear layer as chain text: y[m, n] of x[m, k] and the weight w[n, k].
std::string linear_text(i64 m, i64 n, i64 k);

// Does one of the comma-separated shell patterns match `name`? Without a pattern: true.
bool matches(const std::string& name, const std::string& patterns);

// The name and words of a chain with packed weights and `rows` rows. Above 64 the weights may be
// rounded first, as those of `catenary.torch` are.
inline std::string packed_chain_name(const std::string& name, i64 rows) {
  return name + (rows > 64 ? " rounded_weights " : "");
}

}  // namespace catenary::bench
