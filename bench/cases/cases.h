// SPDX-License-Identifier: Apache-2.0
// What is measured: chains as text, each with what a peer does for the same result. Plain data;
// knows no device.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/peer/cublaslt.h"

namespace catenary::bench {

// One product of a peer: which tensors it reads and writes, and from which element on.
struct PeerProduct {
  LtProblem problem;
  std::string a, b, d;
  std::string bias;  // empty: none
  i64 a_offset = 0, b_offset = 0, d_offset = 0, bias_offset = 0;
};

// A tensor between a peer's steps.
struct PeerScratch {
  std::string name;
  TensorType type;
};

// What cuBLASLt has no epilogue for: a chain of ours, of one pointwise kernel.
struct PeerPointwise {
  std::string chain;
};

// What no product of the peer writes, and is zero: elements of `d`.
struct PeerZeros {
  std::string d;
  i64 offset = 0, elements = 0;
};

using PeerStep = std::variant<PeerProduct, PeerPointwise, PeerZeros>;

// Steps in order, over the case's tensors and the scratch ones.
struct Peer {
  std::string name;  // empty: there is no peer
  std::vector<PeerStep> steps;
  std::vector<PeerScratch> scratch;
};

struct Case {
  std::string name;      // "gemm_bias/8192x4096x4096/bf16"
  std::string group;     // which table it belongs to: "gemm", "swiglu", ...
  std::string dtype;     // of the inputs ("tf32" for f32 products)
  std::string epilogue;  // of a layer (layer.h): "none", "bias", ...
  std::string shape;     // MxNxK where there is a contraction
  std::string chain;     // text; one output
  std::string
      no_epilogue;       // the same chain without its epilogue, over the same tensors; empty: none
  double flops = 0;      // of the contractions
  double rate = 1;       // of the big bf16 product's rate, what this dtype's tensor cores reach
  i64 unread_bytes = 0;  // weights that no row meets
  i64 batch = 1;         // of a layer: groups, and M, N, K; of experts M is that of all groups
  i64 m = 0, n = 0, k = 0;
  int copies = 0;         // sets of tensors in rotation; 0: what the L2 asks for
  std::vector<i32> ends;  // contents of an i32 parameter
  Peer peer;
  Peer second_peer;  // another way of the peer to the same result
  std::string note;
};

std::vector<Case> all_cases();

// cases_grouped.cpp. Linear layers side by side, shape BxGxNxK: x [B,G,K] and [G,B,K], weights
// [G,N,K] and [G,K,N]; plain, with bias and SiLU, gated, and the gradients.
std::vector<Case> grouped_cases(i64 b, i64 g, i64 n, i64 k);

// cases_ragged.cpp. Experts of so many rows each, shape ExMxNxK: forward, gated, and the gradients.
std::vector<Case> ragged_cases(const std::string& kind, llvm::ArrayRef<i64> rows, i64 n, i64 k);
std::vector<Case> all_ragged_cases();

// A peer's `out` = silu(g_16) * u_16, and the two scratch tensors: `dtype` of `sizes`.
PeerPointwise gate_step(const std::string& out, llvm::ArrayRef<i64> sizes,
                        DType dtype = DType::kBF16);
std::vector<PeerScratch> gate_scratch(llvm::ArrayRef<i64> sizes, DType dtype = DType::kBF16);

// A strided batched product as one product per batch entry.
Peer loop_of(const PeerProduct& batched);

// A bf16 linear layer as chain text: y[m, n] of x[m, k] and the weight w[n, k].
std::string linear_text(i64 m, i64 n, i64 k);

// Is `name` matched by one of the comma-separated shell patterns? No pattern matches everything.
bool matches(const std::string& name, const std::string& patterns);

}  // namespace catenary::bench
