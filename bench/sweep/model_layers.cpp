// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/model_layers.h"

#include "llvm/ADT/STLExtras.h"

namespace catenary::bench {
namespace {

constexpr ModelLayer kLayers[] = {
#define CATENARY_LAYER(model, k, n, bias) {model, k, n, bias},
#include "bench/sweep/layers.def"
#undef CATENARY_LAYER
};
constexpr i64 kRows[] = {1, 4, 8, 16, 24, 32, 64, 128, 512, 4096};

}  // namespace

llvm::ArrayRef<ModelLayer> model_layers() { return kLayers; }

std::vector<Layer> model_sweep_layers() {
  static_assert(std::size(kRows) == kModelLayerRows);
  std::vector<ModelLayer> distinct;
  for (const ModelLayer& layer : kLayers) {
    const bool known = llvm::any_of(distinct, [&](const ModelLayer& other) {
      return other.k == layer.k && other.n == layer.n && other.bias == layer.bias;
    });
    if (!known) distinct.push_back(layer);
  }
  std::vector<Layer> layers;
  for (const ModelLayer& one : distinct) {
    for (const i64 m : kRows) {
      Layer layer;
      layer.group = fmt::format("m{}", m);
      layer.epilogue = one.bias ? Layer::Epilogue::kBias : Layer::Epilogue::kNone;
      layer.m = m;
      layer.n = one.n;
      layer.k = one.k;
      layers.push_back(std::move(layer));
    }
  }
  return layers;
}

}  // namespace catenary::bench
