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

// Every layer of the table, once where models share it, with M of 1 to 4096; its group is M
// ("m16"). Layers are divided over the shards: `shard` of `shards` (from 1) has every `shards`-th
// with all M.
std::vector<Layer> model_sweep_layers(int shard, int shards);

}  // namespace catenary::bench
