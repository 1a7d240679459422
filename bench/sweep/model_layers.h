// SPDX-License-Identifier: Apache-2.0
// The linear layers of real models, from decoding to prefill.
#pragma once

#include "bench/cases/layer.h"

namespace catenary::bench {

// A row of layers.def.
struct ModelLayer {
  const char* model;
  i64 k, n;
  bool bias;
};
llvm::ArrayRef<ModelLayer> model_layers();

// Every layer of the table, once if models share it, with M of 1 to 4096. All M of a layer are
// together; the group is M ("m16").
inline constexpr size_t kModelLayerRows = 10;
std::vector<Layer> model_sweep_layers();

}  // namespace catenary::bench
