// SPDX-License-Identifier: Apache-2.0
// One layer of a model as plain data, and as a case: its chain, and its peer.
#pragma once

#include "bench/cases/cases.h"

namespace catenary::bench {

struct Layer {
  enum class Kind : u8 {
    kDense,    // x[M,K] w[N,K]
    kDual,     // silu(x wg) * (x wu), both weights [N,K]
    kGrouped,  // x[M,G,K] or x[G,M,K], w[G,N,K]
    kExperts,  // x[M,K], w[E,N,K]; group ends divide the rows
  };
  enum class Epilogue : u8 { kNone, kBias, kBiasSilu, kBiasGelu, kSwiglu };
  Kind kind = Kind::kDense;
  std::string group = "dense";  // the summary that counts it
  DType dtype = DType::kBF16;
  Epilogue epilogue = Epilogue::kNone;  // kSwiglu: two weights; not for kDense, always for kDual
  i64 m = 0, n = 0, k = 0;              // kGrouped: M of each group; kExperts: M of all groups
  i64 groups = 1;
  bool rows_first = false;     // kGrouped: [M,G,..], else [G,M,..]
  std::vector<i64> rows = {};  // kExperts: of each group
  // kDense, kDual: weights of kI4 with a scale for 128, 64 or 32 columns, the most that divide K,
  // or of kI8 with one for each row.
  std::optional<DType> packed = {};
};

std::string_view epilogue_text(Layer::Epilogue epilogue);

// Columns that share a scale of a packed weight.
i64 scaled_columns(const Layer& layer);

// Bytes of inputs, weights and output, each once; flops of the contractions.
double layer_bytes(const Layer& layer);
double layer_flops(const Layer& layer);

Case layer_case(const Layer& layer);

}  // namespace catenary::bench
